"""Resuming a session that another process has open: reported, and the current session continues."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import LoopbackServer, serving
from tests.fronts.headless.host_process import Hosted
from tests.fronts.terminal.screen import OnScreen
from tests.fronts.terminal.terminal import Terminal
from tests.fronts.terminal.test_screen import READY
from tests.requirements import requirement

SESSION = "0b5c2a1e-7d4f-4e0a-9c57-1f2e3d4c5b6a"
TALK: dict[str, Any] = {
    "scenario": 1,
    "answers": [
        {"when": {"user": "theirs"}, "text": "Heard."},
        {"when": {"user": "mine"}, "text": "Begun."},
        {"text": "I am still here.", "times": "always"},
    ],
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LoopbackServer]:
    """Keep the session open in another process while the fixture exists."""
    with (
        serving(TALK, strict=True) as served,
        Hosted(tmp_path, served.url, "--session-id", SESSION) as host,
    ):
        host.say("theirs")
        host.result()
        yield served


def refused(words: str) -> bool:
    """Return the text with its lines joined."""
    said = "".join(words.split())
    return f"session{SESSION}isopeninprocess" in said and f"--resume{SESSION}--fork" in said


@requirement("W29")
@pytest.mark.parametrize("how", ["by its id", "from the list"])
def test_on_the_screen_it_is_said_and_ones_own_session_goes_on(
    tmp_path: Path, server: LoopbackServer, how: str
) -> None:
    with OnScreen(tmp_path, server.url, rows=40) as screen:
        screen.expect(READY)
        screen.type("mine\r")
        screen.expect("Begun.")
        screen.expect_rest()
        if how == "by its id":
            screen.type(f"/resume {SESSION}\r")
        else:
            screen.type("/resume\r")
            screen.expect("1 session in this folder")
            screen.type("\r")
        screen.expect(refused)
        screen.type("and now?\r")
        screen.expect("I am still here.")
        screen.type("\x04")
        assert screen.end() == 0
    assert "Begun." in str(server.requests[-1].body["messages"])


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("my talk.jsonl", "the file name is not a session ID"),
        (f"{SESSION[:-1]}b.jsonl", "is empty"),
    ],
)
def test_what_is_no_session_to_go_on_with_ends_none(tmp_path: Path, name: str, told: str) -> None:
    with serving(TALK, strict=True) as server, Terminal(tmp_path, server.url) as terminal:
        (tmp_path / "work" / name).write_bytes(b"")
        terminal.expect("> ")
        terminal.type(f"/resume {name}\n")
        terminal.expect(told)
        terminal.expect("> ")
        terminal.type("mine\n")
        terminal.expect("Begun.")


@requirement("W29")
def test_line_by_line_it_is_said_and_ones_own_session_goes_on(
    tmp_path: Path, server: LoopbackServer
) -> None:
    with Terminal(tmp_path, server.url) as terminal:
        terminal.expect("> ")
        terminal.type("mine\n")
        terminal.expect("Begun.")
        terminal.expect("> ")
        terminal.type(f"/resume {SESSION}\n")
        terminal.expect("--fork-session")
        terminal.expect("> ")
        terminal.type("and now?\n")
        terminal.expect("I am still here.")
        assert refused(terminal.all)
        terminal.expect("> ")
        terminal.type("\x04")
        assert terminal.end() == 0
    assert "Begun." in str(server.requests[-1].body["messages"])
