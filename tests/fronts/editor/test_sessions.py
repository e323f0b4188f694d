"""Sessions of an editor: created, listed, loaded, resumed, forked, closed, and their options."""

import base64
import json
from pathlib import Path
from typing import Any

from clew.agent.compaction.summary import NO_SUMMARY
from clew.fronts.editor import asking
from clew.testing.server import serving
from tests.agent.compaction.test_in_headless import PARAGRAPH, coats
from tests.agent.compaction.window import ARGS, SUMMARY, Window, answered, text_of
from tests.fronts.editor.editor import Editor, chosen, words
from tests.fronts.headless.agents_model import agent, by_prompt, uses
from tests.fronts.headless.clew_process import clew, transcripts

Json = dict[str, Any]
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
LONG = {
    "scenario": 1,
    "answers": [
        {"content": ["I look.", {"tool": "Bash", "input": {"command": "echo seen"}}]},
        {"content": [{"thinking": "hm"}, "first"]},
        {"text": "second"},
        {"text": "third"},
    ],
}


def test_a_session_is_loaded_with_all_that_was_said(tmp_path: Path) -> None:
    with serving(LONG, strict=True) as server:
        with Editor(tmp_path, server.url) as editor:
            editor.initialize()
            session = editor.new()
            editor.prompt(session, "look around")
            assert editor.end() == 0
        with Editor(tmp_path, server.url) as editor:
            editor.initialize()
            cwd = str(editor.work)
            state = editor.ask("session/load", sessionId=session, cwd=cwd, mcpServers=[])
            assert state["modes"]["currentModeId"] == "default"
            assert editor.said("user_message_chunk") == "look around"
            assert editor.said("agent_thought_chunk") == "hm"
            assert editor.said() == "I look.first"
            (call,) = editor.of("tool_call")
            assert call["rawInput"] == {"command": "echo seen"}
            (ended,) = editor.of("tool_call_update")
            assert ended["status"] == "completed"
            assert "seen" in json.dumps(ended["content"])
            # A client knows everything before it gets the answer, and the commands behind it.
            assert editor.prompt(session, "go on") == {"stopReason": "end_turn"}
            assert editor.of("available_commands_update")
            assert editor.of("usage_update")[0]["used"] > 0
    assert len(transcripts(tmp_path)) == 1


def test_a_session_is_resumed_without_being_told_again_and_forked_into_another(
    tmp_path: Path,
) -> None:
    with serving(LONG, strict=True) as server, Editor(tmp_path, server.url) as editor:
        editor.initialize()
        session, cwd = editor.new(), str(editor.work)
        editor.prompt(session, "look around")
        assert editor.ask("session/close", sessionId=session) == {}
        assert editor.error("session/close", sessionId=session)["code"] == -32002
        editor.told.clear()
        editor.ask("session/resume", sessionId=session, cwd=cwd)
        assert not editor.of("agent_message_chunk")
        editor.prompt(session, "go on")
        assert editor.said() == "second"
        forked = editor.ask("session/fork", sessionId=session, cwd=cwd)["sessionId"]
        assert forked != session
        editor.prompt(forked, "elsewhere")
        sent = server.requests[-1].body["messages"]
        assert "look around" in json.dumps(sent)
        assert "go on" in json.dumps(sent)
    assert {path.stem for path in transcripts(tmp_path)} == {session, forked}


def test_a_session_of_the_terminal_is_listed_and_continued(tmp_path: Path) -> None:
    scenario = {"scenario": 1, "answers": [{"text": "one"}, {"text": "two"}]}
    with serving(scenario, strict=True) as server:
        clew(tmp_path, server.url, "-p", "begin here")
        with Editor(tmp_path, server.url) as editor:
            editor.initialize()
            cwd = str(editor.work)
            (listed,) = editor.ask("session/list", cwd=cwd)["sessions"]
            assert (listed["title"], listed["cwd"]) == ("begin here", cwd)
            assert listed["updatedAt"].endswith("Z")
            assert editor.ask("session/list")["sessions"] == [listed]
            assert editor.ask("session/list", cwd="/")["sessions"] == []
            assert editor.error("session/list", cursor="x")["code"] == -32602
            editor.ask("session/load", sessionId=listed["sessionId"], cwd=cwd, mcpServers=[])
            editor.prompt(listed["sessionId"], "and here")
            assert editor.said().startswith("one")
            assert editor.said().endswith("two")


def test_many_sessions_are_listed_a_page_at_a_time(tmp_path: Path) -> None:
    folder = tmp_path / "config" / "projects" / "-w"
    folder.mkdir(parents=True)
    for number in range(60):
        uuid = f"00000000-0000-4000-8000-{number:012}"
        entry = {"type": "user", "uuid": uuid, "sessionId": uuid, "cwd": "/w", "timestamp": "2026-01-01T00:00:00Z",
                 "parentUuid": None, "message": {"role": "user", "content": f"prompt {number}"}}  # fmt: skip
        (folder / f"{uuid}.jsonl").write_text(json.dumps(entry) + "\n", encoding="utf-8")
    with serving(LONG) as server, Editor(tmp_path, server.url) as editor:
        first = editor.ask("session/list")
        rest = editor.ask("session/list", cursor=first["nextCursor"])
        assert (len(first["sessions"]), len(rest["sessions"])) == (50, 10)
        assert "nextCursor" not in rest


def test_a_session_that_is_open_is_loaded_again(tmp_path: Path) -> None:
    with serving(LONG, strict=True) as server, Editor(tmp_path, server.url) as editor:
        editor.initialize()
        session = editor.new()
        editor.prompt(session, "look around")
        editor.told.clear()
        editor.ask("session/load", sessionId=session, cwd=str(editor.work), mcpServers=[])
        assert editor.said("user_message_chunk") == "look around"
        assert editor.prompt(session, "go on") == {"stopReason": "end_turn"}


def test_what_cannot_be_opened_again_stays_open(tmp_path: Path) -> None:
    with serving(LONG, strict=True) as server, Editor(tmp_path, server.url) as editor:
        editor.initialize()
        session = editor.new()
        editor.prompt(session, "look around")
        gone = {"sessionId": session, "cwd": str(tmp_path / "gone"), "mcpServers": []}
        for method in ("session/load", "session/resume"):
            assert "an existing folder" in editor.error(method, **gone)["message"]
        assert editor.prompt(session, "go on") == {"stopReason": "end_turn"}


# -- what may be set


def test_mode_model_and_effort_are_set_and_reported(tmp_path: Path) -> None:
    with serving(LONG, strict=True) as server, Editor(tmp_path, server.url) as editor:
        editor.initialize()
        state = editor.ask("session/new", cwd=str(editor.work), mcpServers=[])
        session = state["sessionId"]
        modes = [mode["id"] for mode in state["modes"]["availableModes"]]
        assert "plan" in modes
        assert "bypassPermissions" not in modes
        current = {o["id"]: o["currentValue"] for o in state["configOptions"]}
        assert current == {"mode": "default", "model": current["model"], "thought_level": "default"}
        assert editor.ask("session/set_mode", sessionId=session, modeId="acceptEdits") == {}

        def choose(key: str, value: str) -> Json:
            params = {"sessionId": session, "configId": key, "value": value}
            told = editor.ask("session/set_config_option", **params)
            return {o["id"]: o["currentValue"] for o in told["configOptions"]}

        assert editor.of("current_mode_update")[0]["currentModeId"] == "acceptEdits"
        assert editor.of("config_option_update")
        haiku = next(
            o["value"]
            for o in state["configOptions"][1]["options"]
            if "haiku" in o["value"] and o["value"] != current["model"]
        )
        assert choose("model", haiku)["model"] == haiku
        assert choose("thought_level", "low")["thought_level"] == "low"
        assert choose("mode", "plan")["mode"] == "plan"
        for key, value in (
            ("mode", "wild"),
            ("mode", "bypassPermissions"),
            ("thought_level", "wild"),
            ("model", 3),
        ):
            refused = editor.error(
                "session/set_config_option", sessionId=session, configId=key, value=value
            )
            assert refused["code"] == -32602
        editor.prompt(session, "hi")
        assert server.requests[0].body["model"] == haiku
        assert server.requests[0].body["output_config"]["effort"] == "low"


def test_the_options_of_a_session_hold_for_those_of_an_editor(tmp_path: Path) -> None:
    with serving(LONG) as server:
        with Editor(tmp_path, server.url, "--permission-mode", "plan") as editor:
            state = editor.ask("session/new", cwd=str(editor.work), mcpServers=[])
            assert state["modes"]["currentModeId"] == "plan"
        with Editor(tmp_path, server.url, "--resume", "x") as editor:
            assert "the editor selects" in editor.error("session/new", cwd="/")["message"]
        with Editor(tmp_path, server.url, "--colour") as editor:
            assert "unknown option" in editor.error("session/new", cwd="/")["message"]


def test_further_folders_are_worked_in(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    scenario = {
        "scenario": 1,
        "answers": [
            {"content": [{"tool": "Write", "input": {"file_path": str(other / "a"), "content": "x"}}]},
            {"text": "done"},
        ],
    }  # fmt: skip
    with (
        serving(scenario, strict=True) as server,
        Editor(tmp_path, server.url, "--permission-mode", "acceptEdits") as editor,
    ):
        session = editor.new(additionalDirectories=[str(other)])
        editor.prompt(session, "write it")
        assert (other / "a").read_text("utf-8") == "x"
        assert editor.asked == []


def test_without_a_key_the_editor_is_told_to_log_in(tmp_path: Path) -> None:
    with Editor(tmp_path, "", ANTHROPIC_API_KEY="", ANTHROPIC_BASE_URL="") as editor:
        methods = editor.initialize(auth={"terminal": True})["authMethods"]
        assert [method["id"] for method in methods] == ["api-key", "login"]
        refused = editor.error("session/new", cwd=str(editor.work), mcpServers=[])
        assert refused["code"] == -32000
        assert editor.error("authenticate", methodId="api-key")["code"] == -32000
        assert clew(tmp_path, "", "acp", "login", input="sk-ant-1").returncode == 0
        assert editor.ask("authenticate", methodId="api-key") == {}
        assert editor.new()


# -- what a prompt and a call hold


def test_pictures_and_embedded_files_reach_the_model(tmp_path: Path) -> None:
    with serving(LONG, strict=True) as server, Editor(tmp_path, server.url) as editor:
        session = editor.new()
        (editor.work / "notes.txt").write_text("from the disk", encoding="utf-8")
        prompt = [
            words("see "),
            {"type": "resource_link", "uri": (editor.work / "notes.txt").as_uri(), "name": "notes"},
            {"type": "resource", "resource": {"uri": "file:///a.py", "text": "not saved yet"}},
            {"type": "image", "data": base64.b64encode(PNG).decode(), "mimeType": "image/png"},
            {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
        ]
        editor.ask("session/prompt", sessionId=session, prompt=prompt)
        sent = json.dumps(server.requests[0].body["messages"])
        assert "from the disk" in sent
        assert "not saved yet" in sent
        assert '"media_type": "image/png"' in sent
        assert "omitted from the prompt: audio" in editor.said()


def test_an_edit_is_shown_as_a_difference_before_and_after(tmp_path: Path) -> None:
    scenario = {
        "scenario": 1,
        "answers": [
            {"content": [{"tool": "Read", "input": {"file_path": "a.txt"}}]},
            {"content": [{"tool": "Edit", "input": {"file_path": "a.txt", "old_string": "one", "new_string": "two"}}]},
            {"text": "done"},
        ],
    }  # fmt: skip
    with serving(scenario, strict=True) as server, Editor(tmp_path, server.url) as editor:
        session = editor.new()
        file = editor.work / "a.txt"
        file.write_text("one\nmore\n", encoding="utf-8")
        editor.answers["session/request_permission"] = chosen("allow_always")
        editor.prompt(session, "change it")
        assert file.read_text("utf-8") == "two\nmore\n"
        (asked,) = editor.asked
        before = asked["params"]["toolCall"]["content"][0]
        assert before == {"type": "diff", "path": str(file), "oldText": "one", "newText": "two"}
        assert asked["params"]["toolCall"]["kind"] == "edit"
        assert asked["params"]["toolCall"]["locations"] == [{"path": str(file)}]
        assert editor.of("tool_call_update")[-1]["content"] == [
            {"type": "diff", "path": str(file), "oldText": "one\nmore\n", "newText": "two\nmore\n"}
        ]
        assert editor.of("current_mode_update")[0]["currentModeId"] == "acceptEdits"


def test_the_list_of_what_is_to_do_is_a_plan(tmp_path: Path) -> None:
    todos = [{"content": "look", "status": "in_progress", "activeForm": "looking"}]
    scenario = {
        "scenario": 1,
        "answers": [
            {"content": [{"tool": "TodoWrite", "input": {"todos": todos}}]},
            {"text": "ok"},
        ],
    }
    with serving(scenario, strict=True) as server, Editor(tmp_path, server.url) as editor:
        session = editor.new()
        editor.prompt(session, "plan")
        (plan,) = editor.of("plan")
        assert plan["entries"] == [
            {"content": "look", "priority": "medium", "status": "in_progress"}
        ]
        editor.told.clear()
        editor.ask("session/load", sessionId=session, cwd=str(editor.work), mcpServers=[])
        assert editor.of("plan") == [plan]


def test_commands_of_a_session_are_offered_and_run(tmp_path: Path) -> None:
    scenario = {"scenario": 1, "answers": [{"text": "so I see"}]}
    with serving(scenario, strict=True) as server, Editor(tmp_path, server.url) as editor:
        session = editor.new()
        assert editor.prompt(session, "/status") == {"stopReason": "end_turn"}
        assert session in editor.said()
        offered = editor.of("available_commands_update")[0]["availableCommands"]
        names = [command["name"] for command in offered]
        assert "status" in names
        assert "clear" not in names
        editor.told.clear()
        editor.prompt(session, "!echo from the shell")
        (call,) = editor.of("tool_call")
        assert call["kind"] == "execute"
        assert "from the shell" in json.dumps(editor.of("tool_call_update"))
        assert len(server.requests) == 1


def test_leaving_plan_mode_asks_with_the_plan(tmp_path: Path) -> None:
    scenario = {
        "scenario": 1,
        "answers": [
            {"content": [{"tool": "ExitPlanMode", "input": {"plan": "1. paint it"}}]},
            {"text": "on it"},
        ],
    }
    with (
        serving(scenario, strict=True) as server,
        Editor(tmp_path, server.url, "--permission-mode", "plan") as editor,
    ):
        session = editor.new()
        editor.answers["session/request_permission"] = chosen("allow_always")
        assert editor.prompt(session, "plan") == {"stopReason": "end_turn"}
        (asked,) = editor.asked
        assert asked["params"]["toolCall"]["kind"] == "switch_mode"
        assert "1. paint it" in json.dumps(asked["params"]["toolCall"]["content"])
        assert editor.of("current_mode_update")[-1]["currentModeId"] == "acceptEdits"


def test_questions_of_the_model_are_answered_in_the_editor(tmp_path: Path) -> None:
    asked = {
        "question": "Which?",
        "header": "Which",
        "multiSelect": False,
        "options": [
            {"label": "red", "description": "as blood"},
            {"label": "blue", "description": "as the sea"},
        ],
    }
    scenario = {
        "scenario": 1,
        "answers": [
            {"content": [{"tool": "AskUserQuestion", "input": {"questions": [asked]}}]},
            {"text": "blue it is"},
        ],
    }
    with serving(scenario, strict=True) as server, Editor(tmp_path, server.url) as editor:
        session = editor.new()

        def blue(params: Json) -> Json:
            option = next(o for o in params["options"] if o["name"] == "blue")
            return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}

        editor.answers["session/request_permission"] = blue
        editor.prompt(session, "paint")
        assert "blue" in json.dumps(server.requests[1].body["messages"][-1])


def asking_twice() -> Json:
    options = [{"label": "red", "description": "as blood"}, {"label": "blue", "description": "x"}]
    asked = {"question": "Which?", "header": "Which", "multiSelect": True, "options": options}
    call = {"tool": "AskUserQuestion", "input": {"questions": [asked]}}
    return {
        "scenario": 1,
        "answers": [{"content": [call]}, {"content": [call]}, {"text": "so be it"}],
    }


def test_an_editor_with_forms_shows_all_questions_at_once(tmp_path: Path) -> None:
    with serving(asking_twice(), strict=True) as server, Editor(tmp_path, server.url) as editor:
        editor.initialize(elicitation={"form": {}})
        filled = [
            {"action": "accept", "content": {"q1": ["red", "blue"]}},
            {"action": "decline"},
        ]
        editor.answers["elicitation/create"] = lambda _: filled.pop(0)
        session = editor.new()
        assert editor.prompt(session, "paint") == {"stopReason": "end_turn"}
        assert "red, blue" in json.dumps(server.requests[1].body["messages"][-1])
        assert asking.SKIPPED in json.dumps(server.requests[2].body["messages"][-1])


def test_a_form_that_is_put_away_ends_the_turn(tmp_path: Path) -> None:
    with serving(asking_twice(), strict=True) as server, Editor(tmp_path, server.url) as editor:
        editor.initialize(elicitation={"form": {}})
        editor.answers["elicitation/create"] = lambda _: {"action": "cancel"}
        assert editor.prompt(editor.new(), "paint") == {"stopReason": "cancelled"}


def test_the_calls_of_an_agent_are_shown_under_the_call_that_began_it(tmp_path: Path) -> None:
    answers: dict[str, Any] = {
        "delegate": [uses(agent("look around")), {"text": "done"}],
        "look around": [
            {"content": ["I begin.", {"tool": "Bash", "input": {"command": "echo seen"}}]},
            {"text": "it is there"},
        ],
    }
    with (
        serving(by_prompt(answers), strict=True) as server,
        Editor(tmp_path, server.url) as editor,
    ):
        assert editor.prompt(editor.new(), "delegate") == {"stopReason": "end_turn"}
        outer, inner = editor.of("tool_call")
        assert (outer["kind"], inner["kind"]) == ("think", "execute")
        assert inner["_meta"]["clew"]["parentToolCallId"] == outer["toolCallId"]
        ended = [u for u in editor.of("tool_call_update") if u.get("status") == "completed"]
        assert [u["toolCallId"] for u in ended] == [inner["toolCallId"], outer["toolCallId"]]
        assert editor.said() == "done"


def test_a_service_that_fails_is_an_error_of_the_prompt(tmp_path: Path) -> None:
    fault = {"type": "invalid_request_error", "message": "no"}
    scenario = {"scenario": 1, "answers": [{"status": 400, "error": fault}]}
    with serving(scenario) as server, Editor(tmp_path, server.url) as editor:
        session = editor.new()
        failed = editor.error("session/prompt", sessionId=session, prompt=[words("hi")])
        assert failed["code"] == -32603
        assert failed["data"]["reason"] == "api_error"


def test_a_folder_that_can_have_no_name_is_a_fault_and_not_the_end(tmp_path: Path) -> None:
    with serving(LONG, strict=True) as server, Editor(tmp_path, server.url) as editor:
        assert "folder not found" in editor.error("session/list", cwd="/x\0y")["message"]
        assert "an existing folder" in editor.error("session/new", cwd="/x\0y")["message"]
        assert editor.ask("session/list") == {"sessions": []}
        assert editor.end() == 0


def test_a_conversation_is_summarised_in_an_editor_and_what_cannot_be_is_said(
    tmp_path: Path,
) -> None:
    window = Window(lambda body: answered("I paint. " + PARAGRAPH, body))
    with serving(window, strict=True) as server, Editor(tmp_path, server.url, *ARGS) as editor:
        session = editor.new()
        editor.prompt(session, "/compact")
        assert "nothing to summarize yet" in editor.said()
        editor.prompt(session, "Paint it. " + PARAGRAPH)
        editor.told.clear()
        assert editor.prompt(session, "/compact the north side") == {"stopReason": "end_turn"}
        assert "entries summarized" in editor.said()
        assert editor.of("usage_update")
        editor.prompt(session, "Go on.")
        assert "the north side" in text_of(window.summaries[0])
        assert "the north side is done" in text_of(window.asked[-1])
        editor.prompt(session, "/compact --undo")
        assert "the full conversation is restored" in editor.said()


def test_what_comes_of_an_order_to_summarise_is_said_once_in_an_editor(tmp_path: Path) -> None:
    summaries = iter(["no"] * 5 + [SUMMARY])
    window = Window(
        lambda body: answered("I paint.", body),
        summary=lambda body: answered(next(summaries), body),
    )
    with serving(window, strict=True) as server, Editor(tmp_path, server.url, *ARGS) as editor:
        session = editor.new()
        editor.prompt(session, "Paint it. " + "The sea is calm. " * 100)
        for words in (NO_SUMMARY, "entries summarized"):
            editor.told.clear()
            editor.prompt(session, "/compact")
            assert json.dumps(editor.told).count(words) == 1


def test_a_summary_in_the_middle_of_a_turn_is_told_in_an_editor(tmp_path: Path) -> None:
    window = Window(coats(25))
    with serving(window, strict=True) as server, Editor(tmp_path, server.url, *ARGS) as editor:
        assert editor.prompt(editor.new(), "Paint, coat by coat.") == {"stopReason": "end_turn"}
        said = editor.said() + editor.said("agent_thought_chunk") + json.dumps(editor.told)
    assert window.summaries
    assert not window.refused
    assert "All painted." in said
    assert "compacting the conversation" in said
