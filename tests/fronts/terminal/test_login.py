"""`/login` and `clew login` at a terminal: the key is hidden, checked, and used at once."""

import json
from pathlib import Path

import pytest

from clew.commands.login import RejectedKeyError, check_key, check_saved_key
from clew.core.catalog.services import ROWS
from clew.providers.endpoint import read_endpoint
from clew.system.config.environment import freeze
from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew
from tests.fronts.terminal.pictures import looks_like
from tests.fronts.terminal.screen import OnScreen
from tests.fronts.terminal.terminal import Terminal
from tests.fronts.terminal.test_first_run import NO_KEY
from tests.fronts.terminal.test_linear import HELLO
from tests.fronts.terminal.test_screen import READY

KEYS_URL = ROWS["anthropic"].keys_url
KEY = "sk-ant-right-0123456789abcd"
# The default API, over a proxy that nobody runs: nothing leaves this machine.
OFFLINE = NO_KEY | {"HTTPS_PROXY": "http://127.0.0.1:9", "OLLAMA_HOST": "127.0.0.1:9"}


def saved(tmp_path: Path) -> Path:
    return tmp_path / "config" / "clew" / "credentials.json"


def test_a_key_is_typed_hidden_saved_and_used_by_the_session_at_once(tmp_path: Path) -> None:
    with OnScreen(tmp_path, "", env=OFFLINE, columns=160) as screen:
        screen.expect("No model configured")
        screen.expect("type /login")
        screen.expect(READY)
        screen.type("/login\r")
        screen.expect("Esc to cancel")
        screen.type("\x1b")
        screen.expect("nothing was saved")
        screen.type("/login\r")
        screen.expect("Esc to cancel")
        screen.type(f"\x1b[200~{KEY}\x1b[201~")
        screen.expect("•••")
        looks_like(screen, "login")
        screen.type("\r")
        screen.expect("cannot be reached")
        screen.expect("saved ...abcd")
        screen.expect("New session")
        screen.expect(READY)
        assert saved(tmp_path).stat().st_mode & 0o777 == 0o600
        # The new session has the key.
        assert screen.text.count("No model configured") == 1
        assert KEY.encode() not in screen.raw
        screen.type("/logout\r")
        screen.expect("Deleted the API key")
        assert not saved(tmp_path).exists()


def test_keys_of_other_services_are_saved_and_deleted_in_a_session(tmp_path: Path) -> None:
    key = "sk-openai-0123456789abcdef"
    with OnScreen(tmp_path, "", env=OFFLINE, columns=160) as screen:
        screen.expect("type /login SERVICE")
        screen.expect(READY)
        screen.type("/login opnai\r")
        screen.expect('unknown service "opnai" (did you mean "openai"?)')
        screen.type("\x15/login opena")
        screen.expect("> openai")
        screen.type("i\r")
        screen.expect(f"Paste an API key for OpenAI from {ROWS['openai'].keys_url}")
        screen.type(f"{key}\r")
        screen.expect("api.openai.com/v1 cannot be reached")
        screen.expect("...cdef in ")
        screen.expect("New session")
        # The session that had no model now has one of that service.
        screen.expect(f"{ROWS['openai'].model} · default mode")
        assert json.loads(saved(tmp_path).read_text("utf-8"))["services"] == {"openai": key}
        assert key.encode() not in screen.raw
        screen.type("/logout openai\r")
        screen.expect("Deleted the API key")
        assert not saved(tmp_path).exists()
    with OnScreen(tmp_path, "", env=OFFLINE | {"ANTHROPIC_API_KEY": KEY}, columns=220) as screen:
        screen.expect(READY)
        screen.type("/login openai\r")
        screen.expect("Paste an API key")
        screen.type(f"{key}\r")
        screen.expect(f"Run /model openai/{ROWS['openai'].model} to use it")


def test_line_mode_hides_a_typed_key_and_the_session_uses_it(tmp_path: Path) -> None:
    with Terminal(tmp_path, "", "--linear", **OFFLINE) as terminal:
        terminal.expect("> ")
        terminal.type("/login\n")
        terminal.expect("hidden")
        terminal.type("\n")
        terminal.expect("nothing was saved")
        terminal.expect("> ")
        terminal.type("/login\n")
        terminal.expect("hidden")
        terminal.type(f"{KEY}\n")
        terminal.expect("cannot be reached")
        terminal.expect("saved ...abcd")
        terminal.expect("> ")
        assert KEY in saved(tmp_path).read_text("utf-8")
        # What is typed next is shown again.
        terminal.type("/logout\n")
        terminal.expect("/logout")
        terminal.expect("Deleted the API key")
        terminal.expect("> ")
        terminal.type("/login mistral\n")
        terminal.expect(ROWS["mistral"].keys_url)
        terminal.expect("hidden")
        terminal.type("mistral-0123456789abcdef\n")
        terminal.expect("saved ...cdef")
        terminal.expect("> ")
        assert terminal.all.count("No model configured") == 1
        assert KEY not in terminal.all
        terminal.type("\x04")
        assert terminal.end() == 0


def test_clew_login_names_where_keys_come_from_and_hides_what_is_typed(tmp_path: Path) -> None:
    with OnScreen(tmp_path, "", "login", env=OFFLINE, columns=160) as screen:
        screen.expect("hidden")
        assert KEYS_URL in screen.text
        screen.type(f"{KEY}\n")
        assert screen.end() == 0
        assert "cannot be reached" in screen.text
        assert KEY.encode() not in screen.raw
    assert KEY in saved(tmp_path).read_text("utf-8")


def test_a_key_that_cannot_be_saved_is_one_error_that_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("not a folder", "utf-8")
    done = clew(tmp_path, "", "login", "mistral", input=KEY)
    assert done.returncode == 1
    assert done.stderr == (
        f"clew login: can't save the key: {tmp_path}/config/clew: Not a directory. Set CLEW_CONFIG_DIR "
        "to a writable folder, or set MISTRAL_API_KEY instead\n"
    )
    with OnScreen(tmp_path, "", "login", env=OFFLINE, columns=160) as screen:
        screen.expect("hidden")
        screen.type(f"{KEY}\n")
        screen.expect("can't save the key")
        assert screen.end() == 1
        assert "Traceback" not in screen.text
    with OnScreen(tmp_path, "", env=OFFLINE, columns=160) as screen:
        screen.expect(READY)
        screen.type("/login\r")
        screen.expect("Esc to cancel")
        screen.type(f"{KEY}\r")
        screen.expect("/login: can't save the key")


def test_clew_login_suggests_the_service_that_was_meant(tmp_path: Path) -> None:
    done = clew(tmp_path, "", "login", "opnai", input="sk-x")
    assert done.returncode == 2
    assert done.stderr == 'clew login: unknown service "opnai" (did you mean "openai"?)\n'


async def test_a_key_is_checked_with_a_request_that_asks_no_model() -> None:
    with serving(HELLO, api_key=KEY) as server:
        environment = freeze({"ANTHROPIC_BASE_URL": server.url})
        endpoint = read_endpoint(environment)
        assert "accepted" in await check_key(KEY, environment, endpoint)
        with pytest.raises(RejectedKeyError, match="401"):
            await check_key("sk-ant-wrong-0123456789", environment, endpoint)
        # A saved key never goes to another address, so it is not checked there.
        assert "not checked" in await check_saved_key(
            "sk-ant-other", {"ANTHROPIC_BASE_URL": server.url}
        )
        assert "sk-ant-other" not in str([request.headers for request in server.requests])
        assert not any(request.body for request in server.requests)
    assert "not checked" in await check_key(KEY, environment, endpoint)
