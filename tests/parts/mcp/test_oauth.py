"""Logins with a loopback authorization server: the complete login, its refusals, and its lies."""

import asyncio
import json
import stat
import subprocess
import urllib.error
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clew.parts.mcp import oauth, oauth_words
from clew.parts.mcp.config import HttpServer, OAuthSettings
from clew.parts.mcp.credentials import TokenStore
from clew.parts.mcp.oauth import Loopback
from clew.parts.mcp.oauth_words import OAuthTokens
from clew.system.config.paths import find_places
from clew.system.transport.http import HttpTransport
from clew.system.transport.network import Network
from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, command, environment
from tests.parts.mcp.auth_server import authority, visit, visiting
from tests.parts.mcp.test_sessions import calls, results
from tests.parts.mcp.yard import yard


async def log_in(url: str, **oauth_settings: Any) -> OAuthTokens:
    transport = HttpTransport(Network())
    going: list[asyncio.Task[None]] = []
    try:
        return await oauth.obtain_tokens(
            HttpServer(url=url, oauth=OAuthSettings(**oauth_settings)),
            transport,
            lambda address: going.append(asyncio.create_task(visiting(address))),
            person_s=20,
        )
    finally:
        await transport.aclose()
        await asyncio.gather(*going, return_exceptions=True)


async def test_a_login_gives_tokens_that_open_the_server(tmp_path: Path) -> None:
    with authority() as there:
        tokens = await log_in(f"{there.url}/mcp")
        assert tokens.access == "access-1"
        assert "access-1" not in repr(tokens)
        store(tmp_path).save(f"{there.url}/mcp", tokens)
        async with yard(tmp_path, {"one": {"url": f"{there.url}/mcp"}}) as here:
            assert here.server().state == "ready", here.server().problem
            assert (await here.use("mcp__one__open")).content == "opened"


def store(folder: Path) -> TokenStore:
    return TokenStore(find_places({"CLEW_CONFIG_DIR": str(folder / "config"), "HOME": "/"}, folder))


async def test_without_a_login_the_server_wants_one_and_nothing_is_tried_again(
    tmp_path: Path,
) -> None:
    with authority() as there:
        async with yard(tmp_path, {"one": {"url": f"{there.url}/mcp"}}) as here:
            assert here.server().state == "needs-auth"
            assert "scope" in here.server().challenge
            assert len([1 for kind, _ in there.seen if kind == "mcp"]) == 1


async def test_a_token_that_was_turned_down_is_renewed_once(tmp_path: Path) -> None:
    with authority() as there:
        url = f"{there.url}/mcp"
        store(tmp_path).save(url, await log_in(url))
        there.tokens = {"another"}
        async with yard(tmp_path, {"one": {"url": url}}) as here:
            assert here.server().state == "ready"
            kept = store(tmp_path).load(url)
            assert kept is not None
            assert kept.access == "access-2"
            there.tokens, there.lies["refresh"] = set(), "refused"
            assert (await here.use("mcp__one__open")).is_error
            await here.until("needs-auth")


async def test_a_token_that_ends_soon_is_renewed_before_it_is_used(tmp_path: Path) -> None:
    with authority() as there:
        there.lives_s = 1
        url = f"{there.url}/mcp"
        store(tmp_path).save(url, await log_in(url))
        there.lives_s = 3600
        async with yard(tmp_path, {"one": {"url": url}}) as here:
            assert here.server().state == "ready"
            shown = [head.get("authorization") for kind, head in there.seen if kind == "mcp"]
            assert set(shown) == {"Bearer access-2"}


@pytest.mark.parametrize(
    ("lies", "words"),
    [
        ({"resource": "https://other.example/mcp"}, "another resource"),
        ({"metadata": {"issuer": "https://other.example"}}, "identifies itself as"),
        ({"metadata": {"code_challenge_methods_supported": ["plain"]}}, "PKCE"),
        ({"metadata": {"token_endpoint": "http://other.example/token"}}, "token_endpoint"),
        ({"metadata": {"authorization_endpoint": "javascript:alert(1)"}}, "authorization_endpoint"),
        ({"metadata": {"registration_endpoint": None}}, "clientId"),
        (
            {"callback": {"iss": "https://other.example"}},
            "does not come from the authorization server",
        ),
        ({"callback": {"error": "access_denied", "code": ""}}, "access_denied"),
        ({"callback": {"code": ""}}, "contains no authorization code"),
        ({"callback": {"code": "forged"}}, "no such code"),
    ],
)
async def test_what_does_not_fit_together_ends_the_login(lies: Any, words: str) -> None:
    with authority(**lies) as there, pytest.raises(oauth.LoginError, match=words):
        await log_in(f"{there.url}/mcp")


async def test_a_client_id_that_was_settled_is_used() -> None:
    with authority(metadata={"registration_endpoint": None}) as there:
        await log_in(f"{there.url}/mcp", client_id="mine")
        assert there.seen[-1][1]["client_id"] == "mine"


async def test_an_answer_with_another_state_is_none_and_nobody_is_waited_for_for_ever() -> None:
    async with Loopback("right") as back:
        waiting = asyncio.create_task(back.answer())
        with pytest.raises(urllib.error.HTTPError):
            await visiting(f"{back.redirect_uri}?state=wrong&code=x")
        with pytest.raises(urllib.error.HTTPError):
            await visiting(back.redirect_uri.replace("callback", "other"))
        assert not waiting.done()
        await visiting(f"{back.redirect_uri}?state=right&code=a+b")
        found = await waiting
        assert found.parameters["code"] == "a b"
        assert "a b" not in repr(found)
    with authority() as there:
        transport = HttpTransport(Network())
        with pytest.raises(oauth.LoginError, match="not completed"):
            await oauth.obtain_tokens(
                HttpServer(url=f"{there.url}/mcp"), transport, lambda _: None, person_s=0.05
            )
        await transport.aclose()


async def test_a_server_elsewhere_needs_https() -> None:
    transport = HttpTransport(Network())
    with pytest.raises(oauth.LoginError, match="https"):
        await oauth.obtain_tokens(HttpServer(url="http://10.0.0.1/mcp"), transport, lambda _: None)
    await transport.aclose()


# -- where tokens lie

KEPT = OAuthTokens(access="a" * 20, token_url="https://x/token", client_id="c", refresh="r")


def test_tokens_lie_in_a_file_of_their_owner_or_in_the_keyring(tmp_path: Path) -> None:
    there = store(tmp_path)
    path = tmp_path / "config" / "clew" / "mcp-tokens.json"
    assert there.load("https://x") is None
    assert there.save("https://x", KEPT) == str(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert there.load("https://x") == KEPT
    path.chmod(0o644)
    assert there.load("https://x") is None
    path.chmod(0o600)
    assert there.forget("https://x")
    assert not there.forget("https://x")


class Ring:
    class KeyringError(Exception):
        pass

    errors = SimpleNamespace(KeyringError=KeyringError)

    def __init__(self, *, works: bool = True) -> None:
        self.kept: dict[tuple[str, str], str] = {}
        self.works = works

    def get_password(self, service: str, name: str) -> str | None:
        return self.kept.get((service, name))

    def set_password(self, service: str, name: str, value: str) -> None:
        if not self.works:
            raise self.errors.KeyringError
        self.kept[service, name] = value

    def delete_password(self, service: str, name: str) -> None:
        del self.kept[service, name]


def test_a_keyring_is_used_where_there_is_one_that_works(tmp_path: Path) -> None:
    places = find_places({"CLEW_CONFIG_DIR": str(tmp_path), "HOME": "/"}, tmp_path)
    ring = Ring()
    there = TokenStore(places, ring)
    assert there.save("https://x", KEPT) == "the keyring"
    assert there.load("https://x") == KEPT
    assert not (tmp_path / "clew").exists()
    assert there.forget("https://x")
    assert TokenStore(places, Ring(works=False)).save("https://x", KEPT).endswith(".json")


# -- words


def test_challenges_and_places_are_read_without_trust() -> None:
    said = oauth_words.challenge_of(
        'Bearer realm="a \\"b\\"", resource_metadata=https://x/y, scope="s"'
    )
    assert said == {"realm": 'a "b"', "resource_metadata": "https://x/y", "scope": "s"}
    assert oauth_words.list_resource_urls(
        "https://x/mcp", {"resource_metadata": "https://evil/m"}
    ) == [
        "https://x/.well-known/oauth-protected-resource/mcp",
        "https://x/.well-known/oauth-protected-resource",
    ]
    own = {"resource_metadata": "https://x/m"}
    assert oauth_words.list_resource_urls("https://x", own)[0] == "https://x/m"
    assert len(oauth_words.list_issuer_urls("https://x")) == 2
    assert (
        oauth_words.list_issuer_urls("https://x/t")[-1]
        == "https://x/t/.well-known/openid-configuration"
    )
    assert not oauth_words.same_origin("https://x", "nonsense")


@pytest.mark.parametrize(
    ("url", "is_safe"),
    [
        ("https://x/y", True),
        ("http://localhost:80/y", True),
        ("http://x/y", False),
        ("file:///etc", False),
        ("https://user:pass@x/", False),
        ("https://x/\n", False),
        ("nonsense", False),
        (3, False),
    ],
)
def test_tokens_go_to_safe_places_only(url: Any, is_safe: bool) -> None:
    assert oauth_words.is_safe(url) is is_safe


def test_metadata_is_read_as_far_as_it_goes() -> None:
    assert oauth_words.issuers_of(3, "https://x") == ([], "")
    found = oauth_words.issuers_of(
        {"resource": "https://x", "authorization_servers": ["https://a", "http://b", 3],
         "scopes_supported": ["s", 4]}, "https://x/mcp",
    )  # fmt: skip
    assert found == (["https://a"], "s")
    assert not oauth_words.covers("https://x/a", "https://x/ab")
    older = oauth_words.without_metadata("https://x")
    assert older.token == "https://x/token"
    with pytest.raises(ValueError, match="authorization_endpoint"):
        oauth_words.issuer_of([], "https://x")
    full = {"authorization_endpoint": "https://x/a", "token_endpoint": "https://x/t",
            "scopes_supported": ["a", 1]}  # fmt: skip
    assert oauth_words.issuer_of(full, "https://x").scopes == ("a",)
    assert oauth_words.with_query("https://x?a=1", {"b": "c d", "e": ""}) == "https://x?a=1&b=c%20d"
    assert oauth_words.make_registration("r", "s")["scope"] == "s"
    assert oauth_words.query_of("/x?a=1&a=2&b") == {"a": "1", "b": ""}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ([], "no token"),
        ({"error": "bad", "error_description": "why"}, "bad: why"),
        ({"access_token": "a\nb"}, "no token"),
        ({"access_token": "a", "token_type": "mac"}, "unsupported token type"),
    ],
)
def test_an_answer_without_a_token_says_so(answer: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        oauth_words.tokens_of(
            answer, now_s=0, token_url="", client_id="", client_secret="", resource=""
        )


def test_a_token_is_stale_a_little_before_it_ends() -> None:
    given = {"access_token": "a", "expires_in": 100, "scope": "s"}
    made = oauth_words.tokens_of(
        given, now_s=0, token_url="", client_id="", client_secret="", resource="", refresh="old"
    )
    assert (made.refresh, made.scope, made.is_stale(50), made.is_stale(80)) == (
        "old",
        "s",
        False,
        True,
    )
    assert not KEPT.is_stale(1e12)


# -- the program


def test_clew_mcp_login_and_logout_as_a_user_uses_them(tmp_path: Path) -> None:
    with authority() as there, serving(calls(("mcp__locked__open", {})), strict=True) as server:
        url = f"{there.url}/mcp"
        assert clew(tmp_path, server.url, "mcp", "add", "locked", url).returncode == 0
        listed = clew(tmp_path, server.url, "mcp", "list")
        assert "needs login: clew mcp login locked" in listed.stdout
        with subprocess.Popen(
            command("mcp", "login", "locked", "--no-browser"),
            cwd=tmp_path / "work",
            env=environment(tmp_path, server.url),
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        ) as login:
            assert login.stdout is not None
            assert "Open this page" in login.stdout.readline()
            visit(login.stdout.readline().strip())
            assert "logged in to locked" in login.stdout.read()
            assert login.wait(20) == 0
        done = clew(tmp_path, server.url, "-p", "go", "--allowedTools", "mcp__locked")
        assert (done.returncode, results(server)) == (0, ["opened"])
        assert "access-1" not in json.dumps([r.body for r in server.requests])
        assert "logged out" in clew(tmp_path, server.url, "mcp", "logout", "locked").stdout
        again = clew(tmp_path, server.url, "mcp", "list")
        assert "needs login" in again.stdout
