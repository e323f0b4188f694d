"""Servers in real sessions: `clew -p` as a process, real pipes, a scripted model that is strict."""

import json
from pathlib import Path
from typing import Any

from clew.agent.tools.spill import IN_FILE
from clew.core.messages.text import NOBODY_TO_ASK
from clew.system.config.layers import NOT_TRUSTED
from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, transcripts
from tests.fronts.terminal.screen import OnScreen
from tests.fronts.terminal.test_screen import READY
from tests.parts.mcp.yard import entry


def given(**servers: Any) -> str:
    return json.dumps({"mcpServers": servers})


def calls(*blocks: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    content = [{"tool": name, "input": value} for name, value in blocks]
    return {"scenario": 1, "answers": [{"content": content}, {"text": "Done."}]}


def results(server: Any) -> list[Any]:
    last = server.requests[-1].body["messages"][-1]["content"]
    return [block["content"] for block in last if block["type"] == "tool_result"]


def test_a_server_of_the_command_line_is_used_and_its_result_recorded(tmp_path: Path) -> None:
    plan = calls(("mcp__memo__echo", {"text": "hey"}))
    with serving(plan, strict=True) as server:
        done = clew(
            tmp_path, server.url, "-p", "go", "--mcp-config", given(memo=entry("honest")),
            "--allowedTools", "mcp__memo",
        )  # fmt: skip
        assert (done.returncode, done.stdout, done.stderr) == (0, "Done.\n", "")
        assert results(server) == ["you said hey"]
        first = server.requests[0].body
    assert "mcp__memo__* where * is one of" in json.dumps(first["messages"])
    deferred = [tool["name"] for tool in first["tools"] if tool.get("defer_loading")]
    assert "mcp__memo__echo" in deferred
    (path,) = transcripts(tmp_path)
    entries = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    (said,) = [e["toolUseResult"] for e in entries if e.get("toolUseResult")]
    assert said == [{"type": "text", "text": "you said hey"}]


def test_what_no_rule_allows_is_asked_whatever_the_server_says_of_it(tmp_path: Path) -> None:
    plan = calls(("mcp__memo__echo", {"text": "hey"}))
    with serving(plan, strict=True) as server:
        clew(tmp_path, server.url, "-p", "go", "--mcp-config", given(memo=entry("honest")))
        (result,) = results(server)
    assert NOBODY_TO_ASK in result


def test_a_rule_for_another_server_allows_nothing(tmp_path: Path) -> None:
    plan = calls(("mcp__memo_x__echo", {"text": "hey"}))
    with serving(plan, strict=True) as server:
        clew(
            tmp_path, server.url, "-p", "go", "--mcp-config", given(memo__x=entry("honest")),
            "--allowedTools", "mcp__memo",
        )  # fmt: skip
        (result,) = results(server)
    assert NOBODY_TO_ASK in result


def test_a_tool_that_is_denied_as_a_whole_is_not_offered(tmp_path: Path) -> None:
    plan = {"scenario": 1, "answers": [{"text": "Hello."}]}
    with serving(plan, strict=True) as server:
        clew(
            tmp_path, server.url, "-p", "go", "--mcp-config", given(memo=entry("honest")),
            "--disallowedTools", "mcp__memo__echo",
        )  # fmt: skip
        (request,) = server.requests
    names = [tool["name"] for tool in request.body["tools"]]
    assert "mcp__memo__fail" in names
    assert "mcp__memo__echo" not in names
    assert "echo" not in json.dumps(request.body["messages"]).replace("Use echo to be heard", "")


def test_a_projects_server_needs_trust_and_approval(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / ".mcp.json").write_text(given(memo=entry("honest")), "utf-8")
    plan = {"scenario": 1, "answers": [{"text": "Hello.", "times": "always"}]}
    with serving(plan, strict=True) as server:
        untrusted = clew(tmp_path, server.url, "-p", "go")
        assert f"MCP server memo: {NOT_TRUSTED}" in untrusted.stderr
        assert clew(tmp_path, server.url, "config", "trust").returncode == 0
        waiting = clew(tmp_path, server.url, "-p", "go")
        assert "needs approval" in waiting.stderr
        assert not any("mcp__" in json.dumps(r.body["tools"]) for r in server.requests)


def test_a_slow_server_holds_the_first_request_for_as_long_as_was_said(tmp_path: Path) -> None:
    plan = {"scenario": 1, "answers": [{"text": "Hello.", "times": "always"}]}
    slow = given(memo=entry("silent"))
    with serving(plan, strict=True) as server:
        settings = json.dumps({"env": {"CLEW_MCP_WAIT_MS": "100"}})
        done = clew(tmp_path, server.url, "-p", "go", "--mcp-config", slow, "--settings", settings)
        assert (done.returncode, done.stdout) == (0, "Hello.\n")


def test_a_long_result_is_kept_in_a_file(tmp_path: Path) -> None:
    plan = calls(("mcp__memo__long", {}))
    with serving(plan, strict=True) as server:
        clew(
            tmp_path, server.url, "-p", "go", "--mcp-config", given(memo=entry("rude")),
            "--allowedTools", "mcp__memo",
        )  # fmt: skip
        (result,) = results(server)
    assert len(result) < 60_000
    assert IN_FILE in result


def test_a_config_that_cannot_be_read_is_said_before_anything_is_asked(tmp_path: Path) -> None:
    for text in ("{", "no-such-file.json", '{"servers": {}}'):
        done = clew(tmp_path, "http://127.0.0.1:1", "-p", "go", "--mcp-config", text)
        assert done.returncode == 1
        assert "mcpServers" in done.stderr or "--mcp-config" in done.stderr
    with serving({"scenario": 1, "answers": [{"text": "Hi."}]}, strict=True) as server:
        wrong = given(memo={"comand": "x"})
        done = clew(tmp_path, server.url, "-p", "go", "--mcp-config", wrong)
    assert 'unknown field "comand"' in done.stderr


BROKEN = {"gone": {"command": "/no/such/program"}, "dead": entry("dies_at_once")}


def test_a_session_says_once_which_servers_it_does_without(tmp_path: Path) -> None:
    plan = {"scenario": 1, "answers": [{"text": "Fine.", "times": "always"}]}
    listed = json.dumps({"mcpServers": BROKEN | {"mute": entry("silent")}})
    waits = {"CLEW_MCP_WAIT_MS": "1500"}
    with serving(plan, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "hi", "--mcp-config", listed, environ=waits)
        assert (done.returncode, done.stdout) == (0, "Fine.\n")
        lines = [line for line in done.stderr.splitlines() if "MCP server" in line]
        assert len(lines) == 3
        assert "MCP server gone: failed: cannot be started: program not found" in done.stderr
        assert "MCP server dead: " in done.stderr
        assert "MCP server mute: still starting (see /mcp)" in done.stderr
        options = ("--mcp-config", listed)
        with OnScreen(tmp_path, server.url, *options, columns=120, env=waits) as screen:
            screen.expect(READY)
            # The page of servers does not wait for those that do not answer.
            screen.type("/mcp\r")
            screen.expect("still starting")
            assert "failed - failed" not in screen.text
            screen.type("hi\r")
            screen.expect("Fine.")
            screen.expect("MCP server gone: failed")
            screen.type("again\r")
            screen.expect(lambda text: text.count("Fine.") == 2)
            assert screen.text.count("MCP server gone") == 1
