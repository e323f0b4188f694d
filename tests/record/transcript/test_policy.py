"""What clew records, and how: the seventeen rules by which other programs read its lines."""

import itertools
import json
import re
from typing import Any

import pytest

from clew.core.messages import factories as make
from clew.core.messages.errors import MisuseError
from clew.core.messages.factories import format_timestamp
from clew.core.messages.kinds import KINDS
from clew.record.transcript.entries import encode
from clew.record.transcript.policy import CLEANED, Writer, clean_message, place_message
from tests.requirements import requirement

WRITER = Writer(session_id="5d1c9a30-7f4e-4b52-9c1d-3b8e2f6a7c10", cwd="/p", version="0.1.0.dev1")
ids = (f"{n:08x}-0000-4000-8000-000000000000" for n in itertools.count())
USAGE = {
    "input_tokens": 3,
    "output_tokens": 5,
    "cache_creation_input_tokens": 7,
    "cache_creation": {"ephemeral_5m_input_tokens": 7, "ephemeral_1h_input_tokens": 0},
}


def now() -> dict[str, Any]:
    return {"uuid": next(ids), "at": format_timestamp(1_769_860_800_120)}


def answer(**fields: Any) -> list[dict[str, Any]]:
    blocks = [
        {"type": "text", "text": "I look: at \ud800 \u2028 it"},
        {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "/p/a b"}},
    ]
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m"}
    message |= {"content": blocks, "stop_reason": "tool_use", "stop_sequence": None, "usage": USAGE}
    return make.make_assistant(
        message | fields, uuids=ids, at=format_timestamp(0), request_id="req_1"
    )


def conversation() -> list[dict[str, Any]]:
    """A prompt, an answer of two blocks, a result, a compaction, each behind the one before."""
    said = answer()
    result = make.make_tool_answer(
        "toolu_1", "1\tx", source_uuid=said[1]["uuid"], raw={"n": 1}, **now()
    )
    segment = {"headUuid": said[0]["uuid"], "anchorUuid": "x", "tailUuid": result["uuid"]}
    cut = {"trigger": "auto", "pre_tokens": 9, "preserved_segment": segment}
    messages = [make.make_user("why?", prompt_source="typed", **now()), *said, result]
    messages += [make.compact_boundary(**cut, **now()), make.compact_summary("short", **now())]
    lines: list[dict[str, Any]] = []
    for message in messages:
        parent = lines[-1]["uuid"] if lines else None
        lines.append(place_message(message, parent_uuid=parent, writer=WRITER))
    return lines


def assistants() -> list[dict[str, Any]]:
    return [line for line in conversation() if line["type"] == "assistant"]


def test_rule_1_json_is_compact() -> None:
    for line in conversation():
        assert encode(line).decode() == json.dumps(
            json.loads(encode(line)), separators=(",", ":"), ensure_ascii=False
        ).replace("\u2028", "\\u2028")


def test_rule_2_times_have_three_decimals_and_a_z() -> None:
    form = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
    assert all(re.fullmatch(form, line["timestamp"]) for line in conversation())
    assert format_timestamp(1_769_860_800_120) == "2026-01-31T12:00:00.120Z"
    assert format_timestamp(0) == "1970-01-01T00:00:00.000Z"
    for at in (
        "2026-01-31T12:00:00.123456Z",
        "2026-01-31T12:00:00.12Z",
        "2026-01-31T12:00:00+00:00",
    ):
        with pytest.raises(MisuseError, match="timestamp"):
            place_message(
                make.make_user("x", uuid=next(ids), at=at), parent_uuid=None, writer=WRITER
            )


def test_rule_3_the_version_begins_x_y_z() -> None:
    assert {line["version"] for line in conversation()} == {"0.1.0.dev1"}
    for version in ("1.0", "v0.1.0", "acme-0.1", ""):
        with pytest.raises(MisuseError, match=r"x\.y\.z"):
            Writer(session_id="s", cwd="/p", version=version)


def test_rule_4_the_request_id_is_there_and_the_same_on_all_lines_of_an_answer() -> None:
    assert [line["requestId"] for line in assistants()] == ["req_1", "req_1"]
    said = make.make_assistant(
        {"id": "m", "model": "m", "content": []}, uuids=ids, at=format_timestamp(0), request_id="r"
    )
    with pytest.raises(MisuseError, match="requestId"):
        place_message(said[0] | {"requestId": ""}, parent_uuid=None, writer=WRITER)


def test_rule_5_the_message_id_is_the_same_on_all_lines_of_an_answer() -> None:
    assert [line["message"]["id"] for line in assistants()] == ["msg_1", "msg_1"]
    line = answer()[0]
    nameless = line | {"message": line["message"] | {"id": ""}}
    with pytest.raises(MisuseError, match="message ID"):
        place_message(nameless, parent_uuid=None, writer=WRITER)


def test_rule_6_every_line_of_an_answer_has_the_final_usage() -> None:
    assert [line["message"]["usage"] for line in assistants()] == [USAGE, USAGE]


@pytest.mark.parametrize("usage", [None, {}, {"input_tokens": 3}, {"output_tokens": None}])
def test_rule_7_both_counts_are_there(usage: Any) -> None:
    for message in answer(usage=usage):
        written_usage = place_message(message, parent_uuid=None, writer=WRITER)["message"]["usage"]
        assert all(type(written_usage[k]) is int for k in ("input_tokens", "output_tokens"))
    broken = answer()[0]
    broken["message"] = broken["message"] | {"usage": {"input_tokens": 1}}
    with pytest.raises(MisuseError, match="usage"):
        place_message(broken, parent_uuid=None, writer=WRITER)


def test_rule_8_the_split_of_cache_writes_adds_up_or_is_left_out() -> None:
    assert answer()[0]["message"]["usage"]["cache_creation"] == USAGE["cache_creation"]
    zeros = USAGE | {"cache_creation": {"ephemeral_5m_input_tokens": 0}}
    assert "cache_creation" not in answer(usage=zeros)[0]["message"]["usage"]


def test_rule_9_every_line_has_the_keys_that_strict_readers_insist_on() -> None:
    for line in conversation():
        assert {
            "parentUuid", "isSidechain", "userType", "cwd", "sessionId", "version", "uuid", "timestamp",
        } <= line.keys()  # fmt: skip
        if line["type"] == "user":
            assert line["message"]["role"] == "user"
        if line["type"] == "assistant":
            assert {"id", "type", "role", "model", "content"} <= line["message"].keys()
            assert type(line["message"]["content"]) is list


def test_rule_10_ids_are_uuids_and_the_session_id_is_the_writers() -> None:
    assert {line["sessionId"] for line in conversation()} == {WRITER.session_id}
    with pytest.raises(MisuseError, match="uuid"):
        place_message(
            make.make_user("x", uuid="e1", at=format_timestamp(0)), parent_uuid=None, writer=WRITER
        )


def test_rule_11_only_known_kinds_stand_on_the_chain_and_the_others_have_no_uuid() -> None:
    for tag in (*KINDS, "kind-of-tomorrow"):
        if tag not in ("user", "assistant", "attachment", "system"):
            with pytest.raises(MisuseError, match="chain"):
                place_message({"type": tag, "uuid": "x"}, parent_uuid=None, writer=WRITER)
    for tag in ("tombstone", "tool-started", "custom-title"):
        assert "uuid" not in make.record(tag, session_id="s", at=format_timestamp(0))
    for tag, fields in (
        ("user", {}),
        ("summary", {}),
        ("kind-of-tomorrow", {}),
        ("tag", {"uuid": "u"}),
    ):
        with pytest.raises(MisuseError, match="record"):
            make.record(tag, session_id="s", **fields)


def test_rule_12_each_line_names_the_line_it_follows() -> None:
    lines = conversation()
    for before, line in itertools.pairwise(lines):
        assert before["uuid"] in (line["parentUuid"], line.get("logicalParentUuid"))


def test_rule_13_calls_and_results_are_whole() -> None:
    blocks = [b for line in conversation()[1:4] for b in line["message"]["content"]]
    assert {"id", "name", "input"} <= blocks[1].keys()
    assert {"tool_use_id", "content"} <= blocks[2].keys()
    for broken in (
        {"type": "tool_use", "id": "x", "name": "Read"},
        {"type": "tool_use", "input": {}},
    ):
        with pytest.raises(MisuseError, match="tool_use"):
            place_message(answer(content=[broken])[0], parent_uuid=None, writer=WRITER)
    with pytest.raises(MisuseError, match="tool_result"):
        place_message(
            make.make_user([{"type": "tool_result"}], **now()), parent_uuid=None, writer=WRITER
        )


def test_rule_14_lines_are_valid_utf8_without_lone_surrogates() -> None:
    for line in conversation():
        text = encode(line).decode("utf-8")
        assert "\\ud8" not in text.lower()
        assert len(text.splitlines()) == 1


def test_rule_15_a_compaction_is_a_rootless_boundary_and_a_summary_after_it() -> None:
    before, boundary, summary = conversation()[-3:]
    assert (boundary["type"], boundary["subtype"]) == ("system", "compact_boundary")
    assert boundary["parentUuid"] is None
    assert boundary["logicalParentUuid"] == before["uuid"]
    assert boundary["compactMetadata"]["preservedSegment"]["tailUuid"] == before["uuid"]
    assert summary["isCompactSummary"] is True
    assert summary["parentUuid"] == boundary["uuid"]


def test_rule_16_lines_of_a_subagent_say_so() -> None:
    writer = Writer(session_id="s", cwd="/p", version="0.1.0", agent_id="a1", agent_name="warp")
    line = place_message(make.make_user("x", **now()), parent_uuid=None, writer=writer)
    assert (line["isSidechain"], line["agentId"], line["agentName"]) == (True, "a1", "warp")
    assert not conversation()[0]["isSidechain"]
    assert "agentId" not in conversation()[0]


def test_an_answer_is_written_one_block_a_line() -> None:
    whole = answer()[0]
    whole["message"] = whole["message"] | {"content": whole["message"]["content"] * 2}
    with pytest.raises(MisuseError, match="one content block"):
        place_message(whole, parent_uuid=None, writer=WRITER)


@requirement("R262")
def test_cleaning_takes_out_what_its_table_names_and_pointers_only_when_they_dangle() -> None:
    message = {"type": "user", "uuid": "u", "custom": 1, "sourceToolAssistantUUID": "a"}
    live = message | {key: 1 for key in CLEANED if key != "sourceToolAssistantUUID"}
    assert clean_message(live, {"a"}) == message
    assert "sourceToolAssistantUUID" not in clean_message(live, {"b"})
