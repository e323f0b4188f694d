"""Replies of several hooks at one event: the strictest applies, and the log has all of them."""

from typing import Any

import pytest
from msgspec import UNSET

from clew.agent.hooks.events import BY_NAME, EVENTS
from clew.agent.hooks.fold import STOPPED, Occasion, fold
from clew.agent.hooks.handlers import CommandHook, Hook
from clew.agent.hooks.outcome import NOTHING, HookOutcome
from clew.agent.hooks.output import Ran, read

Json = dict[str, Any]


def ran(value: Any = "", **more: Any) -> Ran:
    import json

    return Ran(stdout=value if isinstance(value, str) else json.dumps(value), **more)


def of(event: str, *replies: Ran, **fields: Any) -> HookOutcome:
    row = BY_NAME[event]
    hook = Hook(event=row, handler=CommandHook(command="check"), where="settings.json:3")
    occasion = Occasion(event=row, fields=row.example | fields)
    return fold(occasion, [(hook, read(row, each)) for each in replies])


def specific(event: str, **fields: Any) -> Json:
    return {"hookSpecificOutput": {"hookEventName": event} | fields}


def decides(permission: str, reason: str = "", **more: Any) -> Ran:
    fields = {"permissionDecision": permission, "permissionDecisionReason": reason} | more
    return ran(specific("PreToolUse", **fields))


def kinds(outcome: HookOutcome) -> list[str]:
    return [each.payload["type"] for each in outcome.attached]


def test_nobody_says_nothing() -> None:
    assert of("Stop") is NOTHING


@pytest.mark.parametrize(
    ("said", "permission", "reason"),
    [
        (["allow", "ask"], "ask", "ask"),
        (["ask", "defer", "allow"], "defer", "defer"),
        (["allow", "deny", "ask", "deny"], "deny", "deny\ndeny"),
        (["allow"], "allow", "allow"),
    ],
)
def test_the_strictest_permission_counts(said: list[str], permission: str, reason: str) -> None:
    outcome = of("PreToolUse", *(decides(each, each) for each in said))
    assert (outcome.permission, outcome.reason) == (permission, reason)


def test_a_call_is_denied_by_exit_code_and_by_the_old_words_too() -> None:
    assert of("PreToolUse", ran(exit_code=2, stderr="no")).permission == "deny"
    old = of("PreToolUse", ran({"decision": "block", "reason": "old"}))
    assert (old.permission, old.reason) == ("deny", "old")
    assert of("PreToolUse", ran({"decision": "approve"})).permission == "allow"
    silent = of("PreToolUse", ran("words"))
    assert (silent.permission, silent.block) == (None, None)


def test_a_changed_input_is_the_last_ones_and_none_of_a_denied_call() -> None:
    first, second = (decides("allow", updatedInput={"n": n}) for n in (1, 2))
    assert of("PreToolUse", first, second).input == {"n": 2}
    assert of("PreToolUse", first, decides("deny")).input is None
    assert of("PreToolUse", first, decides("defer")).input is None


def test_a_question_is_answered_by_the_no_among_the_answers() -> None:
    def answers(**decision: Any) -> Ran:
        return ran(specific("PermissionRequest", decision=decision))

    yes = answers(behavior="allow", updatedInput={"n": 1}, updatedPermissions=[{"type": "setMode"}])
    no = answers(behavior="deny", message="why", interrupt=True)
    assert of("PermissionRequest", yes).answer == {
        "behavior": "allow",
        "updatedInput": {"n": 1},
        "updatedPermissions": [{"type": "setMode"}],
        "message": None,
        "interrupt": None,
    }
    said = of("PermissionRequest", no, yes).answer
    assert said is not None
    assert (said["behavior"], said["message"], said["interrupt"]) == ("deny", "why", True)
    assert of("PermissionRequest", ran(exit_code=2, stderr="no")).answer is None


@pytest.mark.parametrize("event", [e.name for e in EVENTS])
def test_exit_code_two_does_what_the_table_says(event: str) -> None:
    outcome = of(event, ran(exit_code=2, stderr="no"))
    row = BY_NAME[event]
    prevents = row.blocking in ("prevents", "remarks", "fails")
    assert outcome.block == ("no" if prevents else None)
    told = f"{event}" if row.blocking == "shown" else None
    assert bool(outcome.notices) is (told is not None)


@pytest.mark.parametrize("event", [e.name for e in EVENTS])
def test_words_for_people_and_the_end_count_where_the_table_says(event: str) -> None:
    outcome = of(event, ran({"systemMessage": "hear", "continue": False, "stopReason": "end"}))
    row = BY_NAME[event]
    assert outcome.notices == (("hear",) if row.may_tell else ())
    assert outcome.halt == ("end" if row.may_halt else None)


def test_an_end_without_words_has_some() -> None:
    assert of("Stop", ran({"continue": False})).halt == STOPPED


def test_blocks_without_words_have_some_and_several_add_up() -> None:
    block = ran({"decision": "block"})
    assert of("PostToolBatch", block).block == "no reason given"
    assert (
        of("Stop", ran({"decision": "block", "reason": "a"}), ran(exit_code=2, stderr="b")).block
        == "a\nb"
    )


def test_words_for_the_model_are_kept_as_it_reads_them() -> None:
    outcome = of("PostToolUse", ran(specific("PostToolUse", additionalContext="mind this")))
    assert kinds(outcome) == ["hook_success", "hook_additional_context"]
    context = outcome.attached[1]
    assert context.payload["content"] == ["mind this"]
    assert context.payload["hookName"] == "PostToolUse:Bash"
    assert context.payload["toolUseID"] == "toolu_example"
    assert context.rendered == (
        "<system-reminder>\nPostToolUse:Bash hook: mind this\n</system-reminder>",
    )
    assert outcome.attached[0].rendered == ()


def test_plain_words_are_for_the_model_at_four_events_only() -> None:
    hears = [e.name for e in EVENTS if any(a.rendered for a in of(e.name, ran("words")).attached)]
    assert sorted(hears) == [
        "PostModelSwitch", "SessionStart", "UserPromptExpansion", "UserPromptSubmit",
    ]  # fmt: skip


def test_a_remark_is_read_beside_the_result() -> None:
    outcome = of("PostToolUse", ran(exit_code=2, stderr="format it"))
    assert kinds(outcome) == ["hook_blocking_error"]
    (remark,) = outcome.attached
    assert remark.payload["blockingError"] == {"blockingError": "format it", "command": "check"}
    assert "format it" in remark.rendered[0]
    denied = of("PreToolUse", ran(exit_code=2, stderr="no"))
    assert kinds(denied) == ["hook_blocking_error", "hook_permission_decision"]
    assert denied.attached[0].rendered == ()


def test_what_went_wrong_is_kept_and_told_with_its_place() -> None:
    failed = of("PreToolUse", ran(exit_code=1, stderr="broken", duration_ms=7))
    assert kinds(failed) == ["hook_non_blocking_error"]
    payload = failed.attached[0].payload
    assert (payload["exitCode"], payload["durationMs"], payload["command"]) == (1, 7, "check")
    assert failed.notices == (
        "PreToolUse:Bash hook error: Failed with non-blocking status code: broken (settings.json:3)",
    )
    assert kinds(of("PreToolUse", ran(trouble="gone"))) == ["hook_error_during_execution"]
    assert kinds(of("PreToolUse", ran(trouble="slow", is_timeout=True))) == ["hook_cancelled"]


def test_a_place_that_is_not_known_is_not_told() -> None:
    row = BY_NAME["Stop"]
    hook = Hook(event=row, handler=CommandHook(command="check"))
    outcome = fold(Occasion(event=row, fields={}), [(hook, read(row, ran(trouble="gone")))])
    assert outcome.notices == ("Stop hook error: gone",)


def test_words_for_people_and_ends_are_kept_too() -> None:
    outcome = of(
        "PostToolUse", ran({"systemMessage": "hear", "continue": False, "stopReason": "end"})
    )
    assert kinds(outcome) == ["hook_success", "hook_system_message", "hook_stopped_continuation"]
    assert outcome.attached[1].rendered == ()
    assert "end" in outcome.attached[2].rendered[0]


def test_silent_events_leave_nothing_in_the_log() -> None:
    assert of("Notification", ran("words", exit_code=1, stderr="x")).attached == ()
    assert of("Notification", ran(exit_code=1, stderr="x")).notices == ()


def test_the_end_of_a_turn_has_a_line_of_its_own() -> None:
    outcome = of(
        "Stop",
        ran(specific("Stop", additionalContext="test it")),
        ran(exit_code=1, stderr="x", duration_ms=3),
    )
    assert outcome.context == ("test it",)
    assert "hook_additional_context" not in kinds(outcome)
    assert outcome.summary == {
        "hookCount": 2,
        "hookInfos": [{"command": "check", "durationMs": 0}, {"command": "check", "durationMs": 3}],
        "hookErrors": ["Failed with non-blocking status code: x"],
        "preventedContinuation": False,
        "stopReason": "",
        "hasOutput": True,
        "toolUseID": "",
    }
    stopped = of("Stop", ran({"continue": False, "stopReason": "end"})).summary
    assert stopped is not None
    assert (stopped["preventedContinuation"], stopped["stopReason"]) == (True, "end")
    quiet = of("Stop", ran()).summary
    assert quiet is not None
    assert quiet["hasOutput"] is False
    assert of("PreToolUse", ran()).summary is None


def test_an_output_is_replaced_by_the_last_one_that_does() -> None:
    new = ran(specific("PostToolUse", updatedToolOutput={"stdout": "x"}))
    mcp = ran(specific("PostToolUse", updatedMCPToolOutput="y"))
    assert of("PostToolUse", ran()).output is UNSET
    assert of("PostToolUse", new, ran(specific("PostToolUse"))).output == {"stdout": "x"}
    assert of("PostToolUse", new, mcp).output == "y"


def test_what_only_some_events_say() -> None:
    start = of(
        "SessionStart",
        ran(specific("SessionStart", sessionTitle="t", initialUserMessage="m", watchPaths=["/a"])),
        ran(specific("SessionStart", watchPaths=["/b"])),
    )
    assert (start.title, start.first_prompt, start.watch) == ("t", "m", ("/a", "/b"))
    assert of("SessionStart", ran()).watch is None
    shown = of("MessageDisplay", ran(specific("MessageDisplay", displayContent="")))
    assert shown.shown == ""
    assert of("PermissionDenied", ran(specific("PermissionDenied", retry=True))).may_retry
    hidden = specific("UserPromptSubmit", suppressOriginalPrompt=True)
    assert of("UserPromptSubmit", ran(hidden, exit_code=2)).hides_prompt
    bell = of("Notification", ran({"terminalSequence": "\x07"}))
    assert bell.sequences == ("\x07",)
    asked = of("Elicitation", ran(specific("Elicitation", action="accept", content={"a": 1})))
    assert (asked.action, asked.content) == ("accept", {"a": 1})


def test_a_worktree_is_the_last_line_or_the_field_and_any_failure_fails_it() -> None:
    assert of("WorktreeCreate", ran("made it\n/the/folder\n")).worktree == "/the/folder"
    field = specific("WorktreeCreate", worktreePath="/other")
    assert of("WorktreeCreate", ran(field)).worktree == "/other"
    assert of("WorktreeCreate", ran("")).worktree == ""
    assert of("WorktreeCreate", ran("/f", exit_code=1)).block is not None
    assert of("WorktreeCreate", ran(field, exit_code=3)).block == "exit code 3"
    assert of("WorktreeCreate", ran("/f")).block is None
    assert of("Stop", ran("/f")).worktree == ""


def test_the_name_of_an_occasion_is_the_event_and_what_matchers_see() -> None:
    row = BY_NAME["FileChanged"]
    assert Occasion(event=row, fields={"file_path": "/a/.env"}).name == "FileChanged:.env"
    assert Occasion(event=row, fields={}).name == "FileChanged"
    assert Occasion(event=BY_NAME["Stop"], fields={"tool_use_id": 7}).tool_use_id == ""
