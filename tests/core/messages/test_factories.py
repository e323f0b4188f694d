"""Factories make complete messages that keep their invariants."""

import itertools
from typing import Any

import pytest

from clew.core.messages import factories as make
from clew.core.messages import text
from clew.core.messages.history import History, find_unanswered_calls, make_missing_results
from clew.core.messages.kinds import find_faults
from clew.core.messages.messages import AssistantMessage, ProgressMessage, UserMessage
from clew.core.messages.text import (
    AFTER_DENIAL,
    NO_CONTENT,
    OTHER_WORK,
    describe_reviewer_rejection,
    describe_subagent_rejection,
    describe_user_rejection,
    wrap_in_tag,
)
from clew.core.messages.views import make_zero_usage
from tests.requirements import requirement

AT = "2026-01-31T12:00:00.000Z"


def said(*content: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m"}
    message |= {"content": list(content), "stop_reason": "tool_use", "usage": {"input_tokens": 1}}
    uuids = (f"a{n}" for n in itertools.count())
    return make.make_assistant(message, uuids=uuids, at=AT, request_id="req_1", **fields)


def call(tool_use_id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": tool_use_id, "name": "Read", "input": {}}


@requirement("R079", "R080")
def test_empty_content_becomes_the_placeholder() -> None:
    for empty in ("", []):
        assert make.make_user(empty, uuid="u", at=AT)["message"]["content"] == NO_CONTENT
    assert make.synthetic_assistant([], uuid="u", at=AT, message_id="m")["message"]["content"] == [
        {"type": "text", "text": NO_CONTENT}
    ]
    answer = make.make_tool_answer("t", "", uuid="u", at=AT, source_uuid=None)
    assert answer["message"]["content"][0]["content"] == NO_CONTENT


def test_an_answer_is_one_entry_per_block_with_the_same_ids_and_usage() -> None:
    entries = said({"type": "text", "text": "I look"}, call("t1"), is_aborted_mid_stream=True)
    assert [e["message"]["content"][0]["type"] for e in entries] == ["text", "tool_use"]
    assert {e["requestId"] for e in entries} == {"req_1"}
    assert all(e["message"]["usage"] == {"input_tokens": 1, "output_tokens": 0} for e in entries)
    assert [e["uuid"] for e in said()] == ["a0"]


@requirement("R082", "R024")
@pytest.mark.parametrize("nothing", [None, "", 5, {}])
def test_an_answer_that_lacks_what_readers_need_can_still_be_recorded(nothing: Any) -> None:
    uuid = "0b1f9a0e-3a52-4a5e-9a43-0d2b5a1c7e11"
    message = {"id": nothing, "role": "user", "model": nothing, "content": [make.make_text("hi")]}
    [entry] = make.make_assistant(message, uuids=[uuid], at=AT, request_id="")
    assert find_faults(entry) == []
    answer = AssistantMessage(entry)
    assert (answer.role, answer.model) == ("assistant", "unknown")
    assert answer.message_id == answer.request_id == "msg_0b1f9a0e3a524a5e9a430d2b5a1c7e11"


def test_a_synthetic_message_wraps_words_in_one_text_block_and_says_no_model_wrote_it() -> None:
    for words, shown in (("hello", "hello"), ("", NO_CONTENT)):
        made = make.synthetic_assistant(words, uuid="u", at=AT, message_id="random")
        message = made["message"]
        assert message["content"] == [{"type": "text", "text": shown}]
        assert {key: message[key] for key in message if key not in ("content", "usage")} == {
            "id": "random",
            "type": "message",
            "role": "assistant",
            "model": "<synthetic>",
            "container": None,
            "context_management": None,
            "stop_reason": "stop_sequence",
            "stop_sequence": "",
        }
        assert message["usage"] == make_zero_usage()
        assert AssistantMessage(made).is_synthetic
        assert not AssistantMessage(made).is_synthetic_api_error


@requirement("R084", "R089")
def test_the_fixed_texts_are_what_other_programs_match() -> None:
    assert text.INTERRUPTED == "[Request interrupted by user]"
    assert text.INTERRUPTED_FOR_TOOL_USE == "[Request interrupted by user for tool use]"
    assert text.RESULT_MISSING == "[Tool result missing due to internal error]"
    assert text.NO_CONTENT == "(no content)"
    assert text.NO_RESPONSE_REQUESTED == "No response requested."
    assert text.SYNTHETIC_MODEL == "<synthetic>"
    for mark, for_tool_use in (
        (text.INTERRUPTED, False),
        (text.INTERRUPTED_FOR_TOOL_USE, True),
    ):
        made = make.make_interruption(uuid="u", at=AT, for_tool_use=for_tool_use)
        assert made["message"]["content"] == [{"type": "text", "text": mark}]


@requirement("R022")
def test_what_clew_says_to_the_model_alone_is_meta_and_a_summary_has_its_own_face() -> None:
    at = {"uuid": "u", "at": AT}
    assert UserMessage(make.warning("the disk is nearly full", **at)).face == "meta"
    assert (
        "the disk is nearly full" in UserMessage(make.warning("the disk is nearly full", **at)).text
    )
    summary = UserMessage(make.compact_summary("we wove", **at))
    assert (summary.face, summary.is_synthetic) == ("compact_summary", True)
    assert summary.text.endswith("we wove")


@requirement("R011")
def test_a_user_message_takes_every_field_its_caller_gives_and_writes_no_other() -> None:
    plain = make.make_user("hi", uuid="u", at=AT)
    assert plain.keys() == {"type", "message", "uuid", "timestamp"}
    assert (plain["uuid"], plain["timestamp"]) == ("u", AT)
    full = make.make_user(
        [make.make_text("hi")],
        uuid="u",
        at=AT,
        is_visible_in_transcript_only=True,
        mcp_meta={"structuredContent": 1},
        image_paste_ids=[1],
        permission_mode="plan",
        origin={"kind": "human"},
        prompt_source="typed",
        prompt_id="p",
    )
    assert {k: v for k, v in full.items() if k not in plain} == {
        "isVisibleInTranscriptOnly": True,
        "mcpMeta": {"structuredContent": 1},
        "imagePasteIds": [1],
        "permissionMode": "plan",
        "origin": {"kind": "human"},
        "promptSource": "typed",
        "promptId": "p",
    }


@requirement("R087", "R021")
def test_a_tools_answer_is_stored_for_the_model_and_as_the_tool_gave_it() -> None:
    raw = {"stdout": "out", "interrupted": False}
    answer = UserMessage(
        make.make_tool_answer("t1", "out", uuid="u", at=AT, source_uuid="a1", raw=raw)
    )
    assert [(r.tool_use_id, r.content, r.is_error) for r in answer.tool_results] == [
        ("t1", "out", False)
    ]
    assert answer.tool_use_result == raw
    assert answer.source_tool_assistant_uuid == "a1"
    assert (answer.face, answer.is_meta) == ("tool_result", False)
    for falsy in (0, "", [], {}):
        kept = make.make_tool_answer("t1", "out", uuid="u", at=AT, source_uuid="a1", raw=falsy)
        assert kept["toolUseResult"] == falsy


@requirement("R083")
def test_progress_carries_whatever_its_tool_reports() -> None:
    for data in ({"lines": 3}, [1], "half", None):
        made = ProgressMessage(make.progress("t", data, uuid="u", at=AT))
        assert (made.progress, made.tool_use_id, made.parent_tool_use_id) == (data, "t", None)


@requirement("R088", "W10")
def test_missing_results_are_uses_minus_results_and_asking_twice_changes_nothing() -> None:
    answer = make.make_tool_answer(
        "t1", "out", uuid="r1", at=AT, source_uuid="a0", raw={"stdout": "out"}
    )
    history = History([*said(call("t1"), call("t2")), answer])
    assert [(use.id, source) for use, source in history.unanswered()] == [("t2", "a1")]
    missing = make_missing_results(history, "boom", new_uuid=lambda: "new", at=AT)
    [result] = [UserMessage(m).tool_results[0] for m in missing]
    assert (result.tool_use_id, result.is_error, result.content) == ("t2", True, "boom")
    assert not make_missing_results(history.with_messages(missing), "boom", new_uuid=str, at=AT)
    assert not find_unanswered_calls(said({"type": "tool_use", "name": "x"}))
    assert not find_unanswered_calls([{"type": "system"}])
    stray = {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": 1}]}}
    assert [use.id for use, _ in find_unanswered_calls([*said(call("t1")), stray])] == ["t1"]


def test_a_history_grows_by_sharing_and_a_branch_of_it_is_its_own() -> None:
    first = History([{"uuid": "1"}])
    second = first.with_messages([{"uuid": "2"}])
    branch = first.with_messages([{"uuid": "3"}])
    assert [m["uuid"] for m in first] == ["1"]
    assert [m["uuid"] for m in second] == ["1", "2"]
    assert [m["uuid"] for m in branch] == ["1", "3"]
    assert second[-1] == {"uuid": "2"}
    assert len(second.without(["1"])) == 1
    assert repr(second) == "<History of 2 messages>"


@requirement("R090", "R091")
def test_a_denial_reads_differently_by_who_denied() -> None:
    texts = {
        describe_user_rejection(),
        describe_subagent_rejection(),
        describe_reviewer_rejection("it deletes ~"),
    }
    assert len(texts) == 3
    assert "use tabs" in describe_user_rejection("use tabs")
    assert "it deletes ~" in describe_reviewer_rejection("it deletes ~.")
    for guided in (describe_subagent_rejection(), describe_reviewer_rejection("")):
        assert "another tool" in guided
        assert AFTER_DENIAL in guided
        assert OTHER_WORK in guided


def test_each_factory_makes_its_kind() -> None:
    at = {"uuid": "u", "at": AT}
    made = [
        make.make_interruption(for_tool_use=True, message_id="m", **at),
        make.make_api_error(
            "API Error: 400", message_id="m", error="invalid_request", status=400, **at
        ),
        make.make_system("turn_duration", durationMs=5, **at),
        make.make_attachment({"type": "date"}, rendered=["today"], **at),
        make.make_attachment({"type": "hook_success"}, **at),
        make.progress("t", {"lines": 3}, parent_tool_use_id="p", **at),
        make.record("tombstone", messageUuid="a", session_id="s", at=AT),
        make.stream_event({"type": "ping"}),
        make.tool_use_summary("read two files", ["a", "b"], **at),
    ]
    assert UserMessage(made[0]).face == "synthetic"
    assert AssistantMessage(made[1]).is_synthetic_api_error
    assert [m["type"] for m in made[2:]] == [
        "system", "attachment", "attachment", "progress", "tombstone",
        "stream_event", "tool_use_summary",
    ]  # fmt: skip
    assert wrap_in_tag("bash-input", "ls") == "<bash-input>ls</bash-input>"
    assert all(tag == tag.strip("<>/ ") for tag in text.TAGS)
    used = make.synthetic_assistant(
        "x", uuid="u", at=AT, message_id="m", usage={"output_tokens": 3}
    )
    assert AssistantMessage(used).usage.output_tokens == 3
