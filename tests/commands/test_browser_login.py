"""`clew login openrouter --browser`: the page, the redirect, the exchange, and whose key it is.

The service and the browser are programs of this test; both keep to OpenRouter's documentation.
"""

import base64
import hashlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.fronts.headless.clew_process import clew
from tests.fronts.terminal.screen import OnScreen

KEY = "sk-or-v1-0123456789abcdefwxyz"
# A browser whose user agrees at once: it follows the redirect that the service would answer with.
BROWSER = f"""#!{sys.executable}
import sys, urllib.parse, urllib.request
url = urllib.parse.urlsplit(sys.argv[1])
fields = dict(urllib.parse.parse_qsl(url.query))
answer = {{"yes": "code=" + fields["code_challenge"], "no": "error=access_denied", "nothing": "state=x"}}["%s"]
stranger = fields["callback_url"].rsplit("/", 1)[0] + "/other?code=wrong"
for target in (stranger, fields["callback_url"] + "?" + answer):
    try:
        urllib.request.urlopen(target, timeout=10).read()
    except urllib.error.HTTPError as error:
        assert error.code == 404
"""


class Router(ThreadingHTTPServer):
    """A service that grants a key for the verifier of a challenge."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), RouterHandler)
        self.asked: list[tuple[str, str, Any]] = []
        self.url = f"http://127.0.0.1:{self.server_port}/api/v1"


class RouterHandler(BaseHTTPRequestHandler):
    server: Router

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, "", body))
        digest = hashlib.sha256(body["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        is_right = body["code"] == challenge and body["code_challenge_method"] == "S256"
        self.reply(200, {"key": KEY, "user_id": "u"}) if is_right else self.reply(403, {})

    def do_GET(self) -> None:
        key = self.headers.get("Authorization", "").removeprefix("Bearer ")
        self.server.asked.append((self.path, key, None))
        if self.path != "/api/v1/key":
            self.reply(200, {"data": []})
        elif key == KEY:
            self.reply(200, {"data": {"label": "sk-or-v1-012...xyz", "limit": None}})
        else:
            self.reply(401, {"error": {"message": "No auth credentials found"}})

    def reply(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Write nothing."""


@pytest.fixture
def router() -> Iterator[Router]:
    server = Router()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def prepare(tmp_path: Path, router: Router, answer: str = "yes") -> dict[str, str]:
    """Define the service in the user's settings, and return the variables for a run."""
    config = tmp_path / "config"
    config.mkdir(exist_ok=True)
    service = {"like": "openrouter", "url": router.url, "loginUrl": "http://127.0.0.1:9/auth"}
    (config / "settings.json").write_text(json.dumps({"services": {"router": service}}), "utf-8")
    browser = tmp_path / "browser"
    browser.write_text(BROWSER % answer, "utf-8")
    browser.chmod(0o755)
    return {"BROWSER": str(browser)}


def saved(tmp_path: Path) -> str:
    path = tmp_path / "config" / "clew" / "credentials.json"
    return path.read_text("utf-8") if path.exists() else ""


def log_in(tmp_path: Path, environ: dict[str, str], *args: str) -> subprocess.CompletedProcess[str]:
    return clew(tmp_path, "", "login", *args, environ=environ)


def test_a_login_in_a_browser_saves_the_granted_key(tmp_path: Path, router: Router) -> None:
    done = log_in(tmp_path, prepare(tmp_path, router), "router", "--browser")
    assert (done.returncode, done.stderr) == (0, "")
    assert "callback_url=http%3A%2F%2Flocalhost%3A" in done.stdout
    assert "saved ...wxyz" in done.stdout
    assert KEY not in done.stdout
    assert KEY in saved(tmp_path)
    assert [path for path, _, _ in router.asked] == ["/api/v1/auth/keys"]


def test_a_refused_login_saves_nothing(tmp_path: Path, router: Router) -> None:
    done = log_in(tmp_path, prepare(tmp_path, router, "no"), "router", "--browser")
    assert (done.returncode, done.stderr) == (
        1,
        "clew login: the login was denied: access_denied\n",
    )
    assert not saved(tmp_path)


def test_an_answer_without_a_code_saves_nothing(tmp_path: Path, router: Router) -> None:
    done = log_in(tmp_path, prepare(tmp_path, router, "nothing"), "router", "--browser")
    assert (done.returncode, done.stderr) == (
        1,
        "clew login: the response contains no authorization code\n",
    )
    assert not saved(tmp_path)


def test_only_services_with_a_login_open_a_browser(tmp_path: Path) -> None:
    done = log_in(tmp_path, {}, "openai", "--browser")
    assert done.returncode == 1
    assert done.stderr == (
        "clew login: OpenAI does not support browser login; services that do: openrouter\n"
    )


def test_an_empty_line_opens_the_browser_and_a_typed_key_is_checked(
    tmp_path: Path, router: Router
) -> None:
    environ = prepare(tmp_path, router)
    with OnScreen(tmp_path, "", "login", "router", env=environ, columns=160) as screen:
        screen.expect("leave it empty to log in with a browser")
        screen.type("\r")
        screen.expect("Open this page to log in")
        screen.expect("(key sk-or-v1-012...xyz)")
        screen.expect("saved ...wxyz")
        assert screen.end() == 0
        assert KEY.encode() not in screen.raw
    with OnScreen(tmp_path, "", "login", "router", env=environ, columns=160) as screen:
        screen.expect("leave it empty")
        screen.type("sk-or-wrong-0123456789\r")
        # The list of models is public; only the key's own page tells.
        screen.expect("rejected the key (HTTP 401); nothing was saved")
        assert screen.end() == 1
    assert KEY in saved(tmp_path)
