"""A program's hooks guard its sessions also when they fail."""

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

import clew
from clew.testing.server import serving
from tests.fronts.headless.clew_process import environment

MAKES = {
    "scenario": 1,
    "answers": [
        {"content": [{"tool": "Bash", "input": {"command": "mkdir made"}}]},
        {"text": "done"},
    ],
}
HELLO = {"scenario": 1, "answers": [{"text": "one"}]}
HookFunction = Callable[[dict[str, Any], str | None], Awaitable[Any]]


class Ran:
    """The messages of a session, and what its command left."""

    def __init__(self, messages: list[Any], folder: Path) -> None:
        self.notices = [str(m.data.get("content")) for m in messages if isinstance(m, clew.System)]
        self.results = [
            str(block.content)
            for m in messages
            if isinstance(m, clew.User)
            for block in m.content
            if isinstance(block, clew.ToolResult)
        ]
        self.text = messages[-1].text
        self.is_made = (folder / "made").exists()


async def run(folder: Path, *hooks: clew.HookAt, plan: dict[str, Any] = MAKES, **more: Any) -> Ran:
    work = folder / "work"
    work.mkdir()
    with serving(plan) as server:
        options = clew.ClewOptions(
            cwd=work,
            env=environment(folder, server.url),
            allowed_tools=["Bash"],
            hooks=hooks,
            **more,
        )
        messages = [message async for message in clew.query("go", options)]
    return Ran(messages, work)


def returning(answer: Any) -> HookFunction:
    async def answer_with(given: dict[str, Any], tool_use_id: str | None) -> Any:
        return answer

    return answer_with


async def break_down(given: dict[str, Any], tool_use_id: str | None) -> dict[str, Any]:
    raise LookupError("no such policy")


async def test_a_guard_that_raises_prevents_the_call_and_names_its_exception(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ran = await run(tmp_path, clew.HookAt(event="PreToolUse", call=break_down))
    assert not ran.is_made
    assert "LookupError: no such policy" in ran.results[0]
    assert any("PreToolUse:Bash hook error: LookupError: no such" in n for n in ran.notices)
    (record,) = [r for r in caplog.records if r.name == "clew.hooks" and r.levelno > logging.INFO]
    assert record.getMessage() == "the PreToolUse hook break_down failed"
    assert "raise LookupError" in caplog.text


async def test_a_hook_that_only_watches_can_say_so(tmp_path: Path) -> None:
    watching = clew.HookAt(event="PreToolUse", call=break_down, on_failure="continue")
    ran = await run(tmp_path, watching)
    assert ran.is_made
    assert any("hook error: LookupError: no such policy" in notice for notice in ran.notices)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "a hook must return a dict ({} for no decision), got NoneType"),
        ({"decision": "blok"}, "reply is invalid: Invalid enum value 'blok'"),
        ({"decison": "block"}, "the unknown key 'decison' (did you mean"),
        ({"permissionDecision": "deny"}, "unknown key 'permissionDecision'; expected one of"),
        (
            {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecison": "deny"}},
            "the unknown key 'permissionDecison' in hookSpecificOutput (did you mean",
        ),
        (
            {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "Deny"}},
            "the reply is invalid",
        ),
        ({"reason": object()}, "TypeError: "),
    ],
)
async def test_an_answer_that_no_one_understands_prevents_the_call(
    tmp_path: Path, answer: Any, words: str
) -> None:
    ran = await run(tmp_path, clew.HookAt(event="PreToolUse", call=returning(answer)))
    assert not ran.is_made
    assert words in ran.results[0]
    assert any(words in notice for notice in ran.notices)
    assert ran.text == "done"


async def test_what_no_hook_can_prevent_continues(tmp_path: Path) -> None:
    hooks = [
        clew.HookAt(event=event, call=break_down)
        for event in ("SessionStart", "PostToolUse", "Stop", "SessionEnd")
    ]
    ran = await run(tmp_path, *hooks)
    assert ran.is_made
    assert "LookupError" not in str(ran.results)
    assert ran.text == "done"
    for event in ("SessionStart", "PostToolUse", "Stop"):
        assert any(f"{event}" in notice and "no such policy" in notice for notice in ran.notices)


async def test_functions_that_are_not_async_after_all_let_no_call_through(tmp_path: Path) -> None:
    hook = clew.HookAt(event="PreToolUse", call=cast("Any", lambda given, tool_use_id: {}))
    ran = await run(tmp_path, hook)
    assert not ran.is_made
    assert "a hook must be an async function; it returned dict" in ran.results[0]


async def test_what_decides_about_calls_and_raises_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def decide(call: clew.Call) -> clew.Permit:
        raise LookupError("no such policy")

    ran = await run(tmp_path, can_use_tool=decide, settings=ASK)
    assert not ran.is_made
    assert "LookupError: no such policy" in ran.results[0]
    assert ("clew.permissions", logging.ERROR, "can_use_tool failed") in caplog.record_tuples


ASK = '{"permissions": {"ask": ["Bash"]}}'
