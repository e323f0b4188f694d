"""Servers that violate the protocol: the session continues and reports the problem plainly."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew
from tests.fronts.terminal.screen import OnScreen
from tests.fronts.terminal.terminal import Terminal
from tests.parts.mcp.test_sessions import calls, given, results

PROGRAM = Path(__file__).with_name("hostile_program.py")
YES = {"scenario": 1, "answers": [{"text": "Yes.", "times": "always"}]}
CANNOT = (
    "The server memo returned an invalid response: malformed JSON-RPC message "
    "(nested more than 200 levels deep)"
)


def hostile(name: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-I", "-S", str(PROGRAM), name]}


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("deep", CANNOT),
        ("deep part", CANNOT),
        ("deep refusal", CANNOT),
        ("deep news", "done"),
        ("twice", "done"),
        ("storm", "done"),
        # One schema that is none costs its tool the schema, and no other tool anything.
        ("odd schema", "done"),
    ],
)
def test_what_a_server_says_costs_its_call_at_most(tmp_path: Path, name: str, answer: str) -> None:
    with serving(calls(("mcp__memo__do", {})), strict=True) as server:
        done = clew(
            tmp_path, server.url, "-p", "go", "--mcp-config", given(memo=hostile(name)),
            "--allowedTools", "mcp__memo",
        )  # fmt: skip
        assert (done.returncode, done.stdout, done.stderr) == (0, "Done.\n", "")
        assert results(server) == [answer]
        offered = json.dumps(server.requests[0].body["tools"])
    assert ("mcp__memo__odd" in offered) is (name == "odd schema")


def test_a_form_whose_demands_are_no_names_is_filled_in(tmp_path: Path) -> None:
    with (
        serving(calls(("mcp__memo__do", {})), strict=True) as server,
        Terminal(
            tmp_path, server.url, "--mcp-config", given(memo=hostile("odd form")),
            "--allowedTools", "mcp__memo",
        ) as terminal,
    ):  # fmt: skip
        terminal.expect("> ")
        terminal.type("go\n")
        terminal.expect("[MCP server memo] Who?")
        terminal.expect("your own answer: ")
        terminal.type("Ada\n")
        terminal.expect("Done.")
        (result,) = results(server)
    assert json.loads(result) == {"action": "accept", "content": {"name": "Ada"}}


@pytest.mark.parametrize(
    ("name", "offered"),
    [
        ("huge words", "ab0"),
        ("odd words", "abfine"),
        ("no list of words", ""),
        ("deep words", ""),
        ("late words", ""),
        ("endless words", ""),
    ],
)
def test_what_a_server_would_put_for_a_word_disturbs_nobody_who_types(
    tmp_path: Path, name: str, offered: str
) -> None:
    with (
        serving(YES, strict=True) as server,
        OnScreen(tmp_path, server.url, "--mcp-config", given(memo=hostile(name))) as screen,
    ):
        screen.expect("default")
        screen.type("/mcp reconnect memo\r")
        screen.expect("memo: ready")
        screen.type("/mcp__memo__rev")
        screen.expect("> /mcp__memo__review")
        screen.type("iew ")
        for typed in ("a", "ab"):
            screen.type(typed[-1])
            screen.expect(f"/mcp__memo__review {typed}")
        screen.expect(f"> {offered}" if offered else f"review {typed}")
        for words in ("stale", "gone", "xxx", "two", "lines"):
            assert words not in screen.text
        screen.type("\x15plain words\r")
        screen.expect("Yes.")
        assert "plain words" in str(server.requests[-1].body["messages"])
