"""The first request waits for MCP servers: the terminal says so, and Escape ends the wait."""

import json
from pathlib import Path

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew
from tests.fronts.terminal.screen import OnScreen
from tests.fronts.terminal.test_linear import HELLO
from tests.fronts.terminal.test_screen import READY
from tests.parts.mcp.yard import entry

HANGS = {"command": "sleep", "args": ["1000"]}
LONG = {"CLEW_MCP_WAIT_MS": "60000"}


def test_the_user_sees_which_server_is_waited_for_and_can_interrupt_it(tmp_path: Path) -> None:
    config = json.dumps({"mcpServers": {"memo": entry("rude"), "hang": HANGS}})
    with (
        serving(HELLO) as server,
        OnScreen(tmp_path, server.url, "--mcp-config", config, "--", "go", env=LONG) as screen,
    ):
        screen.expect("Waiting up to 60 s for the MCP server hang  (")
        screen.expect("esc to interrupt)")
        screen.type("\x1b")
        screen.expect("Interrupted")
        screen.expect_rest()
        assert not server.requests
        # The next request waits no more, and has the tools of the server that is ready.
        screen.type("hello\r")
        screen.expect("Hello!")
        assert "mcp__memo__" in json.dumps(server.requests[0].body)
        assert "MCP server hang: still starting" in screen.text


def test_two_servers_are_named_together(tmp_path: Path) -> None:
    config = json.dumps({"mcpServers": {"one": HANGS, "two": HANGS}})
    with (
        serving(HELLO) as server,
        OnScreen(tmp_path, server.url, "--mcp-config", config, "--", "go", env=LONG) as screen,
    ):
        screen.expect("Waiting up to 60 s for the MCP servers one, two  (")


def test_a_command_that_waits_for_a_server_says_so_and_is_cancelled(tmp_path: Path) -> None:
    config = json.dumps({"mcpServers": {"hang": HANGS}})
    with (
        serving(HELLO) as server,
        OnScreen(tmp_path, server.url, "--mcp-config", config) as screen,
    ):
        screen.expect(READY)
        # The list does not wait.
        screen.type("/mcp\r")
        screen.expect("MCP servers")
        screen.expect_rest()
        screen.type("/mcp reconnect hang\r")
        screen.expect("Waiting up to 10 s for the MCP server hang  (")
        screen.type("\x1b")
        screen.expect("> /mcp reconnect hang\n\n  Cancelled")
        # No turn ran, so none was interrupted.
        assert "Interrupted" not in screen.text
        assert not server.requests


def test_without_a_key_no_server_is_waited_for(tmp_path: Path) -> None:
    config = json.dumps({"mcpServers": {"hang": HANGS}})
    done = clew(
        tmp_path,
        "https://api.anthropic.com",
        "-p",
        "--mcp-config",
        config,
        "hi",
        without="ANTHROPIC_API_KEY",
        environ={"CLEW_MCP_WAIT_MS": "3600000"},
    )
    assert done.returncode == 1
    assert "no API key" in done.stdout
