"""Credentials of clouds: signatures and tokens like the official ones, renewed once for all."""

import asyncio
import json
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from botocore.auth import SigV4Auth  # type: ignore[import-untyped]
from botocore.awsrequest import AWSRequest  # type: ignore[import-untyped]
from botocore.credentials import Credentials  # type: ignore[import-untyped]
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.core.catalog.models import USUAL
from clew.core.catalog.services import ROWS
from clew.providers.anthropic import CredentialError
from clew.providers.auth.rs256 import InvalidKeyError, make_token, sign
from clew.providers.auth.sigv4 import AwsKeys
from clew.providers.auth.sigv4 import sign as sign_for_aws
from clew.providers.auth.sources import CloudSources, Token, read_profile
from clew.providers.clouds import RenewedCredentials, with_region
from clew.system.process.spawn import Launcher
from clew.system.transport.http import HttpTransport
from clew.system.transport.network import Network

AT = "20261127T093000Z"
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=12)
NAMES = st.text("abcXYZ019-_.~:%", min_size=1, max_size=12)


def botocore_signs(url: str, body: bytes, keys: AwsKeys, region: str, service: str) -> str:
    request = AWSRequest("POST", url, headers={"content-type": "application/json"}, data=body)
    request.context["timestamp"] = AT
    credentials = Credentials(keys.access_key, keys.secret_key, keys.token or None)
    signer = SigV4Auth(credentials, service, region)
    request.headers["X-Amz-Date"] = AT
    if keys.token:
        request.headers["X-Amz-Security-Token"] = keys.token
    text = signer.string_to_sign(request, signer.canonical_request(request))
    return str(signer.signature(text, request))


@settings(max_examples=300, deadline=None)
@given(
    NAMES.map("m{}".format),
    st.binary(max_size=40),
    NAMES,
    st.one_of(st.just(""), NAMES),
    st.lists(NAMES, max_size=2),
)
def test_signatures_equal_those_of_botocore(
    model: str, body: bytes, secret: str, token: str, query: list[str]
) -> None:
    keys = AwsKeys(access_key="AKID", secret_key=secret, token=token)
    url = f"https://bedrock-runtime.eu-west-1.amazonaws.com/model/{model}/invoke"
    url += "?" + "&".join(f"{q.replace('%', '')}=1" for q in query) if query else ""
    made = sign_for_aws("POST", url, body, keys=keys, region="eu-west-1", service="bedrock", at=AT)
    expected = botocore_signs(url, body, keys, "eu-west-1", "bedrock")
    assert made["authorization"].endswith(f"Signature={expected}")
    assert repr(keys) == "AwsKeys(expires_at_s=None)"


@pytest.fixture(scope="module")
def private_key() -> Any:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def pem_of(key: Any, form: Any) -> str:
    return str(
        key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()
    )


@pytest.mark.parametrize("form", ["PKCS8", "TraditionalOpenSSL"])
def test_google_tokens_are_signed_like_cryptography_signs(private_key: Any, form: str) -> None:
    pem = pem_of(private_key, getattr(serialization.PrivateFormat, form))
    for text in (b"", b"a", b"claims" * 100):
        expected = private_key.sign(text, padding.PKCS1v15(), hashes.SHA256())
        assert sign(text, pem) == expected
    head, claims, signature = make_token({"iss": "me"}, pem, "k1").split(".")
    assert json.loads(urlsafe_b64decode(claims + "==")) == {"iss": "me"}
    assert json.loads(urlsafe_b64decode(head + "==")) == {"alg": "RS256", "typ": "JWT", "kid": "k1"}
    public = private_key.public_key()
    decoded = urlsafe_b64decode(signature + "==")
    public.verify(decoded, f"{head}.{claims}".encode(), padding.PKCS1v15(), hashes.SHA256())


@pytest.mark.parametrize("pem", ["", "no key", "-----BEGIN-----\nMAA=\n-----END-----", "MIIB"])
def test_an_invalid_key_is_said_without_showing_it(pem: str) -> None:
    with pytest.raises(InvalidKeyError) as told:
        sign(b"x", pem)
    assert not pem or pem not in str(told.value)


async def test_credentials_are_renewed_before_they_expire_and_once_for_all() -> None:
    now, fetched = 1000.0, 0

    async def fetch() -> Token:
        nonlocal fetched
        fetched += 1
        await asyncio.sleep(0)
        return Token(secret=f"t{fetched}", expires_at_s=now + 1000)

    held: RenewedCredentials[Token] = RenewedCredentials(fetch, lambda: now)
    found = await asyncio.gather(*(held.get(lambda _: False) for _ in range(5)))
    assert ({token.secret for token in found}, fetched) == ({"t1"}, 1)
    now += 800
    found = await asyncio.gather(*(held.get(lambda _: False) for _ in range(5)))
    assert ({token.secret for token in found}, fetched) == ({"t2"}, 2)
    refreshed = 0

    async def refresh() -> None:
        nonlocal refreshed
        refreshed += 1

    held._refresh = refresh
    found = await asyncio.gather(*(held.get(lambda t: t.secret == "t2") for _ in range(5)))
    assert refreshed == 1
    assert ({token.secret for token in found}, fetched) == ({"t3"}, 3)
    assert "t3" not in repr(found[0])


@asynccontextmanager
async def finding() -> AsyncIterator[Callable[..., CloudSources]]:
    launcher = Launcher()

    def make(home: Path, settings: Any = None, **environ: str) -> CloudSources:
        variables = {"HOME": str(home), "PATH": str(home), **environ}
        return CloudSources(variables, HttpTransport(Network()), launcher, home, settings)

    yield make
    await launcher.aclose()


def program(home: Path, name: str, printed: str) -> None:
    path = home / name
    path.write_text(f"#!/bin/sh\nprintf '%s' '{printed}'\n", "utf-8")
    path.chmod(0o755)


async def test_aws_keys_come_from_variables_profiles_and_programs(
    tmp_path: Path,
) -> None:
    async with finding() as sources:
        given = {"AWS_ACCESS_KEY_ID": "A", "AWS_SECRET_ACCESS_KEY": "B", "AWS_SESSION_TOKEN": "C"}
        keys = await sources(tmp_path, **given).find_aws_keys()
        assert (keys.access_key, keys.secret_key, keys.token) == ("A", "B", "C")
        folder = tmp_path / ".aws"
        folder.mkdir()
        made = json.dumps({"Version": 1, "AccessKeyId": "P", "SecretAccessKey": "Q",
                           "SessionToken": "R", "Expiration": "2026-11-27T10:00:00Z"})  # fmt: skip
        program(tmp_path, "printing", made)
        program(tmp_path, "aws", made.replace('"P"', '"S"'))
        (folder / "credentials").write_text(
            "[default]\naws_access_key_id=D\naws_secret_access_key=E\n", "utf-8"
        )
        (folder / "config").write_text(
            f"[default]\nregion=eu-west-1\n[profile run]\ncredential_process={tmp_path}/printing\n"
            "[profile sso]\nsso_session=x\n[profile bad]\ncredential_process=/nonexistent\n",
            "utf-8",
        )
        keys = await sources(tmp_path).find_aws_keys()
        assert (keys.access_key, keys.secret_key, keys.expires_at_s) == ("D", "E", None)
        keys = await sources(tmp_path, AWS_PROFILE="run").find_aws_keys()
        assert (keys.access_key, keys.token) == ("P", "R")
        assert keys.expires_at_s == 1795773600.0
        assert (await sources(tmp_path, AWS_PROFILE="sso").find_aws_keys()).access_key == "S"
        with pytest.raises(CredentialError, match="credential_process"):
            await sources(tmp_path, AWS_PROFILE="bad").find_aws_keys()
        (tmp_path / "aws").unlink()
        with pytest.raises(CredentialError, match="AWS_ACCESS_KEY_ID"):
            await sources(tmp_path, AWS_PROFILE="nobody").find_aws_keys()
        environ = {"HOME": str(tmp_path)}
        assert read_profile(environ)["region"] == "eu-west-1"
        assert with_region(environ)["AWS_REGION"] == "eu-west-1"
        assert with_region({"AWS_REGION": "x"}) == {"AWS_REGION": "x"}


async def test_commands_from_settings_print_and_refresh_keys_of_aws(tmp_path: Path) -> None:
    async with finding() as sources:
        made = json.dumps({"Credentials": {"AccessKeyId": "X", "SecretAccessKey": "Y"}})
        program(tmp_path, "export", made)
        export = {"awsCredentialExport": str(tmp_path / "export")}
        assert (await sources(tmp_path, export).find_aws_keys()).access_key == "X"
        with pytest.raises(CredentialError, match="awsCredentialExport"):
            await sources(tmp_path, {"awsCredentialExport": "exit 1"}).find_aws_keys()
        folder = tmp_path / ".aws"
        folder.mkdir()
        text = "[p]\naws_access_key_id=D\naws_secret_access_key=E\n"
        program(tmp_path, "text", text)
        refresh = {"awsAuthRefresh": f"{tmp_path}/text > {folder}/credentials"}
        keys = await sources(tmp_path, refresh, AWS_PROFILE="p").find_aws_keys()
        assert keys.access_key == "D"


async def test_google_and_azure_tokens_come_from_their_tools(
    tmp_path: Path,
) -> None:
    async with finding() as sources:
        (tmp_path / "account.json").write_text('{"type": "external_account"}', "utf-8")
        place = str(tmp_path / "account.json")
        with pytest.raises(CredentialError, match="external_account"):
            await sources(tmp_path, GOOGLE_APPLICATION_CREDENTIALS=place).find_google_token()
        with pytest.raises(CredentialError, match="cannot be read"):
            await sources(tmp_path, GOOGLE_APPLICATION_CREDENTIALS="/no").find_google_token()
        with pytest.raises(CredentialError, match="az login"):
            await sources(tmp_path).find_azure_token()
        program(tmp_path, "az", '{"accessToken": "azure", "expires_on": 1795773600}')
        token = await sources(tmp_path).find_azure_token()
        assert (token.secret, token.expires_at_s) == ("azure", 1795773600.0)


def test_the_rows_have_the_addresses_of_the_official_clients() -> None:
    from anthropic._models import FinalRequestOptions
    from anthropic.lib.bedrock._client import _prepare_options as for_bedrock
    from anthropic.lib.vertex._client import _prepare_options as for_vertex

    def options() -> Any:
        body = {"model": "claude-x", "max_tokens": 1, "messages": [], "stream": True}
        return FinalRequestOptions.construct(
            method="post", url="/v1/messages", json_data=body, headers={}
        )

    bedrock: Any = for_bedrock(options())
    assert bedrock.url == ROWS["bedrock-runtime"].paths["ask"].replace("{model}", "claude-x")
    assert bedrock.json_data["anthropic_version"] == USUAL
    vertex: Any = for_vertex(options(), project_id="p", region="r")
    ours = ROWS["vertex"].paths["ask"].removeprefix("/v1")
    for name, value in {"{model}": "claude-x", "{project}": "p", "{region}": "r"}.items():
        ours = ours.replace(name, value)
    assert vertex.url == ours
    assert vertex.json_data["anthropic_version"] == USUAL
