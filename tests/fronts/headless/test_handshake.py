"""Members of the handshake other than hooks and servers: tool aliases and planning instructions."""

import json
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import serving
from tests.fronts.headless.clew_process import transcripts
from tests.fronts.headless.host_process import Hosted
from tests.fronts.headless.test_rules_hold import calls
from tests.parts.mcp.yard import entry

Json = dict[str, Any]
YES = {"scenario": 1, "answers": [{"text": "Yes.", "times": "always"}]}


def test_the_model_may_call_a_tool_by_another_name(tmp_path: Path) -> None:
    plan = calls(
        ("Bash", {"text": "hello"}),
        ("Shell", {"command": "mkdir made && ls"}),
        ("Loop", {"command": "echo loop"}),
        ("Bare", {}),
    )
    # One step and no further: Shell is the real Bash, though Bash leads elsewhere.
    aliases = {
        "Bash": "mcp__memo__echo",
        "Shell": "Bash",
        "Loop": "Loop",
        "Bare": 7,
        "Odd": "",
    }
    with (
        serving(plan, strict=True) as server,
        Hosted(tmp_path, server.url, "--permission-prompt-tool", "stdio") as host,
    ):
        hooks = {"PreToolUse": [{"matcher": "mcp__memo__echo", "hookCallbackIds": ["pre"]}]}
        host.ask(
            "initialize",
            toolAliases=aliases,
            hooks=hooks,
            mcpServers={"memo": entry("honest")},
        )
        host.say("go")
        seen = host.request("hook_callback")
        assert seen["request"]["input"]["tool_name"] == "mcp__memo__echo"
        host.answer(seen)
        for name in ("mcp__memo__echo", "Bash"):
            asked = host.request("can_use_tool")
            assert asked["request"]["tool_name"] == name
            host.answer(asked, behavior="allow", updatedInput=asked["request"]["input"])
        assert host.result()["subtype"] == "success"
        assert host.end() == 0
        last = server.requests[-1].body["messages"]
    results = [b for m in last for b in m["content"] if b["type"] == "tool_result"]
    assert "you said hello" in str(results[0]["content"])
    assert "made" in str(results[1]["content"])
    assert "Unknown tool Loop" in str(results[2]["content"])
    assert "Unknown tool Bare" in str(results[3]["content"])
    # The conversation says what the model said.
    called = [b["name"] for m in last for b in m["content"] if b["type"] == "tool_use"]
    assert called == ["Bash", "Shell", "Loop", "Bare"]
    (path,) = transcripts(tmp_path)
    assert '"name":"Shell"' in path.read_text("utf-8")


def test_a_rule_that_denies_the_tool_denies_its_other_names(tmp_path: Path) -> None:
    plan = calls(("Shell", {"command": "echo no"}))
    with (
        serving(plan, strict=True) as server,
        Hosted(tmp_path, server.url, "--disallowedTools", "Bash(echo:*)") as host,
    ):
        host.ask("initialize", toolAliases={"Shell": "Bash"})
        host.say("go")
        result = host.result()
        assert host.end() == 0
    assert [denied["tool_name"] for denied in result["permission_denials"]] == ["Bash"]


def test_a_handshake_says_how_to_plan(tmp_path: Path) -> None:
    how = "Ask three people {first}.\nThen write a haiku."
    with (
        serving(YES, strict=True) as server,
        Hosted(tmp_path, server.url, "--permission-mode", "plan") as host,
    ):
        host.ask("initialize", planModeInstructions=how)
        host.say("go")
        host.result()
        assert host.end() == 0
        told = json.dumps(server.requests[0].body["messages"], ensure_ascii=False)
    said = json.dumps(how)[1:-1]
    assert told.count(said) == 1
    before, after = told.split(said)
    assert "calls that would change anything are refused" in before
    assert str(tmp_path / "config" / "plans") in before
    assert "ExitPlanMode" in after
    assert "how it will be verified" not in told


FORM = json.dumps({"mcpServers": {"memo": entry("rude")}})


def answers_to_form(home: Path, answer: Json) -> tuple[Json, Json, Json]:
    """What a host is asked when a server asks, what the server hears, and the frames of the session's state."""
    with (
        serving(calls(("mcp__memo__elicit", {})), strict=True) as server,
        Hosted(
            home, server.url, "--mcp-config", FORM, "--allowedTools", "mcp__memo",
            "--permission-prompt-tool", "stdio",
            CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS="1",
        ) as host,
    ):  # fmt: skip
        host.ask("initialize")
        host.say("go")
        asked = host.request("elicitation")
        host.answer(asked, **answer)
        host.result()
        assert host.end() == 0
        last = server.requests[-1].body["messages"]
    (result,) = [b for m in last for b in m["content"] if b["type"] == "tool_result"]
    said = result["content"] if isinstance(result["content"], str) else result["content"][0]["text"]
    states = [f["state"] for f in host.frames if f.get("subtype") == "session_state_changed"]
    assert said.startswith("{"), said
    return asked["request"], json.loads(said), states


def test_a_host_is_asked_what_a_server_wants_to_know(tmp_path: Path) -> None:
    accepts = {"action": "accept", "content": {"color": "blue"}}
    asked, heard, states = answers_to_form(tmp_path, accepts)
    assert (asked["mcp_server_name"], asked["message"]) == ("memo", "Which color?")
    assert asked["requested_schema"]["required"] == ["color"]
    assert heard == accepts
    assert states == ["running", "requires_action", "running", "idle"]


@pytest.mark.parametrize(
    ("answer", "heard"),
    [
        ({"action": "cancel"}, "cancel"),
        ({"action": "decline", "content": {"color": "blue"}}, "decline"),
        ({"action": "accept"}, "decline"),
        ({"action": "perhaps"}, "decline"),
        ({}, "decline"),
    ],
)
def test_what_is_no_answer_to_a_server_declines(tmp_path: Path, answer: Json, heard: str) -> None:
    assert answers_to_form(tmp_path, answer)[1] == {"action": heard}


MEMBERS = (
    "hooks", "sdkMcpServers", "mcpServers", "systemPrompt", "appendSystemPrompt",
    "agents", "skills", "title", "planModeInstructions", "toolAliases", "plugins",
    "promptSuggestions", "forwardSubagentText", "systemPromptSnapshot",
)  # fmt: skip


@pytest.mark.parametrize(
    "value",
    [5, True, "x", [], ["Bash", 5, {"path": 5, "skipMcpDiscovery": True}], {"a": 1}],
    ids=str,
)
def test_nothing_that_a_handshake_says_badly_stops_a_session(tmp_path: Path, value: Any) -> None:
    with serving(YES, strict=True) as server, Hosted(tmp_path, server.url) as host:
        said = host.ask("initialize", **dict.fromkeys(MEMBERS, value))
        assert said["subtype"] == "success"
        host.say("go")
        assert host.result()["result"] == "Yes."
        assert host.end() == 0
