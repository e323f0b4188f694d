"""What viewers may send: prompts, answers to open questions, and nothing that allows more."""

from typing import Any

import pytest

from clew.fronts.remote.guard import check_answer, check_request, strip_request

Json = dict[str, Any]
ASKED: Json = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "ls"}}
CHOICE: Json = {
    "subtype": "can_use_tool",
    "tool_name": "AskUserQuestion",
    "input": {"questions": [{"question": "Which?"}]},
}


@pytest.mark.parametrize(
    ("request_", "mode", "is_allowed"),
    [
        ({"subtype": "interrupt"}, "default", True),
        ({"subtype": "initialize", "hooks": {}}, "default", True),
        ({"subtype": "set_permission_mode", "mode": "plan"}, "default", True),
        ({"subtype": "set_permission_mode", "mode": "manual"}, "bypassPermissions", True),
        ({"subtype": "set_permission_mode", "mode": "acceptEdits"}, "default", False),
        ({"subtype": "set_permission_mode", "mode": "default"}, "plan", False),
        ({"subtype": "set_permission_mode", "mode": "bypassPermissions"}, "auto", False),
        ({"subtype": "set_permission_mode", "mode": "unheard-of"}, "bypassPermissions", False),
        ({"subtype": "set_permission_mode"}, "unheard-of", False),
        ({"subtype": "rewind_conversation"}, "default", True),
        ({"subtype": "rewind_files"}, "default", False),
        ({"subtype": "mcp_set_servers"}, "default", False),
        ({"subtype": "apply_flag_settings"}, "default", False),
        ({}, "default", False),
    ],
)
def test_requests_that_allow_more_are_refused(
    request_: Json, mode: str, *, is_allowed: bool
) -> None:
    assert (check_request(request_, mode) == "") == is_allowed


def test_a_handshake_brings_nothing() -> None:
    hooks = {"subtype": "initialize", "hooks": {"PreToolUse": []}, "systemPrompt": "x"}
    assert strip_request(hooks) == {"subtype": "initialize"}
    assert strip_request({"subtype": "set_model", "model": "opus"})["model"] == "opus"


def verdict(asked: Json | None, **given: Any) -> Any:
    response = {"subtype": "success", "request_id": "q1", "response": given}
    frame = {"type": "control_response", "uuid": "a1", "response": response}
    checked = check_answer(frame, asked)["response"]
    assert checked["request_id"] == "q1"
    return checked["response"]


def test_an_answer_approves_only_what_was_asked() -> None:
    rules = [{"type": "addRules", "behavior": "allow", "destination": "userSettings"}]
    shown = {"command": "ls"}
    allow = {"behavior": "allow", "updatedInput": shown}
    assert verdict(ASKED, **allow, updatedPermissions=rules) == allow
    assert verdict(ASKED, behavior="allow") == allow
    for changed in ({"command": "rm -rf /"}, {"command": "ls", "timeout": 1}, {}, "ls"):
        assert verdict(ASKED, behavior="allow", updatedInput=changed)["behavior"] == "deny"
    deny = {"behavior": "deny", "message": "no"}
    assert verdict(ASKED, **deny) == deny
    answers = CHOICE["input"] | {"answers": {"Which?": "this"}}
    assert verdict(CHOICE, behavior="allow", updatedInput=answers)["updatedInput"] == answers
    other: Json = {"questions": [], "answers": {}}
    assert verdict(CHOICE, behavior="allow", updatedInput=other)["behavior"] == "deny"


def test_other_answers_pass_as_they_are() -> None:
    elicited = {"behavior": "allow", "anything": 1}
    assert verdict({"subtype": "elicitation"}, **elicited) == elicited
    assert verdict(None, **elicited) == elicited
    error = {"type": "control_response", "response": {"subtype": "error", "request_id": "q1"}}
    assert check_answer(error, ASKED) == error
    assert check_answer({"type": "control_response"}, ASKED) == {"type": "control_response"}


def test_an_approval_lasts_only_as_it_was_suggested_and_only_for_the_session() -> None:
    rules = [{"toolName": "Bash", "ruleContent": "ls:*"}]
    suggested = [{"type": "addRules", "rules": rules, "destination": "localSettings"}]
    asked = {"subtype": "can_use_tool", "input": {}, "permission_suggestions": suggested}
    wider = [{"type": "setMode", "mode": "bypassPermissions", "destination": "session"}]

    def kept(updates: object, may_last: bool) -> object:
        verdict = {"behavior": "allow", "updatedPermissions": updates}
        frame = {"type": "control_response", "response": {"request_id": "1", "response": verdict}}
        checked = check_answer(frame, asked, may_last=may_last)
        return checked["response"]["response"].get("updatedPermissions")

    assert kept(suggested, True) == [suggested[0] | {"destination": "session"}]
    assert kept(suggested, False) is None
    assert kept(wider, True) is None
