"""From events to the finished message: what is complete, what is invalid, which calls may run."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clew.core.stream.decode import EventDecoder
from clew.core.stream.events import (
    ENDINGS,
    AnswerEvent,
    BlockDropped,
    BlockFinished,
    BlockStarted,
    CitationAdded,
    Ignored,
    InputDelta,
    MessageFinished,
    MessageStarted,
    StreamFault,
    TextDelta,
    ThinkingDelta,
    ToolUseReady,
    ToolUseUnusable,
    UsageChanged,
)
from tests.core.stream.streams import (
    MESSAGE_STOP,
    Json,
    accumulator,
    answer,
    answers,
    cut,
    delta,
    faults,
    finished,
    judged,
    message_delta,
    message_start,
    run,
    sse,
    start,
    stop,
    text,
    tool_input,
    tool_start,
)
from tests.requirements import requirement


def of(kind: type[Any], events: list[AnswerEvent]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


@requirement("R055", "R056", "R057", "R058", "R059", "R060", "R061", "R062", "W16")
def test_an_answer_with_text_and_a_call_is_told_step_by_step() -> None:
    machine = accumulator()
    states: list[tuple[str, list[str]]] = []
    for event in answer(
        start(0),
        text(0, "Let me "),
        text(0, "look."),
        stop(0),
        tool_start(1),
        tool_input(1, '{"path":'),
        tool_input(1, '"/a"}'),
        stop(1),
        stop_reason="tool_use",
    ):
        states.append((machine.state, [type(out).__name__ for out in machine.feed(event)]))
    assert states == [
        ("waiting", ["MessageStarted"]),
        ("open", ["BlockStarted"]),
        ("open", ["TextDelta"]),
        ("open", ["TextDelta"]),
        ("open", ["BlockFinished"]),
        ("open", ["BlockStarted"]),
        ("open", ["InputDelta"]),
        ("open", ["InputDelta"]),
        ("open", ["BlockFinished", "ToolUseReady"]),
        ("open", ["UsageChanged"]),
        ("open", ["MessageFinished"]),
    ]
    assert machine.state == "finished"
    assert machine.close() == []
    assert machine.message == {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "model-1",
        "content": [
            {"type": "text", "text": "Let me look."},
            {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"path": "/a"}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }


@requirement("R055")
def test_the_start_gives_id_model_and_first_usage() -> None:
    (started,) = accumulator().feed(message_start(model="m", new={"kept": 1}))
    assert isinstance(started, MessageStarted)
    assert started.message["id"] == "msg_1"
    assert started.message["model"] == "m"
    assert started.message["usage"] == {"input_tokens": 10, "output_tokens": 1}
    assert started.message["new"] == {"kept": 1}


@requirement("W4", "R057")
def test_blocks_grow_by_index_even_when_they_are_interleaved() -> None:
    events = run(
        answer(
            start(0),
            start(1),
            text(1, "b"),
            text(0, "a"),
            text(1, "B"),
            stop(1),
            text(0, "A"),
            stop(0),
        )
    )
    assert [b["text"] for b in finished(events).message["content"]] == ["aA", "bB"]
    assert finished(events).complete


@requirement("W4")
def test_thinking_signature_and_citations_are_parts_of_their_blocks() -> None:
    one, two = {"cited_text": "x"}, {"cited_text": "y"}
    events = run(
        answer(
            start(0, "thinking", signature=""),
            delta(0, "thinking_delta", thinking="hm"),
            delta(0, "thinking_delta", thinking="m"),
            delta(0, "signature_delta", signature="c2ln"),
            stop(0),
            start(1, "redacted_thinking", data="AAAA"),
            stop(1),
            start(2, citations=None),
            text(2, "so"),
            delta(2, "citations_delta", citation=one),
            delta(2, "citations_delta", citation=two),
            stop(2),
            start(3, "compaction", content=None),
            delta(3, "compaction_delta", content="short", encrypted_content="e"),
            stop(3),
        )
    )
    assert finished(events).message["content"] == [
        {"type": "thinking", "thinking": "hmm", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "AAAA"},
        {"type": "text", "text": "so", "citations": [one, two]},
        {"type": "compaction", "content": "short", "encrypted_content": "e"},
    ]
    assert [e.thinking for e in of(ThinkingDelta, events)] == ["hm", "m"]
    assert [e.citation for e in of(CitationAdded, events)] == [one, two]
    assert faults(events) == []


@requirement("W4", "V11")
def test_server_tools_and_their_results_are_kept_and_never_run_here() -> None:
    result = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"url": "u"}]}
    events = run(
        answer(
            start(0, "server_tool_use", id="srv_1", name="web_search", input={}),
            tool_input(0, '{"query":"q"}'),
            stop(0),
            {"type": "content_block_start", "index": 1, "content_block": result},
            stop(1),
            start(2, "mcp_tool_use", id="mcp_1", name="n", server_name="s", input={}),
            stop(2),
        )
    )
    content = finished(events).message["content"]
    assert content[0]["input"] == {"query": "q"}
    assert content[1] == result
    assert content[2]["input"] == {}
    assert not of(ToolUseReady, events)


@requirement("W4", "V11")
def test_what_is_unknown_is_kept_or_passed_on_and_never_fatal() -> None:
    newer_event = {"type": "newer_event", "x": 1}
    newer_delta = delta(0, "newer_delta", x=2)
    no_kind = delta(0, "x")
    no_kind["delta"] = {"y": 1}
    events = run(
        answer(
            {"type": "ping"},
            newer_event,
            start(0, "poem", rhyme=True),
            text(0, "roses"),
            newer_delta,
            no_kind,
            tool_input(0, '{"lines":'),
            tool_input(0, "4}"),
            stop(0),
            {"type": "content_block_start", "index": 1, "content_block": {"untyped": 1}},
            stop(1),
            {"type": ["no", "name"]},
        )
    )
    last = finished(events)
    assert last.complete
    assert last.message["content"] == [
        {"type": "poem", "rhyme": True, "text": "roses", "input": {"lines": 4}},
        {"untyped": 1},
    ]
    assert [(i.what, i.kind, i.event) for i in of(Ignored, events)] == [
        ("event", "newer_event", newer_event),
        ("delta", "newer_delta", newer_delta),
        ("delta", "None", no_kind),
        ("event", "['no', 'name']", {"type": ["no", "name"]}),
    ]


@requirement("W4")
def test_usage_is_a_running_total_and_null_erases_nothing() -> None:
    first = {
        "input_tokens": 10,
        "output_tokens": 1,
        "cache_read_input_tokens": 7,
        "service_tier": "standard",
        "cache_creation": {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 4},
    }
    machine = accumulator()
    machine.feed(message_start(usage=first, container={"id": "c"}))
    (one,) = machine.feed(message_delta(None, output_tokens=20, cache_read_input_tokens=None))
    (two,) = machine.feed(
        message_delta(
            "end_turn",
            output_tokens=30,
            input_tokens=12,
            cache_creation={
                "ephemeral_5m_input_tokens": 5,
                "ephemeral_1h_input_tokens": None,
                "new": None,
            },
            server_tool_use={"web_search_requests": 2},
            newer=None,
        )
    )
    three = machine.feed(
        {"type": "message_delta", "delta": {"stop_reason": None, "container": None}}
    )
    assert isinstance(one, UsageChanged)
    assert one.usage == {"output_tokens": 20, "cache_read_input_tokens": None}
    assert isinstance(two, UsageChanged)
    assert first["cache_creation"] == {
        "ephemeral_5m_input_tokens": 3,
        "ephemeral_1h_input_tokens": 4,
    }
    assert three == []
    last = finished(machine.feed(MESSAGE_STOP))
    assert last.message["usage"] == {
        "input_tokens": 12,
        "output_tokens": 30,
        "cache_read_input_tokens": 7,
        "service_tier": "standard",
        "cache_creation": {
            "ephemeral_5m_input_tokens": 5,
            "ephemeral_1h_input_tokens": 4,
            "new": None,
        },
        "server_tool_use": {"web_search_requests": 2},
        "newer": None,
    }
    assert last.stop_reason == "end_turn"
    assert last.message["container"] == {"id": "c"}


@requirement("W4")
def test_unknown_fields_of_message_blocks_and_deltas_survive() -> None:
    ending = {
        "type": "message_delta",
        "delta": {
            "stop_reason": "refusal",
            "stop_sequence": None,
            "stop_details": {"type": "refusal"},
            "content": 1,
        },
        "usage": {"output_tokens": 2, "iterations": [1]},
        "context_management": {"applied_edits": []},
    }
    events = run(
        [
            message_start(new=1),
            start(0, new=2),
            stop(0),
            tool_start(1, caller={"type": "direct"}),
            stop(1),
            ending,
            MESSAGE_STOP,
        ]
    )
    message = finished(events).message
    assert message["new"] == 1
    assert message["stop_details"] == {"type": "refusal"}
    assert message["context_management"] == {"applied_edits": []}
    assert message["usage"]["iterations"] == [1]
    assert message["content"][0] == {"type": "text", "text": "", "new": 2}
    assert message["content"][1]["caller"] == {"type": "direct"}
    assert "delta" not in message


@requirement("W4", "R060")
@pytest.mark.parametrize(
    ("reason", "ending"),
    [
        ("end_turn", "turn"),
        ("stop_sequence", "turn"),
        ("tool_use", "tools"),
        ("pause_turn", "paused"),
        ("max_tokens", "cut_by_max_tokens"),
        ("model_context_window_exceeded", "cut_by_context"),
        ("refusal", "refused"),
        ("compaction", "compacted"),
        ("a_newer_reason", "unknown"),
    ],
)
def test_every_stop_reason_has_its_ending(reason: str, ending: str) -> None:
    last = finished(run(answer(start(0), text(0, "a"), stop(0), stop_reason=reason)))
    assert (last.stop_reason, last.ending, last.complete) == (reason, ending, True)
    assert reason in ENDINGS or ending == "unknown"


def whole_call(index: int, *pieces: str, **fields: Any) -> list[Json]:
    return [tool_start(index, **fields), *(tool_input(index, p) for p in pieces), stop(index)]


@requirement("R058", "R059", "W5", "C3")
@pytest.mark.parametrize(
    ("pieces", "reason"),
    [
        (['{"path":"/a'], "invalid_json"),
        (['{"path":"/a"}}'], "invalid_json"),
        (["[1]"], "not_an_object"),
        (['"rm"'], "not_an_object"),
    ],
)
def test_input_that_is_no_object_is_never_ready_to_run(pieces: list[str], reason: str) -> None:
    events = run(answer(*whole_call(0, *pieces), stop_reason="tool_use"))
    assert not of(ToolUseReady, events)
    (unusable,) = of(ToolUseUnusable, events)
    assert unusable.reason == reason
    assert unusable.raw == "".join(pieces)
    assert unusable.message
    assert finished(events).message["content"] == [unusable.block]
    assert unusable.block["input"] == {"INVALID_JSON": unusable.raw}


@pytest.mark.parametrize(
    ("given", "expected"),
    [({"a": 1}, {"a": 1}), ({}, {}), (None, {}), ([1], "[1]"), ('{"a":1}', '{"a":1}'), (3, "3")],
)
def test_input_that_came_with_the_start_counts_if_it_is_an_object(
    given: Any, expected: Any
) -> None:
    events = run(answer(*whole_call(0, input=given), stop_reason="tool_use"))
    if isinstance(expected, dict):
        (ready,) = of(ToolUseReady, events)
        assert ready.block["input"] == expected
    else:
        (unusable,) = of(ToolUseUnusable, events)
        assert (unusable.reason, unusable.raw) == ("not_an_object", expected)


@requirement("W4", "W5")
@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded"])
@pytest.mark.parametrize("pieces", [['{"path":"/a'], [""], [" "], []])
def test_a_call_cut_by_a_limit_is_not_run_even_if_nothing_of_it_came(
    reason: str, pieces: list[str]
) -> None:
    events = run(answer(*whole_call(0, *pieces), stop_reason=reason))
    (unusable,) = of(ToolUseUnusable, events)
    assert unusable.reason == "cut"
    assert reason in unusable.message
    assert not of(ToolUseReady, events)
    assert finished(events).ending.startswith("cut_by")


@pytest.mark.parametrize("reason", ["max_tokens", "refusal", "newer"])
def test_a_call_whose_input_came_whole_is_run_whatever_ended_the_answer(reason: str) -> None:
    events = run(
        answer(*whole_call(0, '{"a":1}'), *whole_call(1, "{}", tool_id="b"), stop_reason=reason)
    )
    assert [e.block["input"] for e in of(ToolUseReady, events)] == [{"a": 1}, {}]


@pytest.mark.parametrize("reason", ["pause_turn", "refusal", "newer"])
def test_a_call_without_input_is_not_run_after_an_ending_that_may_have_cut_it(reason: str) -> None:
    (unusable,) = of(ToolUseUnusable, run(answer(*whole_call(0, ""), stop_reason=reason)))
    assert unusable.reason == "unconfirmed"
    assert reason in unusable.message


@requirement("W5")
def test_a_call_without_input_is_ready_as_soon_as_it_is_known_to_be_whole() -> None:
    machine = accumulator()
    for event in [message_start(), *whole_call(0)]:
        assert not of(ToolUseReady, machine.feed(event))
    followed = machine.feed(tool_start(1, "toolu_2"))
    assert [type(e) for e in followed] == [ToolUseReady, BlockStarted]
    assert not of(ToolUseReady, machine.feed(stop(1)))
    assert [type(e) for e in machine.feed(message_delta("tool_use"))] == [
        UsageChanged,
        ToolUseReady,
    ]


def test_a_broken_call_before_another_block_was_broken_by_the_model_not_by_a_limit() -> None:
    events = run(answer(*whole_call(0, "{"), start(1), stop(1), stop_reason="max_tokens"))
    assert [e.reason for e in of(ToolUseUnusable, events)] == ["invalid_json"]


@pytest.mark.parametrize("name", [None, 3])
def test_a_call_that_names_no_tool_is_not_run(name: Any) -> None:
    events = run(answer(*whole_call(0, "{}", name=name), stop_reason="tool_use"))
    assert [e.reason for e in of(ToolUseUnusable, events)] == ["no_name"]


@requirement("W4", "W5")
def test_two_calls_under_one_id_get_an_id_each() -> None:
    events = run(
        answer(
            *whole_call(0, '{"n":0}'),
            *whole_call(1, '{"n":1}'),
            *whole_call(2, '{"n":2}', tool_id=""),
            *whole_call(3, '{"n":3}', tool_id="old"),
            *whole_call(4, '{"n":4}', tool_id=None),
            stop_reason="tool_use",
        ),
        taken=["old"],
    )
    ids = [e.block["id"] for e in of(ToolUseReady, events)]
    assert ids == ["toolu_1", "fresh_1", "fresh_2", "fresh_3", "fresh_4"]
    assert [b["id"] for b in finished(events).message["content"]] == ids
    assert [e.block["id"] for e in of(BlockStarted, events)] == ids
    assert faults(events) == [
        "duplicate_tool_id",
        "missing_tool_id",
        "duplicate_tool_id",
        "missing_tool_id",
    ]
    assert finished(events).complete


def test_a_call_under_the_id_of_a_server_tool_gets_its_own() -> None:
    server = start(0, "server_tool_use", id="toolu_1", name="web_search", input={})
    events = run(answer(server, stop(0), *whole_call(1, "{}"), stop_reason="tool_use"))
    assert [b["id"] for b in finished(events).message["content"]] == ["toolu_1", "fresh_1"]


def test_a_server_tools_broken_input_is_told_and_wrapped() -> None:
    server = start(0, "server_tool_use", id="s", name="web_search", input={})
    events = run(answer(server, tool_input(0, "{"), stop(0)))
    assert faults(events) == ["invalid_server_tool_input"]
    assert finished(events).message["content"][0]["input"] == {"INVALID_JSON": "{"}
    assert not of(ToolUseUnusable, events)


BEFORE = [
    message_start(),
    start(0),
    text(0, "whole"),
    stop(0),
    tool_start(1),
    tool_input(1, '{"a":1'),
]


@requirement("R061", "W4")
@pytest.mark.parametrize(
    ("events", "kind"),
    [
        ([start(0)], "event_before_message_start"),
        ([text(0, "a")], "event_before_message_start"),
        ([stop(0)], "event_before_message_start"),
        ([message_delta()], "event_before_message_start"),
        ([MESSAGE_STOP], "event_before_message_start"),
        ([message_start(), message_start()], "message_started_twice"),
        ([message_start(), text(0, "a")], "delta_without_block"),
        ([message_start(), stop(0)], "stop_without_block"),
        ([message_start(), start(0), start(0)], "block_started_twice"),
        ([message_start(), start(0), stop(0), start(0)], "block_started_twice"),
        ([message_start(), start(0), stop(0), text(0, "a")], "delta_after_stop"),
        ([message_start(), start(0), MESSAGE_STOP], "block_never_stopped"),
        ([{"type": "message_start"}], "malformed_event"),
        ([{"type": "message_start", "message": []}], "malformed_event"),
        ([message_start(), {"type": "content_block_start"}], "malformed_event"),
        ([message_start(), start(-1)], "malformed_event"),
        ([message_start(), start(True)], "malformed_event"),
        (
            [message_start(), {"type": "content_block_start", "index": 0, "content_block": "x"}],
            "malformed_event",
        ),
        (
            [message_start(), {"type": "content_block_delta", "index": [], "delta": {}}],
            "malformed_event",
        ),
        (
            [message_start(), start(0), {"type": "content_block_delta", "index": 0}],
            "malformed_event",
        ),
        ([message_start(), start(0), delta(0, "text_delta", text=3)], "malformed_event"),
        ([message_start(), start(0), delta(0, "citations_delta", citation="c")], "malformed_event"),
        ([message_start(), {"type": "content_block_stop"}], "malformed_event"),
        ([message_start(), {"type": "message_delta", "delta": "x"}], "malformed_event"),
    ],
)
def test_a_fatal_disorder_ends_the_answer_at_once(events: list[Json], kind: str) -> None:
    machine = accumulator()
    told = [out for event in events for out in machine.feed(event)]
    assert faults(told) == [kind]
    assert machine.state == "finished"
    assert machine.close() == []
    if events[0]["type"] == "message_start" and machine.message is not None:
        assert not finished(told).complete
    assert machine.feed(text(0, "late")) == []


@requirement("R061", "W4")
@pytest.mark.parametrize(
    ("events", "kinds"),
    [
        (answer(start(0), stop(0), stop(0)), ["block_stopped_twice"]),
        (answer(start(0), stop(0), start(2), stop(2)), ["index_gap"]),
        (
            [*answer(start(0), stop(0)), text(0, "a"), MESSAGE_STOP, {"type": "ping"}],
            ["event_after_end"],
        ),
        (
            [message_start(), start(0), stop(0), message_delta(), start(1), stop(1), MESSAGE_STOP],
            ["block_after_stop_reason"],
        ),
        ([message_start(), start(0), stop(0), MESSAGE_STOP], ["stop_reason_missing"]),
        ([message_start(), start(0), stop(0), message_delta()], ["message_stop_missing"]),
        (answer(start(0), tool_input(0, "{"), stop(0)), ["delta_mismatch"]),
        (answer(start(0, "redacted_thinking"), text(0, "x"), stop(0)), ["delta_mismatch"]),
        (
            [message_start(content=[{"type": "text", "text": "x"}]), message_delta(), MESSAGE_STOP],
            ["content_in_message_start"],
        ),
        ([message_start(content="x"), message_delta(), MESSAGE_STOP], ["content_in_message_start"]),
        (answer(start(0, "image", source={}), stop(0)), ["foreign_block"]),
    ],
)
def test_a_bearable_disorder_is_told_and_the_answer_is_complete(
    events: list[Json], kinds: list[str]
) -> None:
    told = run(events)
    assert faults(told) == kinds
    assert not any(fault.fatal for fault in of(StreamFault, told))
    assert finished(told).complete


def test_a_last_event_without_its_blank_line_cuts_nothing_but_itself() -> None:
    cut_off = StreamFault(kind="unfinished_event", message="9 bytes in")
    told = run([message_start(), start(0), text(0, "a"), stop(0), message_delta(), cut_off])
    assert faults(told) == ["message_stop_missing"]
    assert finished(told).complete
    told = run([message_start(), start(0), text(0, "a"), stop(0), cut_off])
    assert faults(told) == ["unfinished_event"]
    assert not finished(told).complete
    told = run([*answer(start(0), stop(0)), cut_off, cut_off])
    assert faults(told) == ["event_after_end"]


def test_content_that_came_with_the_start_stands_first() -> None:
    early = {"type": "text", "text": "early"}
    last = finished(
        run(
            [
                message_start(content=[early]),
                start(0),
                text(0, "late"),
                stop(0),
                message_delta(),
                MESSAGE_STOP,
            ]
        )
    )
    assert last.message["content"] == [early, {"type": "text", "text": "late"}]


def test_usage_that_is_no_object_is_no_usage() -> None:
    strange = {"type": "message_delta", "delta": {"stop_reason": 3}, "usage": None}
    last = finished(run([message_start(usage=None), strange, MESSAGE_STOP]))
    assert last.message["usage"] == {}
    assert (last.stop_reason, last.ending) == (None, "unknown")


@requirement("W4", "V11")
@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (
            {
                "type": "error",
                "error": {"type": "overloaded_error", "message": "Overloaded"},
                "request_id": "req_1",
            },
            ("overloaded_error", "Overloaded", "req_1"),
        ),
        ({"type": "error", "error": {"type": "api_error"}}, ("api_error", "api_error", None)),
        ({"type": "error", "error": "words"}, (None, "words", None)),
        ({"type": "error"}, (None, "error without a message", None)),
        ({"type": "error", "error": {"type": 3}, "request_id": 4}, (None, "3", None)),
    ],
)
def test_an_error_in_the_middle_keeps_what_was_complete(
    event: Json, expected: tuple[Any, ...]
) -> None:
    told = run([*BEFORE, event])
    (fault,) = of(StreamFault, told)
    assert fault.kind == "error_event"
    assert fault.fatal
    assert (fault.error_type, fault.message, fault.request_id) == expected
    last = finished(told)
    assert not last.complete
    assert last.message["content"] == [{"type": "text", "text": "whole"}]


def test_an_error_before_anything_is_all_there_is() -> None:
    told = run([{"type": "error", "error": {"type": "api_error", "message": "no"}}])
    assert [type(e) for e in told] == [StreamFault]


def test_a_cut_keeps_finished_blocks_and_partial_text_and_drops_the_rest() -> None:
    machine = accumulator()
    for event in [
        *BEFORE,
        start(2),
        text(2, "half a sen"),
        start(3),
        text(3, " "),
        start(4, "thinking"),
        delta(4, "thinking_delta", thinking="h"),
    ]:
        machine.feed(event)
    assert machine.completed_blocks == 1
    so_far = machine.message
    told = machine.close()
    assert [type(e) for e in told] == [
        StreamFault,
        BlockDropped,
        BlockFinished,
        BlockDropped,
        BlockDropped,
        MessageFinished,
    ]
    assert faults(told) == ["cut_short"]
    (partial,) = of(BlockFinished, told)
    assert (partial.complete, partial.index) == (False, 2)
    dropped = of(BlockDropped, told)
    assert [e.index for e in dropped] == [1, 3, 4]
    kinds = ("tool_use", "text", "thinking")
    assert all(f" {kind} block" in e.why for kind, e in zip(kinds, dropped, strict=True))
    assert of(BlockDropped, told)[2].block["thinking"] == "h"
    last = finished(told)
    assert [b["text"] for b in last.message["content"]] == ["whole", "half a sen"]
    assert not last.complete
    assert last.message == so_far == machine.message
    assert machine.completed_blocks == 1


def test_an_abort_is_a_cut_without_a_fault() -> None:
    machine = accumulator()
    for event in BEFORE:
        machine.feed(event)
    assert [type(e) for e in machine.abort()] == [BlockDropped, MessageFinished]
    assert machine.abort() == []
    early = accumulator()
    assert early.abort() == []
    assert early.message is None


def test_a_cut_after_a_call_without_input_does_not_run_it() -> None:
    told = run([message_start(), *whole_call(0)])
    assert [e.reason for e in of(ToolUseUnusable, told)] == ["unconfirmed"]


@requirement("R061")
def test_a_stream_without_a_message_is_a_fault() -> None:
    assert faults(run([])) == ["no_message"]
    assert faults(run([{"type": "ping"}])) == ["no_message"]
    bad = StreamFault(kind="invalid_json", message="x")
    assert run([bad, bad]) == [bad]


def test_a_character_cut_in_half_between_deltas_is_whole_again() -> None:
    events = run(
        answer(
            start(0),
            text(0, "a\ud83d"),
            text(0, "\ude00b"),
            text(0, "\ud83d"),
            text(0, "c\udc00\ud83d"),
            stop(0),
        )
    )
    assert [e.text for e in of(TextDelta, events)] == ["a", "😀b", "\ufffdc\ufffd"]
    assert finished(events).message["content"][0]["text"] == "a😀b\ufffdc\ufffd\ufffd"
    thought = run(
        answer(start(0, "thinking"), delta(0, "thinking_delta", thinking="\ud83d"), stop(0))
    )
    assert of(ThinkingDelta, thought) == []
    assert finished(thought).message["content"][0]["thinking"] == "\ufffd"


def test_empty_pieces_are_not_worth_an_event() -> None:
    events = run(
        answer(
            start(0),
            text(0, ""),
            stop(0),
            tool_start(1),
            tool_input(1, ""),
            stop(1),
            stop_reason="tool_use",
        )
    )
    assert not of(TextDelta, events)
    assert not of(InputDelta, events)


def test_text_that_came_with_the_start_is_told_as_a_delta() -> None:
    events = run(
        answer(
            start(0, text="He"),
            text(0, "llo"),
            stop(0),
            start(1, "thinking", thinking="hm"),
            stop(1),
        )
    )
    assert [e.text for e in of(TextDelta, events)] == ["He", "llo"]
    assert [e.thinking for e in of(ThinkingDelta, events)] == ["hm"]
    assert [b.get("text") for b in finished(events).message["content"]] == ["Hello", None]
    odd = run(answer(start(0, text=None), text(0, "a"), stop(0)))
    assert finished(odd).message["content"] == [{"type": "text", "text": "a"}]


# Laws


@given(answers())
def test_deltas_add_up_to_the_blocks_and_each_call_is_judged_once(events: list[Json]) -> None:
    told = run(events)
    assert faults(told) == []
    last = told[-1]
    assert isinstance(last, MessageFinished)
    assert last.complete
    for index, block in enumerate(last.message["content"]):
        if "text" in block:
            assert "".join(e.text for e in of(TextDelta, told) if e.index == index) == block["text"]
        if "thinking" in block:
            shown = "".join(e.thinking for e in of(ThinkingDelta, told) if e.index == index)
            assert shown == block["thinking"]
    assert judged(told) == [b["id"] for b in last.message["content"] if b["type"] == "tool_use"]


def bytes_to_message(*chunks: bytes, merge: bool = True) -> MessageFinished:
    decoder, machine = EventDecoder(merge=merge), accumulator()
    told = [out for chunk in chunks for event in decoder.feed(chunk) for out in machine.feed(event)]
    told += [out for event in decoder.close() for out in machine.feed(event)]
    return finished(told + machine.close())


@pytest.mark.no_cover
@requirement("R049", "W2", "W4")
@given(answers(), st.data())
def test_any_cut_gives_the_same_message(events: list[Json], data: st.DataObject) -> None:
    body = sse(*events)
    at = data.draw(st.lists(st.integers(0, len(body)), max_size=20))
    whole = bytes_to_message(body)
    assert bytes_to_message(body, merge=False) == whole
    assert bytes_to_message(*cut(body, at)) == whole
    assert bytes_to_message(*(body[i : i + 1] for i in range(len(body)))) == whole


# Two calls open at once, both undecided at their stops.
BOTH_UNDECIDED = [
    message_start(),
    tool_start(0),
    tool_start(1),
    tool_input(0, "}{"),
    stop(0),
    tool_input(1, ""),
    stop(1),
    message_delta("end_turn"),
    MESSAGE_STOP,
]


@st.composite
def disorders(draw: st.DrawFn) -> list[Json]:
    events = draw(answers())
    return draw(st.permutations(events) | st.lists(st.sampled_from(events), max_size=12))


@given(disorders())
@example(BOTH_UNDECIDED)
def test_no_disorder_raises_and_whatever_came_the_rules_hold(disordered: list[Json]) -> None:
    told = run(disordered)
    ends = of(MessageFinished, told)
    assert len(ends) == len(of(MessageStarted, told)) <= 1
    fatal = [fault for fault in of(StreamFault, told) if fault.fatal]
    assert len(fatal) <= 1
    for end in ends:
        assert end.complete == (not fatal)
        assert judged(told) == [b["id"] for b in end.message["content"] if b["type"] == "tool_use"]
        assert all(isinstance(b.get("input", {}), dict) for b in end.message["content"])
    assert ends or fatal


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.floats(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "index",
                    "delta",
                    "message",
                    "content_block",
                    "text",
                    "usage",
                    "content",
                    "input",
                    "id",
                    "error",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
event_like = st.builds(
    lambda kind, rest: {"type": kind, **(rest if isinstance(rest, dict) else {})},
    st.sampled_from(
        [
            "message_start",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
            "error",
            "ping",
            "x",
        ]
    ),
    st.dictionaries(
        st.sampled_from(["index", "delta", "message", "content_block", "usage", "error"]),
        json_like | st.just(0),
    ),
)


@pytest.mark.no_cover
@given(st.lists(event_like, max_size=8), st.booleans())
def test_no_shape_of_an_event_raises(events: list[Json], started: bool) -> None:
    told = run([message_start(), *events] if started else events)
    assert told


@pytest.mark.parametrize("name", [None, 3, "", {}])
@pytest.mark.parametrize("kind", ["tool_use", "server_tool_use"])
def test_a_call_without_a_name_or_id_gets_one_it_can_be_stored_under(kind: str, name: Any) -> None:
    call = start(0, kind, id={}, name=name, input={})
    events = run(answer(call, stop(0), stop_reason="tool_use"))
    [block] = finished(events).message["content"]
    assert (block["id"], block["name"]) == ("fresh_1", "unnamed")
    assert not of(ToolUseReady, events)
    assert faults(events) == ["missing_tool_id"]


def test_no_delta_changes_who_speaks_or_under_which_id() -> None:
    late = {"type": "message_delta", "delta": {"role": "user", "id": 5, "stop_reason": "end_turn"}}
    events = run([message_start(), late, MESSAGE_STOP])
    message = finished(events).message
    assert (message["role"], message["id"]) == ("assistant", message_start()["message"]["id"])


@pytest.mark.parametrize("before", [7, {"a": 1}, "x", None])
def test_citations_join_a_list_and_nothing_else(before: Any) -> None:
    cited = delta(0, "citations_delta", citation={"cited_text": "a"})
    events = run(answer(start(0, "text", text="", citations=before), cited, stop(0)))
    assert finished(events).message["content"][0]["citations"] == [{"cited_text": "a"}]


@pytest.mark.parametrize("given", [Decimal("1e400"), Decimal("9" * 5000)])
def test_an_input_that_comes_whole_is_read_as_strictly_as_one_in_pieces(given: Decimal) -> None:
    events = run(answer(tool_start(0, input={"n": given}), stop(0)))
    (unusable,) = of(ToolUseUnusable, events)
    assert unusable.reason == "invalid_json"
    assert str(given) in unusable.raw
