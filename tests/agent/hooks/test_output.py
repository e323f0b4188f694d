"""One hook's reply: exit codes and JSON, according to the published contract."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.agent.hooks.events import BY_NAME, EVENTS
from clew.agent.hooks.output import (
    HookOutput,
    HookReply,
    Ran,
    blocking_reason,
    describe_unknown_field,
    make_verdict,
    read,
    read_async_s,
    read_sequence,
    without_async_line,
)

Json = dict[str, Any]
PRE = BY_NAME["PreToolUse"]


def said(
    value: Any, *, exit_code: int = 0, stderr: str = "", event: str = "PreToolUse"
) -> HookReply:
    stdout = value if isinstance(value, str) else json.dumps(value)
    return read(BY_NAME[event], Ran(exit_code=exit_code, stdout=stdout, stderr=stderr))


def deny(event: str = "PreToolUse") -> Json:
    specific = {
        "hookEventName": event,
        "permissionDecision": "deny",
        "permissionDecisionReason": "not here",
    }
    return {"hookSpecificOutput": specific}


def test_silence_is_nothing() -> None:
    reply = said("")
    assert (reply.words, reply.error, reply.block, reply.said) == ("", "", None, HookOutput())


def test_plain_words_are_plain_words() -> None:
    for text in ("hello", '{"begins": like JSON', "[1, 2]", '"quoted"', "} {"):
        reply = said(f" {text}\n")
        assert (reply.words, reply.error) == (text, "")


def test_lines_of_json_that_answer_nothing_are_plain_words() -> None:
    assert said('{"a": 1}\n{"b": 2}').words == '{"a": 1}\n{"b": 2}'
    assert "not valid JSON" in said('{"a": 1}\n{"continue": false}').error
    assert "not valid JSON" in said('{"a": 1\n"b": 2}').error
    assert "not valid JSON" in said('{"a": [}').error


def test_an_object_says_its_fields() -> None:
    reply = said(
        {"continue": False, "stopReason": "enough", "systemMessage": "m", "suppressOutput": True}
    )
    assert (reply.said.goes_on, reply.said.stop_reason, reply.said.message) == (
        False,
        "enough",
        "m",
    )


@pytest.mark.parametrize("exit_code", [0, 1, 3, 127])
def test_a_valid_object_counts_whatever_the_exit_code(exit_code: int) -> None:
    reply = said(deny(), exit_code=exit_code)
    assert reply.said.specific is not None
    assert (reply.error, reply.said.specific.permission) == ("", "deny")


@pytest.mark.parametrize("exit_code", [0, 1])
@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"decision": "perhaps"}, "Invalid enum value 'perhaps' - at `decision`"),
        ({"continue": "no"}, "Expected `bool | null`, got `str` - at `continue`"),
        ({"hookSpecificOutput": {}}, "missing required field `hookEventName`"),
        (deny("Stop"), "the reply is for Stop, not for PreToolUse"),
        ('{"a": ' * 200_000 + "1" + "}" * 200_000, "not"),
    ],
)
def test_a_wrong_object_is_reported_and_changes_nothing(
    value: Any, told: str, exit_code: int
) -> None:
    reply = said(value, exit_code=exit_code)
    assert told in reply.error
    assert (reply.block, reply.said) == (None, HookOutput())


def test_two_blocks_whatever_is_printed() -> None:
    assert said("", exit_code=2, stderr=" no \n").block == "no"
    assert said("", exit_code=2).block == "no reason given"
    assert said({"decision": "perhaps"}, exit_code=2, stderr="no").block == "no"
    allow = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}
    assert said(allow, exit_code=2, stderr="no").block == "no"
    assert said(deny(), exit_code=2, stderr="other").block == "not here"
    assert said({"decision": "block", "reason": "r"}, exit_code=2, event="Stop").block == "r"


def test_other_codes_are_errors_that_hold_nothing_up() -> None:
    assert said("words", exit_code=1, stderr="one\ntwo").error == (
        "Failed with non-blocking status code: one"
    )
    assert said("", exit_code=7).error == "Failed with non-blocking status code: exit code 7"


def test_one_that_could_not_run_says_so_and_blocks_only_where_it_must() -> None:
    reply = read(PRE, Ran(trouble="gone"))
    assert (reply.error, reply.block) == ("gone", None)
    reply = read(PRE, Ran(trouble="gone", blocks_on_trouble=True))
    assert reply.block == "gone"


def test_one_that_answers_in_json_alone_does_so() -> None:
    assert read(PRE, Ran(stdout="", is_structured=True)).error == ""
    assert "not a JSON object" in read(PRE, Ran(stdout="fine", is_structured=True)).error


def test_a_reason_is_one_only_where_something_blocks() -> None:
    assert blocking_reason(HookOutput()) is None
    assert blocking_reason(HookOutput(decision="approve", reason="r")) is None
    assert blocking_reason(HookOutput(decision="block", reason="r")) == "r"


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("\x07", True),
        ("\x1b]777;notify;a;b\x07", True),
        ("\x1b]0;title\x1b\\\x07", True),
        ("\x1b]9;4;1;50\x07", True),
        ("\x1b]52;c;aGk=\x07", False),
        ("\x1b]8;;http://x\x07", False),
        ("\x1b[31m", False),
        ("\x1b]0;a\x1b[31m\x07", False),
        ("words", False),
        ("", False),
    ],
)
def test_signals_are_titles_notifications_and_the_bell(text: str, passes: bool) -> None:
    assert read_sequence(HookOutput(sequence=text)) == (text if passes else "")
    assert read_sequence(HookOutput()) == ""


NO: Json = {"ok": False, "reason": "why"}


@pytest.mark.parametrize(
    ("event", "verdict", "continues", "answer"),
    [
        ("Stop", {"ok": True}, False, {}),
        ("Stop", NO, False, {"decision": "block", "reason": "why"}),
        ("Stop", NO | {"impossible": True}, False, {}),
        ("SubagentStop", NO | {"impossible": True}, False, {}),
        ("PostToolBatch", {"ok": False}, True, {"decision": "block", "reason": "no reason given"}),
        ("PostToolUse", NO, True, {"decision": "block", "reason": "why"}),
        ("PostToolUse", NO, False, {"continue": False, "stopReason": "why"}),
        ("TeammateIdle", NO, False, {"continue": False, "stopReason": "why"}),
        ("TeammateIdle", NO, True, {"decision": "block", "reason": "why"}),
        ("PermissionRequest", NO, False, {}),
        ("PermissionDenied", NO, True, {}),
    ],
)
def test_a_models_no_is_each_events_own(
    event: str, verdict: Json, continues: bool, answer: Json
) -> None:
    assert make_verdict(event, verdict, continues=continues) == answer


def test_a_models_no_to_a_call_denies_it_and_ends_the_turn_unless_told_otherwise() -> None:
    ends = make_verdict("PreToolUse", NO, continues=False)
    goes_on = make_verdict("PreToolUse", NO, continues=True)
    assert ends == goes_on | {"continue": False, "stopReason": "why"}
    assert goes_on["hookSpecificOutput"]["permissionDecision"] == "deny"


@given(st.text(), st.text(), st.integers(0, 255), st.sampled_from([e.name for e in EVENTS]))
def test_whatever_is_printed_is_read(stdout: str, stderr: str, code: int, event: str) -> None:
    reply = read(BY_NAME[event], Ran(exit_code=code, stdout=stdout, stderr=stderr))
    assert (reply.block is not None) is (code == 2)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    st.dictionaries(
        st.sampled_from(
            ["continue", "stopReason", "decision", "reason", "systemMessage", "hookSpecificOutput"]
        ),
        json_values,
    )
)
def test_an_object_is_an_answer_or_an_error_never_both(value: Json) -> None:
    reply = said(value)
    assert not reply.error or reply.said == HookOutput()


@pytest.mark.parametrize(
    ("line", "limit_s"),
    [
        ('{"async": true}', 15.0),
        ('{"async": true, "asyncTimeout": 180000}', 180.0),
        ('{"async": true, "asyncTimeout": true}', 15.0),
        ('{"async": true, "asyncTimeout": -1}', 15.0),
        ('{"async": false}', None),
        ('["async"]', None),
        ('{"async": tr', None),
        ("{}", None),
    ],
)
def test_the_first_line_may_ask_for_the_background(line: str, limit_s: float | None) -> None:
    assert read_async_s(line) == limit_s
    rest = "{}\n" if limit_s is not None else f"{line}\n{{}}\n"
    assert without_async_line(f"{line}\n{{}}\n") == rest


def test_unknown_fields_of_functions_are_named_with_the_nearest_one() -> None:
    assert describe_unknown_field(["decision", "continue"]) == ""
    near = describe_unknown_field(["decision", "descision"])
    assert near == "'descision' (did you mean \"decision\"?)"
    assert "'permissionDecision'; expected one of async, " in describe_unknown_field(
        ["permissionDecision"]
    )
