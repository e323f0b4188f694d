"""Completions from MCP servers while the user types, on a real screen."""

import json
from pathlib import Path

import pytest

from clew.testing.server import serving
from tests.fronts.terminal.screen import OnScreen
from tests.fronts.terminal.test_screen import READY
from tests.parts.mcp.yard import entry

YES = {"scenario": 1, "answers": [{"text": "Yes.", "times": "always"}]}


def memo(mode: str = "honest") -> tuple[str, str]:
    return "--mcp-config", json.dumps({"mcpServers": {"memo": entry(mode)}})


def ready(screen: OnScreen) -> None:
    """Wait until the server is ready; it starts while the user types."""
    screen.expect(READY)
    screen.type("/mcp reconnect memo\r")
    screen.expect("memo: ready")


def test_a_servers_prompt_is_completed_argument_by_argument(tmp_path: Path) -> None:
    with serving(YES, strict=True) as server, OnScreen(tmp_path, server.url, *memo()) as screen:
        ready(screen)
        screen.type("/mcp__memo__rev")
        screen.expect("Reviews a file.")
        screen.type("\t")
        screen.expect("main.py")
        screen.expect("map.py")
        screen.type("map")
        screen.expect(lambda text: "map.py" in text and "main.py" not in text)
        screen.type("\t")
        screen.expect("kind")
        # What holds a space is no word of a line.
        assert "kind to" not in screen.text
        screen.type("\t\r")
        screen.expect("Yes.")
        (sent,) = [str(request.body["messages"]) for request in server.requests]
    assert "Review {'file': 'map.py', 'tone': 'kind'}." in sent


def test_resources_of_a_server_are_offered_with_what_it_would_put_into_them(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "memory.txt").write_text("mine", "utf-8")
    with serving(YES, strict=True) as server, OnScreen(tmp_path, server.url, *memo()) as screen:
        ready(screen)
        screen.type("look at @mem")
        screen.expect("memo:memo://one")
        screen.expect("memory.txt")
        screen.type("o:memo://t")
        screen.expect("memo:memo://two")
        screen.type("\t\r")
        screen.expect("Yes.")
        sent = str(server.requests[-1].body["messages"])
    assert "memo:memo://two" in sent
    assert "the memo" in sent


@pytest.mark.parametrize("typed", ["/mcp__memo__review ma", "@memo:memo://t"])
def test_a_server_that_does_not_answer_holds_no_key(tmp_path: Path, typed: str) -> None:
    with (
        serving(YES, strict=True) as server,
        OnScreen(tmp_path, server.url, *memo("no_words")) as screen,
    ):
        ready(screen)
        screen.type("/mcp__memo__rev")
        screen.expect("Reviews a file.")
        screen.type("\x15")
        screen.expect_gone("Reviews a file.")
        for key in typed:
            screen.type(key)
        screen.expect(typed)
        screen.type("\x15plain words\r")
        screen.expect("Yes.")
        (sent,) = [str(request.body["messages"]) for request in server.requests]
        assert "plain words" in sent


def test_tab_does_not_send_what_a_server_is_still_asked_about(tmp_path: Path) -> None:
    with (
        serving(YES, strict=True) as server,
        OnScreen(tmp_path, server.url, *memo("no_words")) as screen,
    ):
        ready(screen)
        screen.type("/mcp__memo__review ma")
        screen.expect("/mcp__memo__review ma")
        screen.type("\tx")
        screen.expect("/mcp__memo__review max")
        assert server.requests == []
