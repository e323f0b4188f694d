"""Text written for the model stays off the screen; the user reads the display form instead."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.core.messages.text import (
    CANCELLED,
    NOBODY_TO_ASK,
    REASON_FOR_ASKING,
    describe_user_rejection,
)
from clew.fronts.render.displays import (
    add_display,
    describe_denial,
    describe_for_user,
    strip_agent_note,
    strip_hint,
)
from clew.testing.server import serving
from tests.fronts.headless.agents_model import agent, by_prompt, results, uses
from tests.fronts.headless.clew_process import clew
from tests.fronts.terminal.terminal import Terminal
from tests.requirements import requirement

TASK = {"subject": "Read the code", "description": "all of it"}
STEPS: dict[str, list[Any]] = {
    "go": [
        uses(agent("look", description="look around")),
        uses({"tool": "TaskCreate", "input": TASK}),
        uses({"tool": "TaskUpdate", "input": {"taskId": "1", "status": "in_progress"}}),
        uses({"tool": "Brief", "input": {"message": "halfway"}}),
        uses({"tool": "Read", "input": {"file_path": "twice.txt"}}),
        uses(
            {
                "tool": "Edit",
                "input": {"file_path": "twice.txt", "old_string": "same", "new_string": "other"},
            }
        ),
        uses({"tool": "Bash", "input": {"command": "echo forbidden"}}),
        lambda body: {"text": "the end"},
    ],
    "look": [{"text": "all is calm"}],
}
HOOK = {
    "matcher": "Bash",
    "hooks": [{"type": "command", "command": "echo not today >&2; exit 2"}],
}
FOR_THE_MODEL = (
    "SendMessage",
    "Added task #1: Read the code.",
    "Task #1: status",
    "Continue.",
    "set replace_all",
    "hook error",
)
FOR_THE_USER = (
    "look around",
    "twice.txt",
    "echo forbidden",
    "Added task #1: Read the code",
    "Task #1: now in_progress",
    "Message shown",
    "old_string occurs 2 times",
    "Blocked by PreToolUse hook: not today",
)


@requirement("R132")
def test_no_text_for_the_model_is_on_the_screen(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "twice.txt").write_text("same\nsame\n", "utf-8")
    settings = json.dumps({"hooks": {"PreToolUse": [HOOK]}})
    with (
        serving(by_prompt(STEPS), strict=True) as server,
        Terminal(tmp_path, server.url, "--settings", settings) as terminal,
    ):
        terminal.expect("> ")
        terminal.type("go\n")
        terminal.expect("the end")
        terminal.expect("> ")
        terminal.type("\x04")
        assert terminal.end() == 0
        shown = " ".join(terminal.all.split())
        answered = "\n".join(text for request in server.requests for text in results(request.body))
    for words in FOR_THE_USER:
        assert words in shown, words
    assert shown.count("not today") == 1
    for words in FOR_THE_MODEL:
        assert words not in shown, words
    assert "set replace_all" in answered
    assert "PreToolUse:Bash hook error: not today" in answered


@pytest.mark.parametrize(
    ("name", "raw", "words"),
    [
        ("TaskCreate", {"task": {"id": "1", "subject": "Look"}}, "Added task #1: Look"),
        ("TaskCreate", {"task": "odd"}, ""),
        ("TaskUpdate", {"taskId": "2", "updatedFields": ["deleted"]}, "Deleted task #2"),
        ("TaskUpdate", {"taskId": "2", "updatedFields": []}, "Task #2: no changes"),
        (
            "TaskUpdate",
            {
                "taskId": "2",
                "updatedFields": ["status", "active_form"],
                "statusChange": {"from": "pending", "to": "completed"},
            },
            "Task #2: now completed; updated active form",
        ),
        ("TaskUpdate", {}, ""),
        (
            "AskUserQuestion",
            {"answers": {"Which?": ["S", "L"], "Why?": "so"}},
            "You answered:\n  Which? → S, L\n  Why? → so",
        ),
        ("AskUserQuestion", {"answers": "odd"}, ""),
        ("Brief", {}, "Message shown"),
        ("StructuredOutput", {"a": 1}, "Answer accepted"),
        ("EnterPlanMode", {"filePath": "/p.md"}, "Plan mode is on. Plan: /p.md"),
        ("EnterPlanMode", {}, ""),
        ("Config", {"operation": "get", "setting": "model"}, ""),
        ("Config", {"operation": "set", "setting": "model", "newValue": "opus"}, "model = opus"),
        ("ScheduleCron", {"id": "s1", "humanSchedule": "hourly"}, "Schedule s1: hourly"),
        ("ScheduleCron", {}, ""),
        ("SendMessage", {"agentIds": ["a", "b"]}, "Message sent to a, b"),
        ("SendMessage", {"agentId": "a"}, "Message sent to a"),
        ("SendMessage", {"agentIds": 3}, "Message sent"),
        ("SendMessage", {}, "Message sent"),
        (
            "SendMessage",
            {"status": "async_launched", "agentId": "a"},
            "Resumed agent a in the background",
        ),
        ("Bash", {"stdout": "x"}, ""),
    ],
)
def test_a_result_has_its_display_form(name: str, raw: dict[str, Any], words: str) -> None:
    assert describe_for_user(name, raw) == words


@pytest.mark.parametrize(
    ("strip", "kept"),
    [
        (lambda: strip_hint("Not read. Read it.", "Error: Not read."), "Not read."),
        (lambda: strip_hint("Not read. Read it.", "Error: other"), "Not read. Read it."),
        (lambda: strip_hint("Not read.", None), "Not read."),
        (lambda: describe_denial("PreToolUse:Bash hook error: no"), "Blocked by PreToolUse hook: no"),
        (lambda: describe_denial("refused"), "refused"),
        (lambda: " ".join(strip_agent_note(["done", "(This was agent a1. ...)"])), "done"),
        (lambda: " ".join(strip_agent_note(["(This was agent a1. ...)"])), "(This was agent a1. ...)"),
    ],
)  # fmt: skip
def test_what_only_tells_the_model_how_to_continue_is_left_out(
    strip: Callable[[], str], kept: str
) -> None:
    assert strip() == kept


def failed(text: Any, **more: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "content": text, "is_error": True}
    return {"type": "user", "message": {"content": [block]}, **more}


UNASKED = NOBODY_TO_ASK + REASON_FOR_ASKING.format(why="touch a: changes files")
DENIED = {"tool_denial_kind": "permission-rule"}


@pytest.mark.parametrize(
    ("frame", "display"),
    [
        (failed(UNASKED, **DENIED), "Not run, because it needed approval: touch a: changes files"),
        (failed(describe_user_rejection("use b"), **DENIED), "Denied: use b"),
        (failed("PreToolUse:Bash hook error: no", **DENIED), "Blocked by PreToolUse hook: no"),
        (failed(CANCELLED), "Cancelled before it started"),
        (failed("<tool_use_error>No file.</tool_use_error>"), "No file."),
        (failed("No file. Look for it.", tool_use_result="Error: No file."), "No file."),
        # What is for people already, and what is no failed call.
        (failed("exit code 1"), None),
        (failed([{"type": "text", "text": CANCELLED}]), None),
        ({"type": "user", "message": {"content": CANCELLED}}, None),
        ({"type": "user", "message": {"content": []}}, None),
        ({"type": "user", "message": {"content": [{"type": "text", "text": "hi"}]}}, None),
        (
            {"type": "user", "message": {"content": [{"type": "tool_result", "content": "ok"}]}},
            None,
        ),
        ({"type": "assistant", "message": {"content": [{"type": "text", "text": "hi"}]}}, None),
    ],
)
def test_viewers_get_the_display_form_of_a_failed_call(
    frame: dict[str, Any], display: str | None
) -> None:
    assert add_display(frame) == (frame if display is None else frame | {"display": display})


def test_a_resumed_session_says_why_a_call_did_not_run(tmp_path: Path) -> None:
    calls = [uses({"tool": "Bash", "input": {"command": "touch made"}}), {"text": "so be it"}]
    with serving(by_prompt({"go": calls})) as server:
        assert clew(tmp_path, server.url, "-p", "go").returncode == 0
        with Terminal(tmp_path, server.url, "--continue") as terminal:
            terminal.expect("so be it")
            terminal.type("\x04")
            assert terminal.end() == 0
    shown = " ".join(terminal.all.split())
    assert "Not run, because it needed approval: touch made" in shown
    assert "Continue with calls" not in shown
