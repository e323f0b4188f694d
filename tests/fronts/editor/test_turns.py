"""clew in an editor, as a real process: sessions, prompts, permissions, and how a turn ends."""

from pathlib import Path
from typing import Any

from clew.testing.server import serving
from tests.fronts.editor.editor import Editor, chosen, words
from tests.fronts.headless.clew_process import transcripts

HELLO = {"scenario": 1, "answers": [{"text": "hello"}, {"text": "again"}]}
MAKES = {
    "scenario": 1,
    "answers": [
        {"content": ["I look.", {"tool": "Bash", "input": {"command": "mkdir made"}}]},
        {"text": "done"},
        {"content": [{"tool": "Bash", "input": {"command": "mkdir made/again"}}]},
        {"text": "done again"},
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


def test_a_prompt_is_answered_as_the_words_come(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server, Editor(tmp_path, server.url) as editor:
        offered = editor.initialize()
        assert offered["protocolVersion"] == 1
        assert offered["agentCapabilities"]["loadSession"] is True
        session = editor.new()
        assert editor.prompt(session, "hi") == {"stopReason": "end_turn"}
        assert editor.said() == "hello"
        assert {update["sessionId"] for update in editor.told} == {session}
        assert editor.of("available_commands_update")[0]["availableCommands"]
        usage = editor.of("usage_update")[-1]
        assert usage["size"] > usage["used"] > 0
        assert usage["cost"]["currency"] == "USD"
        assert editor.of("session_info_update")[0]["title"] == "hi"
        assert editor.end() == 0
        assert editor.errors() == ""
    (path,) = transcripts(tmp_path)
    assert path.stem == session


def test_a_call_is_told_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    with serving(MAKES, strict=True) as server, Editor(tmp_path, server.url) as editor:
        editor.initialize()
        session = editor.new()
        editor.answers["session/request_permission"] = chosen("allow_once")
        assert editor.prompt(session, "make it") == {"stopReason": "end_turn"}
        assert (editor.work / "made").is_dir()
        (begun,) = editor.of("tool_call")
        assert (begun["kind"], begun["status"]) == ("execute", "pending")
        updates = [u for u in editor.of("tool_call_update") if "status" in u]
        assert [u["status"] for u in updates] == ["in_progress", "completed"]
        assert {u["toolCallId"] for u in updates} == {begun["toolCallId"]}
        (asked,) = editor.asked
        assert asked["params"]["toolCall"]["toolCallId"] == begun["toolCallId"]
        assert asked["params"]["toolCall"]["rawInput"] == {"command": "mkdir made"}


def test_an_answer_for_always_holds_for_the_session(tmp_path: Path) -> None:
    with serving(MAKES, strict=True) as server, Editor(tmp_path, server.url) as editor:
        editor.initialize()
        session = editor.new()
        editor.answers["session/request_permission"] = chosen("allow_always")
        editor.prompt(session, "make it")
        assert editor.prompt(session, "and again") == {"stopReason": "end_turn"}
        assert (editor.work / "made" / "again").is_dir()
        assert len(editor.asked) == 1


def test_a_no_is_told_to_the_model_and_the_turn_continues(tmp_path: Path) -> None:
    with serving(MAKES, strict=True) as server, Editor(tmp_path, server.url) as editor:
        editor.initialize()
        session = editor.new()
        editor.answers["session/request_permission"] = chosen("reject_once")
        assert editor.prompt(session, "make it") == {"stopReason": "end_turn"}
        assert not (editor.work / "made").exists()
        assert editor.of("tool_call_update")[-1]["status"] == "failed"
        assert editor.said() == "I look.done"


def test_cancelling_answers_the_prompt_as_cancelled_and_keeps_what_was_said(tmp_path: Path) -> None:
    with serving(STALLED, strict=True) as server, Editor(tmp_path, server.url) as editor:
        editor.initialize()
        session = editor.new()
        asked = editor.begin("session/prompt", sessionId=session, prompt=[words("think")])
        editor.until(lambda _: "And" in editor.said())
        editor.tell("session/cancel", sessionId=session)
        assert editor.answer(asked)["result"] == {"stopReason": "cancelled"}
        assert editor.prompt(session, "go on") == {"stopReason": "end_turn"}
        assert editor.said().endswith("again")


def test_cancelling_while_permission_is_asked_withdraws_the_question(tmp_path: Path) -> None:
    with serving(MAKES, strict=True) as server, Editor(tmp_path, server.url) as editor:
        editor.initialize()
        session = editor.new()

        def cancel(params: dict[str, Any]) -> dict[str, Any]:
            editor.tell("session/cancel", sessionId=params["sessionId"])
            return {"outcome": {"outcome": "cancelled"}}

        editor.answers["session/request_permission"] = cancel
        assert editor.prompt(session, "make it") == {"stopReason": "cancelled"}
        assert not (editor.work / "made").exists()
        assert editor.of("tool_call_update")[-1]["status"] == "failed"


def test_a_request_that_is_taken_back_ends_its_turn(tmp_path: Path) -> None:
    with serving(STALLED, strict=True) as server, Editor(tmp_path, server.url) as editor:
        editor.initialize()
        session = editor.new()
        asked = editor.begin("session/prompt", sessionId=session, prompt=[words("think")])
        editor.until(lambda _: "And" in editor.said())
        editor.tell("$/cancel_request", requestId=asked)
        assert editor.answer(asked)["error"]["code"] == -32800
        assert editor.prompt(session, "go on") == {"stopReason": "end_turn"}


def test_two_sessions_of_one_process_do_not_mix(tmp_path: Path) -> None:
    scenario = {"scenario": 1, "answers": [{"text": "one"}, {"text": "two"}, {"text": "three"}]}
    other = tmp_path / "other"
    other.mkdir()
    with serving(scenario, strict=True) as server, Editor(tmp_path, server.url) as editor:
        editor.initialize()
        first, second = editor.new(), editor.new(cwd=str(other))
        assert first != second
        editor.prompt(first, "a")
        editor.prompt(second, "b")
        editor.prompt(first, "c")
        chunks = [(u["sessionId"], u["content"]["text"]) for u in editor.of("agent_message_chunk")]
        assert chunks == [(first, "one"), (second, "two"), (first, "three")]
        sent = [len(request.body["messages"]) for request in server.requests if request.place]
        assert sent[0] == sent[1] == sent[2] - 2


def test_the_end_of_input_in_the_middle_of_a_turn_keeps_the_turn(tmp_path: Path) -> None:
    with serving(STALLED, strict=True) as server, Editor(tmp_path, server.url) as editor:
        editor.initialize()
        session = editor.new()
        editor.begin("session/prompt", sessionId=session, prompt=[words("think")])
        editor.until(lambda _: "And" in editor.said())
        assert editor.end() == 0
    (path,) = transcripts(tmp_path)
    assert b"A whole thought." in path.read_bytes()


def test_what_is_no_request_is_answered_with_why(tmp_path: Path) -> None:
    with serving(HELLO) as server, Editor(tmp_path, server.url) as editor:
        assert editor.error("session/paint")["code"] == -32601
        assert "an existing folder" in editor.error("session/new", cwd="gone")["message"]
        assert editor.error("session/prompt", sessionId="none", prompt=[])["code"] == -32002
        assert editor.error("session/load", sessionId="none", cwd="/")["code"] == -32002
        assert editor.error("session/set_mode", sessionId="none", modeId="plan")["code"] == -32002
        assert editor.error("authenticate", methodId="none")["code"] == -32602
        editor.write(b"no message at all\n")
        session = editor.new()
        assert editor.error("session/prompt", sessionId=session)["code"] == -32602
        assert (
            "unknown option"
            in editor.error(
                "session/set_config_option", sessionId=session, configId="color", value="red"
            )["message"]
        )
        assert editor.prompt(session, "hi") == {"stopReason": "end_turn"}
