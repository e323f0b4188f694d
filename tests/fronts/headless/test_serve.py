"""clew as the backend of a program: lines of JSON in, frames out, through the real process."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from clew.core.messages.text import INTERRUPTED_FOR_TOOL_USE
from clew.fronts.headless.host_view import TOO_LATE
from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, transcripts, until
from tests.fronts.headless.host_process import BASE, Hosted
from tests.requirements import requirement

HELLO = {"scenario": 1, "answers": [{"text": "hello"}]}
MAKES = {
    "scenario": 1,
    "answers": [
        {"content": ["I look.", {"tool": "Bash", "input": {"command": "mkdir made"}}]},
        {"text": "done"},
    ],
}
STALLED = {
    "scenario": 1,
    "answers": [
        {
            "content": ["A whole thought.", "And half a one that never ends"],
            "faults": [{"after_events": 8, "stall_s": "forever"}],
        },
        {"text": "again"},
    ],
}
ASKED = ("--permission-prompt-tool", "stdio")


def entries(home: Path) -> list[dict[str, Any]]:
    (path,) = transcripts(home)
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@pytest.mark.parametrize(
    ("settings", "default"),
    [({}, "claude-sonnet-5-5"), ({"model": "haiku"}, "claude-haiku-5-5")],
)
def test_a_host_that_selects_the_first_model_of_the_list_gets_the_default(
    tmp_path: Path, settings: dict[str, Any], default: str
) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "settings.json").write_text(json.dumps(settings), "utf-8")
    with serving(HELLO, strict=True) as server, Hosted(tmp_path, server.url) as host:
        first, *models = host.ask("initialize")["response"]["models"]
        assert (first["value"], first["resolvedModel"]) == ("default", default)
        assert first["displayName"].startswith("Default (")
        assert first["supportedEffortLevels"] == ["low", "medium", "high", "xhigh", "max"]
        assert not next(m for m in models if m["value"] == "claude-3-opus")["supportsEffort"]
        assert host.ask("set_model", model=first["value"])["response"] == {"model": default}
        host.say("hi")
        host.result()
        assert server.requests[-1].body["model"] == default
        assert host.end() == 0


@requirement("R218")
def test_one_turn_begins_with_init_and_ends_with_its_result(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server, Hosted(tmp_path, server.url) as host:
        assert host.ask("initialize")["response"]["models"]
        host.say("hi", uuid="11111111-1111-4111-8111-111111111111")
        result = host.result()
        logged = entries(tmp_path)
        assert host.end() == 0
        assert host.errors() == ""
    assert host.kinds() == ["control_response", "init", "assistant", "success"]
    said = next(e for e in logged if e["type"] == "user")
    assert said["uuid"] == "11111111-1111-4111-8111-111111111111"
    assert result["user_message_uuids"] == [said["uuid"]]
    assert result["result"] == "hello"
    assert result["terminal_reason"] == "completed"
    answer = next(e for e in logged if e["type"] == "assistant")
    assert host.frames[2]["uuid"] == answer["uuid"]
    assert host.frames[1]["session_id"] == result["session_id"] == answer["sessionId"]


def test_a_program_may_ask_with_no_handshake_and_end_at_once(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server, Hosted(tmp_path, server.url) as host:
        host.say("hi", session_id="default", parent_tool_use_id=None)
        assert host.end() == 0
    assert host.kinds() == ["init", "assistant", "success"]


def test_nothing_said_is_nothing_done(tmp_path: Path) -> None:
    with serving(HELLO) as server:
        with Hosted(tmp_path, server.url) as host:
            assert host.end() == 0
            assert host.frames == []
        with Hosted(tmp_path, server.url) as host:
            host.ask("initialize")
            assert host.ask("initialize")["subtype"] == "success"
            assert host.end() == 0
        assert server.requests == []


def test_a_prompt_on_the_command_line_streams_too(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "hi", "--output-format=stream-json", "--verbose")
    frames = [json.loads(line) for line in done.stdout.splitlines()]
    assert [f["type"] for f in frames] == ["system", "assistant", "result"]
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (("--output-format", "stream-json"), "--verbose"),
        (("--input-format", "stream-json"), "--output-format stream-json"),
        ((*BASE, "--session-id", "x"), "UUID"),
        ((*BASE, "--includ-partial-messages"), "did you mean --include-partial-messages"),
        ((*BASE, "--setting-sources", "user,global"), "user, project, local"),
        ((*BASE, "--system-prompt-file", "nowhere"), "No such file"),
    ],
)
def test_a_wrong_command_line_is_said_on_standard_error_alone(
    tmp_path: Path, args: tuple[str, ...], why: str
) -> None:
    done = clew(tmp_path, "http://127.0.0.1:9", "-p", "hi", *args)
    assert done.returncode == 1
    assert why in done.stderr
    assert done.stdout == ""


def test_a_session_that_is_not_there_is_a_result_and_a_code(tmp_path: Path) -> None:
    with serving(HELLO) as server, Hosted(tmp_path, server.url, "--resume=nobody") as host:
        host.send(type="control_request", request_id="r", request={"subtype": "initialize"})
        result = host.result()
        assert result["subtype"] == "error_during_execution"
        assert "nobody" in result["errors"][0]
        assert host.end() == 1
        assert "nobody" in host.errors()


def test_bad_lines_are_answered_and_survived(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server, Hosted(tmp_path, server.url) as host:
        host.ask("initialize")
        host.write(b"\n{half\n[]\n" + b'{"type":"user"}\n{"type":"keep_alive"}\n{"type":"new"}\n')
        unknown = host.ask("fly")
        assert unknown["error"] == "Unsupported control request subtype: fly"
        host.send(type="control_request", request_id="r9", request={})
        bad = host.until(lambda f: f["type"] == "control_response")["response"]
        assert (bad["request_id"], bad["subtype"]) == ("r9", "error")
        host.say("hi" + "x" * 300_000)
        assert host.result()["result"] == "hello"
        assert host.end() == 0
    notices = [f["content"] for f in host.frames if f.get("subtype") == "informational"]
    assert len(notices) == 3
    assert "invalid JSON" in notices[0]


def test_the_host_permits_a_call_with_another_input_and_a_rule(tmp_path: Path) -> None:
    plan = {"scenario": 1, "answers": [*MAKES["answers"], *MAKES["answers"]]}
    with (
        serving(plan, strict=True) as server,
        Hosted(tmp_path, server.url, *ASKED, CLAUDE_CODE_SDK_READS_SESSION_STATE="1") as host,
    ):
        host.ask("initialize")
        host.say("go")
        asked = host.request("can_use_tool")
        assert asked["request"]["input"] == {"command": "mkdir made"}
        (offered,) = asked["request"]["permission_suggestions"]
        assert offered["rules"] == [{"toolName": "Bash", "ruleContent": "mkdir *"}]
        host.answer(
            asked,
            behavior="allow",
            updatedInput={"command": "mkdir other"},
            updatedPermissions=[offered | {"destination": "session"}],
        )
        assert host.result()["permission_denials"] == []
        assert (tmp_path / "work" / "other").is_dir()
        host.say("and again")
        host.result()
        assert (tmp_path / "work" / "made").is_dir()
        assert host.end() == 0
    states = [f["state"] for f in host.frames if f.get("subtype") == "session_state_changed"]
    assert states == ["running", "requires_action", "running", "idle", "running", "idle"]
    assert all(f["sdk_host_only"] for f in host.frames if "state" in f)


@requirement("R090")
def test_a_denial_reads_as_the_host_said_it(tmp_path: Path) -> None:
    with serving(MAKES, strict=True) as server, Hosted(tmp_path, server.url, *ASKED) as host:
        host.say("go")
        host.answer(host.request("can_use_tool"), behavior="deny", message="not in here")
        result = host.result()
        assert host.end() == 0
    told = next(f for f in host.frames if f["type"] == "user")
    assert told["message"]["content"][0]["content"] == "not in here"
    assert result["permission_denials"][0]["tool_input"] == {"command": "mkdir made"}
    assert result["num_turns"] == 2


def test_a_denial_that_interrupts_ends_the_turn(tmp_path: Path) -> None:
    with serving(MAKES, strict=True) as server, Hosted(tmp_path, server.url, *ASKED) as host:
        host.say("go")
        asked = host.request("can_use_tool")
        host.answer(asked, behavior="deny", message="stop", interrupt=True)
        result = host.result()
        assert (result["subtype"], result["terminal_reason"]) == (
            "error_during_execution",
            "aborted_tools",
        )
        # The prompt, the result and the interruption.
        assert result["num_turns"] == 3
        told = [f["message"]["content"][0] for f in host.frames if f["type"] == "user"]
        assert [block["type"] for block in told] == ["tool_result", "text"]
        assert told[1]["text"] == INTERRUPTED_FOR_TOOL_USE
        host.say("again")
        host.result()
        assert host.end() == 0
        sent = server.requests[1].body["messages"][-1]["content"]
        assert [block["type"] for block in sent] == ["tool_result", "text", "text"]
        assert INTERRUPTED_FOR_TOOL_USE in sent[1]["text"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"subtype": "error", "error": "callback raised"}, "callback raised"),
        ({"subtype": "success", "response": {"behavior": "perhaps"}}, "expected"),
    ],
)
def test_an_answer_of_no_use_is_a_no_that_the_model_reads(
    tmp_path: Path, answer: dict[str, Any], words: str
) -> None:
    with serving(MAKES, strict=True) as server, Hosted(tmp_path, server.url, *ASKED) as host:
        host.say("go")
        asked = host.request("can_use_tool")
        host.send(type="control_response", response=answer | {"request_id": asked["request_id"]})
        assert host.result()["subtype"] == "success"
        assert host.end() == 0
    told = next(f for f in host.frames if f["type"] == "user")["message"]["content"][0]
    assert told["is_error"]
    assert told["content"].startswith("Tool permission request failed: Error: ")
    assert words in told["content"]


def test_a_host_that_leaves_while_it_is_asked_is_a_no(tmp_path: Path) -> None:
    with serving(MAKES, strict=True) as server, Hosted(tmp_path, server.url, *ASKED) as host:
        host.say("go")
        host.request("can_use_tool")
        assert host.end() == 0
    assert host.frames[-1]["type"] == "result"
    told = next(f for f in host.frames if f["type"] == "user")["message"]["content"][0]
    assert "stream closed" in told["content"]


def test_where_no_host_is_asked_the_denial_is_reported(tmp_path: Path) -> None:
    with serving(MAKES, strict=True) as server, Hosted(tmp_path, server.url) as host:
        host.say("go")
        assert host.end() == 0
    assert "permission_denied" in host.kinds()
    assert not (tmp_path / "work" / "made").exists()


def test_an_interrupt_keeps_what_was_said_and_the_next_turn_continues(tmp_path: Path) -> None:
    with (
        serving(STALLED, strict=True) as server,
        Hosted(tmp_path, server.url, "--include-partial-messages") as host,
    ):
        assert host.ask("initialize")["subtype"] == "success"
        assert host.ask("interrupt")["response"] == {"still_queued": []}
        host.say("go")
        host.until(lambda f: f["type"] == "stream_event" and "delta" in f["event"])
        assert host.ask("interrupt")["subtype"] == "success"
        result = host.result()
        assert result["terminal_reason"] == "aborted_streaming"
        assert (result["is_error"], result["num_turns"]) == (True, 2)
        ends = [f["event"]["type"] for f in host.frames if f["type"] == "stream_event"]
        assert ends[-3:] == ["content_block_stop", "message_delta", "message_stop"]
        cut = [f for f in host.frames if f["type"] == "assistant"]
        assert [f.get("aborted") for f in cut] == [None, True]
        host.say("and")
        assert host.result()["result"] == "again"
        assert host.end() == 0
    assert any(
        f["type"] == "user" and "interrupted by user" in str(f["message"]) for f in host.frames
    )


def test_an_interrupt_right_after_a_prompt_applies_to_it(tmp_path: Path) -> None:
    forever = {"content": ["Never"], "faults": [{"after_events": 1, "stall_s": "forever"}]}
    story = {"scenario": 1, "answers": [{"text": "later"}, forever]}
    with serving(story, strict=True) as server, Hosted(tmp_path, server.url) as host:
        # The session is not open yet, so no turn can run.
        host.say("go", uuid="11111111-1111-4111-8111-111111111111")
        assert host.ask("interrupt")["response"] == {"still_queued": []}
        result = host.result()
        assert result["terminal_reason"] == "aborted_streaming"
        assert result["user_message_uuids"] == ["11111111-1111-4111-8111-111111111111"]
        host.say("and")
        assert host.result()["result"] == "later"
        assert len(server.requests) == 1
        assert host.end() == 0


def test_an_interrupt_while_the_host_is_asked_withdraws_the_question(tmp_path: Path) -> None:
    with serving(MAKES, strict=True) as server, Hosted(tmp_path, server.url, *ASKED) as host:
        host.say("go")
        asked = host.request("can_use_tool")
        host.ask("interrupt")
        result = host.result()
        assert (result["terminal_reason"], result["num_turns"]) == ("aborted_tools", 3)
        assert result["stop_reason"] == "tool_use"
        withdrawn = [f for f in host.frames if f["type"] == "control_cancel_request"]
        assert [f["request_id"] for f in withdrawn] == [asked["request_id"]]
        assert host.end() == 1


def test_partial_messages_are_the_stream_and_blocks_come_before_their_ends(
    tmp_path: Path,
) -> None:
    with (
        serving(HELLO, strict=True) as server,
        Hosted(tmp_path, server.url, "--include-partial-messages") as host,
    ):
        host.say("hi")
        assert host.end() == 0
    order = [f["event"]["type"] if f["type"] == "stream_event" else f["type"] for f in host.frames]
    assert order[-5:] == [
        "assistant",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "result",
    ]


def test_the_same_prompt_twice_is_asked_once_and_a_silent_one_not_at_all(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server, Hosted(tmp_path, server.url) as host:
        host.say("for later", shouldQuery=False)
        first = host.result()
        assert (first["num_turns"], first["result"]) == (0, "")
        assert server.requests == []
        host.say("hi", uuid="41111111-1111-4111-8111-111111111111")
        host.say("hi", uuid="41111111-1111-4111-8111-111111111111")
        assert host.end() == 0
        assert len(server.requests) == 1
        assert "for later" in str(server.requests[0].body["messages"])
    assert host.kinds().count("success") == 2


def test_prompts_sent_together_are_two_turns(tmp_path: Path) -> None:
    plan = {"scenario": 1, "answers": [{"text": "one"}, {"text": "two"}]}
    with serving(plan, strict=True) as server, Hosted(tmp_path, server.url) as host:
        host.say("a", uuid="21111111-1111-4111-8111-111111111111")
        host.say("b", uuid="31111111-1111-4111-8111-111111111111")
        assert host.end() == 0
    results = [f for f in host.frames if f["type"] == "result"]
    assert [f["result"] for f in results] == ["one", "two"]


def test_words_during_a_turn_are_heard_in_it_or_are_the_next(tmp_path: Path) -> None:
    with serving(MAKES, strict=True) as server, Hosted(tmp_path, server.url, *ASKED) as host:
        host.say("go", uuid="21111111-1111-4111-8111-111111111111")
        asked = host.request("can_use_tool")
        host.say("be quick", uuid="31111111-1111-4111-8111-111111111111")
        host.answer(asked, behavior="allow", updatedInput={"command": "mkdir made"})
        result = host.result()
        assert host.end() == 0
        assert "be quick" in str(server.requests[1].body["messages"][-1])
    assert result["result"] == "done"
    assert result["user_message_uuids"] == [
        "21111111-1111-4111-8111-111111111111",
        "31111111-1111-4111-8111-111111111111",
    ]


@pytest.mark.parametrize("tool", ["Bash", "Read"])
def test_an_approval_with_another_input_does_not_override_a_deny_rule(
    tmp_path: Path, tool: str
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / ".env").write_text("KEY=1\n", "utf-8")
    given = {"Bash": {"command": "mkdir made"}, "Read": {"file_path": "/etc/hostname"}}[tool]
    other = {"Bash": {"command": "cat .env; mkdir made"}, "Read": {"file_path": ".env"}}[tool]
    plan = {
        "scenario": 1,
        "answers": [{"content": [{"tool": tool, "input": given}]}, {"text": "done"}],
    }
    rules = '{"permissions": {"deny": ["Read(.env)"]}}'
    with (
        serving(plan, strict=True) as server,
        Hosted(tmp_path, server.url, *ASKED, "--settings", rules) as host,
    ):
        host.say("go")
        host.answer(host.request("can_use_tool"), behavior="allow", updatedInput=other)
        host.result()
        assert host.end() == 0
        told = str(server.requests[1].body["messages"][-1])
    assert "denied by Read(.env)" in told
    assert "KEY=1" not in told
    assert not (tmp_path / "work" / "made").exists()


def test_an_approval_of_another_command_of_a_skill_does_not_override_a_deny_rule(
    tmp_path: Path,
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / ".env").write_text("KEY=1\n", "utf-8")
    skill = tmp_path / "config" / "commands" / "poke.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("It says !`mkdir made`.", "utf-8")
    rules = '{"permissions": {"deny": ["Read(.env)"]}}'
    with (
        serving(HELLO) as server,
        Hosted(tmp_path, server.url, *ASKED, "--settings", rules) as host,
    ):
        host.say("/poke")
        asked = host.request("can_use_tool")
        host.answer(asked, behavior="allow", updatedInput={"command": "cat .env; mkdir made"})
        result = host.result()
        host.end()
        sent = str([request.body for request in server.requests])
    assert "denied by Read(.env)" in str(result)
    assert "KEY=1" not in sent
    assert not (tmp_path / "work" / "made").exists()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_to_end_keeps_the_work_and_has_its_code(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    with (
        serving(STALLED, strict=True) as server,
        Hosted(tmp_path, server.url, "--include-partial-messages") as host,
    ):
        host.say("go")
        host.until(lambda f: f["type"] == "stream_event" and "delta" in f["event"])
        host.process.send_signal(number)
        assert host.result()["terminal_reason"] == "aborted_streaming"
        end = host.until(lambda f: f.get("subtype") == "worker_shutting_down")
        assert end["reason"] == "host_exit"
        assert host.process.wait(timeout=30) == code
    assert "A whole thought." in str([e for e in entries(tmp_path) if e["type"] == "assistant"])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_words_said_before_a_signal_begin_no_turn_after_it(
    tmp_path: Path, number: signal.Signals
) -> None:
    with (
        serving(STALLED, strict=True) as server,
        Hosted(tmp_path, server.url, "--include-partial-messages") as host,
    ):
        host.say("go")
        host.until(lambda f: f["type"] == "stream_event" and "delta" in f["event"])
        host.say("and more", uuid="31111111-1111-4111-8111-111111111111")
        host.ask("get_context_usage")
        host.process.send_signal(number)
        first, second = host.result(), host.result()
        host.end()
        assert len(server.requests) == 1
    assert first["terminal_reason"] == "aborted_streaming"
    assert second["errors"] == [TOO_LATE]


def test_a_host_that_no_longer_reads_ends_the_run_and_the_session_continues(tmp_path: Path) -> None:
    plan = {"scenario": 1, "answers": [{"text": "x" * 400_000}, {"text": "still here"}]}
    with serving(plan, strict=True) as server:
        with Hosted(tmp_path, server.url, "--include-partial-messages") as host:
            assert host.process.stdout is not None
            host.process.stdout.close()
            host.say("go")
            assert host.process.stdin is not None
            host.process.stdin.close()
            assert host.process.wait(timeout=30) == 0
        done = clew(tmp_path, server.url, "-p", "--continue", "and?")
        assert done.stdout == "still here\n", done.stderr


@pytest.mark.parametrize("is_roomy", [False, True])
def test_frames_are_whole_up_to_the_longest_line_that_the_host_accepts(
    tmp_path: Path, is_roomy: bool
) -> None:
    big = tmp_path / "work" / "big.txt"
    big.parent.mkdir()
    big.write_text("line\n" * 400_000, "utf-8")
    texts = ["y" * 900_000, "z" * 1_500_000]
    plan = {
        "scenario": 1,
        "answers": [
            {"content": [{"tool": "Bash", "input": {"command": f"cat {big}"}}]},
            *({"text": text} for text in texts),
        ],
    }
    with (
        serving(plan, strict=True) as server,
        Hosted(tmp_path, server.url, "--allowedTools", "Bash(cat:*)") as host,
    ):
        if is_roomy:
            assert host.ask("initialize", maxFrameBytes=4_000_000)["subtype"] == "success"
        for prompt in ("go", "on"):
            host.say(prompt)
            host.result()
        assert host.end() == 0
    lengths = [len(json.dumps(f, ensure_ascii=False).encode()) for f in host.frames]
    assert (max(lengths) < 1_048_576) is not is_roomy
    said = [f for f in host.frames if f["type"] == "assistant"]
    spoken = [f["message"]["content"][0].get("text") for f in said]
    assert spoken[1] == texts[0]
    assert (spoken[2] == texts[1]) is is_roomy
    assert ("truncated" in said[2]) is not is_roomy
    logged = [e for e in entries(tmp_path) if e["type"] == "assistant"]
    assert logged[-1]["message"]["content"][0]["text"] == texts[1]


def test_the_model_and_the_mode_change_between_turns(tmp_path: Path) -> None:
    plan = {"scenario": 1, "answers": [{"text": "one"}, {"text": "two"}]}
    with serving(plan, strict=True) as server, Hosted(tmp_path, server.url) as host:
        host.say("a")
        host.result()
        assert host.ask("set_model", model="haiku")["response"]["model"].startswith("claude-haiku")
        assert host.ask("set_permission_mode", mode="plan")["response"] == {"mode": "plan"}
        assert "unknown mode" in host.ask("set_permission_mode", mode="wild")["error"]
        assert "start clew" in host.ask("set_permission_mode", mode="bypassPermissions")["error"]
        assert host.ask("set_max_thinking_tokens", max_thinking_tokens=0)["subtype"] == "success"
        host.say("b")
        host.result()
        usage = host.ask("get_context_usage")["response"]
        ids = {one["id"]: (one["name"], one["kind"]) for one in usage["categories"]}
        assert ids["system_tools"] == ("Tools", "used")
        assert ids["free_space"] == ("Free space", "free")
        assert usage["totalTokens"] == sum(
            c["tokens"] for c in usage["categories"] if c["name"] != "Free space"
        )
        assert sum(len(row) for row in usage["gridRows"]) <= 200
        assert host.ask("get_session_cost")["response"]["total_cost_usd"] > 0
        assert host.ask("rename_session", title="A name")["subtype"] == "success"
        assert host.ask("mcp_status")["response"] == {"mcpServers": []}
        assert host.end() == 0
        assert [r.body["model"].split("-")[1] for r in server.requests] == ["sonnet", "haiku"]
    inits = [f for f in host.frames if f.get("subtype") == "init"]
    assert [f["permissionMode"] for f in inits] == ["default", "plan"]
    assert any(e.get("customTitle") == "A name" for e in entries(tmp_path))


def modes_told(host: Hosted) -> list[str]:
    """Return the modes in status frames, up to each tool result."""
    told = [f for f in host.frames if f["type"] == "user" or "permissionMode" in f]
    return [f.get("permissionMode", "result") for f in told if f.get("subtype") != "init"]


def test_a_mode_that_an_approval_sets_is_told(tmp_path: Path) -> None:
    write = {"tool": "Write", "input": {"file_path": "new.txt", "content": "x"}}
    plan = {"scenario": 1, "answers": [{"content": [write]}, {"text": "done"}]}
    update = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}
    with serving(plan, strict=True) as server, Hosted(tmp_path, server.url, *ASKED) as host:
        host.say("go")
        asked = host.request("can_use_tool")
        host.answer(asked, behavior="allow", updatedPermissions=[update])
        host.result()
        assert host.ask("set_permission_mode", mode="plan")["response"] == {"mode": "plan"}
        assert host.ask("set_permission_mode", mode="plan")["response"] == {"mode": "plan"}
        assert host.end() == 0
    assert modes_told(host) == ["acceptEdits", "result", "plan", "plan"]


def test_the_mode_after_an_approved_plan_is_told(tmp_path: Path) -> None:
    leave = {"tool": "ExitPlanMode", "input": {"plan": "# P"}}
    plan = {"scenario": 1, "answers": [{"content": [leave]}, {"text": "done"}]}
    flags = (*ASKED, "--permission-mode", "plan")
    with serving(plan, strict=True) as server, Hosted(tmp_path, server.url, *flags) as host:
        host.say("go")
        host.answer(host.request("can_use_tool"), behavior="allow")
        host.result()
        assert host.end() == 0
    assert modes_told(host) == ["default", "result"]


def test_a_retry_and_a_failure_are_told_and_the_code_says_so(tmp_path: Path) -> None:
    plan = {
        "scenario": 1,
        "answers": [
            {"status": 529, "headers": {"retry-after": 0}},
            {"status": 400},
        ],
    }
    with (
        serving(plan) as server,
        Hosted(tmp_path, server.url, CLAUDE_CODE_MAX_RETRIES="3") as host,
    ):
        host.say("go")
        result = host.result()
        assert host.end() == 1
    retry = next(f for f in host.frames if f.get("subtype") == "api_retry")
    assert (retry["attempt"], retry["max_retries"], retry["error_status"]) == (1, 3, 529)
    assert (result["subtype"], result["is_error"]) == ("success", True)
    assert result["api_error_status"] == 400
    # The program's operator, who may not see the frames, reads why it failed.
    assert result["result"] in host.errors()
    synthetic = next(f for f in host.frames if f["type"] == "assistant")
    assert synthetic["error"] == "invalid_request"
    assert synthetic["api_error_type"] == result["api_error_type"] == "invalid_request_error"
    assert synthetic["message"]["model"] == "<synthetic>"


@pytest.mark.parametrize(
    ("status", "error_type", "words"),
    [
        (400, "invalid_request_error", "prompt is too long: 250000 tokens > 200000 maximum"),
        (413, "request_too_large", "Request exceeds the maximum allowed number of bytes"),
    ],
)
def test_a_brief_conversation_that_is_too_long_is_compacted_once_at_most(
    tmp_path: Path, status: int, error_type: str, words: str
) -> None:
    refused = {"status": status, "error": {"type": error_type, "message": words}}
    plan = {"scenario": 1, "answers": [refused, {"text": "Yes."}, refused, {"text": "Again."}]}
    with serving(plan, strict=True) as server, Hosted(tmp_path, server.url) as host:
        for prompt in ("one", "two", "three", "four"):
            host.say(prompt)
            host.result()
        assert host.end() == 0
    # Only the prompts were sent, no requests for summaries.
    assert len(server.requests) == 4
    first, second, third, fourth = (f for f in host.frames if f["type"] == "result")
    assert [f["is_error"] for f in (first, second, third, fourth)] == [True, False, True, False]
    assert {f["terminal_reason"] for f in (first, third)} == {"prompt_too_long"}
    assert words in third["errors"][0]
    done = [f["compact_result"] for f in host.frames if "compact_result" in f]
    assert done == ["failed", "failed"]


def test_a_refusal_and_the_output_of_a_command_have_frames_of_their_own(tmp_path: Path) -> None:
    plan = {"scenario": 1, "answers": [{"text": "No.", "stop_reason": "refusal"}]}
    with serving(plan) as server, Hosted(tmp_path, server.url) as host:
        host.say("/help cost")
        told = host.result()["result"]
        host.say("go")
        host.result()
    frames = {f.get("subtype"): f for f in host.frames}
    assert frames["local_command_output"]["content"] == told
    assert frames["model_refusal_no_fallback"]["original_model"] == "claude-sonnet-5-5"


def test_the_command_line_shapes_the_request(tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text("Be terse.", "utf-8")
    args = (
        "--system-prompt", "", "--append-system-prompt-file", str(tmp_path / "more.txt"),
        "--tools", "Read,Bash", "--disallowedTools", "Bash", "--max-thinking-tokens", "2000",
        "--effort=low", "--betas", "odd-beta", "--setting-sources=", "--name", "Named", "",
    )  # fmt: skip
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "settings.json").write_text('{"model": "opus"}', "utf-8")
    with serving(HELLO, strict=True) as server, Hosted(tmp_path, server.url, *args) as host:
        host.say("hi")
        assert host.end() == 0
        (request,) = server.requests
    assert [tool["name"] for tool in request.body["tools"]] == ["Read"]
    assert [block["text"] for block in request.body["system"]] == ["Be terse."]
    assert "sonnet" in request.body["model"], "no settings file was read"
    assert "odd-beta" in str(request.header("anthropic-beta"))
    assert any(e.get("customTitle") == "Named" for e in entries(tmp_path))


def test_the_handshake_may_bring_the_system_prompt(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server, Hosted(tmp_path, server.url) as host:
        host.ask("initialize", systemPrompt=["Only this."], appendSystemPrompt="And this.")
        host.say("hi")
        assert host.end() == 0
        blocks = [block["text"] for block in server.requests[0].body["system"]]
    assert blocks == ["Only this.", "And this."]


def test_a_prompt_can_be_taken_back_and_the_session_ended(tmp_path: Path) -> None:
    with serving(STALLED, strict=True) as server, Hosted(tmp_path, server.url) as host:
        host.say("go")
        host.say("later", uuid="51111111-1111-4111-8111-111111111111")
        until(lambda: len(server.requests) == 1)
        later = "51111111-1111-4111-8111-111111111111"
        assert host.ask("cancel_async_message", message_uuid=later)["response"]["cancelled"]
        again = host.ask("cancel_async_message", message_uuid=later)["response"]
        assert again == {"cancelled": False}
        host.ask("end_session")
        host.ask("interrupt")
        assert host.end() == 1
        assert len(server.requests) == 1


def test_clear_begins_another_session_beside_the_old_one(tmp_path: Path) -> None:
    plan = {"scenario": 1, "answers": [{"text": "Eins."}, {"text": "Zwei."}]}
    with serving(plan, strict=True) as server, Hosted(tmp_path, server.url) as host:
        host.say("a")
        first = host.result()
        host.say("/clear")
        cleared = host.result()
        host.say([{"type": "text", "text": "b"}])
        second = host.result()
        assert host.ask("set_permission_mode", mode="plan")["subtype"] == "success"
        assert host.end() == 0
        assert "Eins." not in str(server.requests[1].body["messages"])
    reset = next(f for f in host.frames if f["type"] == "conversation_reset")
    assert reset["session_id"] == first["session_id"]
    assert reset["new_conversation_id"] == cleared["session_id"] == second["session_id"]
    assert (cleared["num_turns"], cleared["result"]) == (0, "")
    assert len(transcripts(tmp_path)) == 2


def test_a_command_is_answered_without_the_model(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server, Hosted(tmp_path, server.url) as host:
        host.say("/help")
        shown = host.result()
        host.say("/help", client_composed=True)
        assert host.result()["result"] == "hello"
        assert host.end() == 0
    assert "/clear" in shown["result"]
    assert shown["num_turns"] == 0


def hooked(**events: list[str]) -> dict[str, Any]:
    """The hooks of a handshake: an event's callbacks."""
    return {name: [{"matcher": None, "hookCallbackIds": ids}] for name, ids in events.items()}


def test_a_hook_of_the_host_denies_and_adds_context(tmp_path: Path) -> None:
    with serving(MAKES, strict=True) as server, Hosted(tmp_path, server.url, *ASKED) as host:
        hooks = hooked(PreToolUse=["pre"], UserPromptSubmit=["said"], NotYetKnown=["x"])
        assert host.ask("initialize", hooks=hooks)["response"]["hook_on_failure_supported"]
        host.say("go")
        asked = host.request("hook_callback")
        assert asked["request"]["input"]["prompt"] == "go"
        assert Path(asked["request"]["input"]["transcript_path"]).name.endswith(".jsonl")
        extra = {"hookEventName": "UserPromptSubmit", "additionalContext": "it is late"}
        host.answer(asked, hookSpecificOutput=extra)
        asked = host.request("hook_callback")
        assert asked["request"]["callback_id"] == "pre"
        assert asked["request"]["input"]["tool_input"] == {"command": "mkdir made"}
        no = {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": "not here",
        }
        host.answer(asked, hookSpecificOutput=no)
        result = host.result()
        assert host.end() == 0
        assert "it is late" in str(server.requests[0].body["messages"])
    assert result["permission_denials"][0]["tool_name"] == "Bash"
    assert not (tmp_path / "work" / "made").exists()


def test_a_call_that_the_hosts_hook_defers_is_made_again_when_the_session_is_resumed(
    tmp_path: Path,
) -> None:
    def verdict(permission: str) -> dict[str, Any]:
        output = {"hookEventName": "PreToolUse", "permissionDecision": permission}
        return {"hookSpecificOutput": output}

    results, calls = [], []
    with serving(MAKES, strict=True) as server:
        for permission in ("defer", "defer", "allow"):
            resumed = ("--resume", results[0]["session_id"]) if results else ()
            with Hosted(tmp_path, server.url, *ASKED, *resumed) as host:
                host.ask("initialize", hooks=hooked(PreToolUse=["pre"]))
                host.say("go")
                asked = host.request("hook_callback")
                calls.append((asked["request"]["tool_use_id"], asked["request"]["input"]))
                host.answer(asked, **verdict(permission))
                results.append(host.result())
                assert host.end() == 0
        requests = [request.body["messages"] for request in server.requests]
    for result in results[:2]:
        reasons = (result["subtype"], result["stop_reason"], result["terminal_reason"])
        assert reasons == ("success", "tool_deferred", "tool_deferred")
        deferred = result["deferred_tool_use"]
        assert (deferred["id"], deferred["name"]) == (calls[0][0], "Bash")
        assert deferred["input"] == {"command": "mkdir made"}
    assert len({identity for identity, _ in calls}) == 1
    assert results[2]["terminal_reason"] == "completed"
    assert (tmp_path / "work" / "made").exists()
    # The model never sees that the call was deferred.
    assert len(requests) == 2
    assert "deferred" not in json.dumps(requests[1])


def test_a_hook_that_the_host_does_not_answer_in_time_is_withdrawn(tmp_path: Path) -> None:
    with (
        serving(MAKES, strict=True) as server,
        Hosted(tmp_path, server.url, "--allowedTools", "Bash") as host,
    ):
        slow = {"PostToolUse": [{"hookCallbackIds": ["post"], "timeout": 0.2}]}
        host.ask("initialize", hooks=slow)
        host.say("go")
        asked = host.request("hook_callback")
        withdrawn = host.until(lambda f: f["type"] == "control_cancel_request")
        assert withdrawn["request_id"] == asked["request_id"]
        assert host.result()["result"] == "done"
        assert host.end() == 0


def test_hooks_of_settings_are_told_where_the_host_wants_them(tmp_path: Path) -> None:
    hooks = {"SessionStart": [{"hooks": [{"type": "command", "command": "echo hello"}]}]}
    settings = json.dumps({"hooks": hooks})
    with (
        serving(HELLO, strict=True) as server,
        Hosted(tmp_path, server.url, "--include-hook-events", "--settings", settings) as host,
    ):
        host.say("hi")
        assert host.end() == 0
    kinds = host.kinds()
    assert kinds.index("hook_started") < kinds.index("hook_response") < kinds.index("init")


def test_hosts_are_told_the_style_that_the_settings_name(tmp_path: Path) -> None:
    settings = ("--settings", '{"outputStyle": "of-nobody"}')
    with (
        serving({"scenario": 1, "answers": [{"text": "hi"}]}, strict=True) as server,
        Hosted(tmp_path, server.url, *settings) as host,
    ):
        assert host.ask("initialize")["response"]["output_style"] == "of-nobody"
        host.say("hello")
        host.result()
        assert 'unknown style "of-nobody"' in host.errors()


def test_sigint_stops_the_turn_as_a_host_would_and_ends_the_session(tmp_path: Path) -> None:
    sleeps = {"content": [{"tool": "Bash", "input": {"command": "echo begun > mark; sleep 300"}}]}
    with (
        serving({"scenario": 1, "answers": [sleeps]}) as server,
        Hosted(tmp_path, server.url, "--allowedTools", "Bash") as host,
    ):
        host.ask("initialize")
        host.say("go")
        until((tmp_path / "work" / "mark").exists)
        host.process.send_signal(signal.SIGINT)
        said = host.result()
        assert (said["subtype"], said["terminal_reason"]) == (
            "error_during_execution",
            "aborted_tools",
        )
        # Without the end of its input.
        assert host.process.wait(timeout=30) == 1


@pytest.mark.parametrize(
    "block",
    [
        {"type": "text", "text": 5},
        {"type": "tool_use", "id": "t", "name": "Bash", "input": {}},
        {"type": "thinking", "thinking": "mine", "signature": "x"},
        {"type": "tool_result"},
    ],
)
def test_what_no_user_can_say_is_refused_and_the_session_continues(
    tmp_path: Path, block: dict[str, Any]
) -> None:
    with serving(HELLO, strict=True) as server, Hosted(tmp_path, server.url) as host:
        host.say([block])
        host.say("well then")
        assert host.result()["result"] == "hello"
        assert host.end() == 0
        assert len(server.requests) == 1
    assert "ignored an invalid line on standard input: message.content: " in host.errors()


@pytest.mark.parametrize(
    ("spelling", "place"),
    [("sub/../made.txt", "work/made.txt"), ("~/made.txt", "made.txt"), ("../made", "made")],
)
def test_the_host_sees_the_absolute_path_of_the_file_that_it_is_asked_about(
    spelling: str, place: str, tmp_path: Path
) -> None:
    call = {"tool": "Write", "input": {"file_path": spelling, "content": "x"}}
    plan = {"scenario": 1, "answers": [{"content": [call]}, {"text": "done"}]}
    with serving(plan, strict=True) as server, Hosted(tmp_path, server.url, *ASKED) as host:
        host.say("go")
        asked = host.request("can_use_tool")
        given = asked["request"]["input"]
        assert given == {"file_path": str(tmp_path / place), "content": "x"}
        host.answer(asked, behavior="allow", updatedInput=given)
        host.result()
        assert host.end() == 0
    assert (tmp_path / place).read_text("utf-8") == "x"
    # The call itself is unchanged: the model wrote this path.
    call = next(
        b
        for m in server.requests[-1].body["messages"]
        for b in m["content"]
        if b["type"] == "tool_use"
    )
    assert call["input"]["file_path"] == spelling


def test_only_calls_that_the_host_denied_are_denials(tmp_path: Path) -> None:
    calls = [{"tool": "Bash", "input": {"command": f"mkdir {name}"}} for name in ("one", "two")]
    plan = {"scenario": 1, "answers": [{"content": calls}]}
    with serving(plan, strict=True) as server, Hosted(tmp_path, server.url, *ASKED) as host:
        host.say("go")
        asked = host.request("can_use_tool")
        host.answer(asked, behavior="deny", message="stop", interrupt=True)
        result = host.result()
        assert host.end() == 1
    assert [d["tool_input"]["command"] for d in result["permission_denials"]] == ["mkdir one"]
    kinds = [f.get("tool_denial_kind") for f in host.frames if f["type"] == "user"]
    assert kinds == ["user-rejected", None, None]


def test_a_response_that_stays_cut_off_is_an_error(tmp_path: Path) -> None:
    plan = {"scenario": 1, "answers": [{"text": "Half", "stop_reason": "max_tokens"}] * 4}
    with serving(plan, strict=True) as server, Hosted(tmp_path, server.url) as host:
        host.say("go")
        result = host.result()
        assert host.end() == 1
    assert len(server.requests) == 4
    assert (result["subtype"], result["is_error"]) == ("success", True)
    assert (result["terminal_reason"], result["stop_reason"]) == ("api_error", "max_tokens")
    assert "length limit" in result["errors"][0]
