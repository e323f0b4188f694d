"""Streams for tests: short constructors, and generated answers of every shape."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from hypothesis import strategies as st

from clew.core.stream.accumulate import Accumulator
from clew.core.stream.events import (
    AnswerEvent,
    MessageFinished,
    StreamFault,
    ToolUseReady,
    ToolUseUnusable,
)

Json = dict[str, Any]


def sse(*events: Json) -> bytes:
    """The events as the service writes them."""
    return b"".join(
        b"event: %s\ndata: %s\n\n" % (e["type"].encode(), json.dumps(e).encode()) for e in events
    )


def message_start(**fields: Any) -> Json:
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "model-1",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 1},
    }
    return {"type": "message_start", "message": message | fields}


def start(index: int, kind: str = "text", **fields: Any) -> Json:
    block: Json = {"type": kind, **fields}
    if kind in ("text", "thinking"):
        block = {"type": kind, kind: "", **fields}
    return {"type": "content_block_start", "index": index, "content_block": block}


def tool_start(index: int, tool_id: str = "toolu_1", name: str = "Read", **fields: Any) -> Json:
    return start(index, "tool_use", **{"id": tool_id, "name": name, "input": {}} | fields)


def delta(index: int, kind: str, **fields: Any) -> Json:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def text(index: int, words: str) -> Json:
    return delta(index, "text_delta", text=words)


def tool_input(index: int, piece: str) -> Json:
    return delta(index, "input_json_delta", partial_json=piece)


def stop(index: int) -> Json:
    return {"type": "content_block_stop", "index": index}


def message_delta(stop_reason: str | None = "end_turn", **usage: Any) -> Json:
    fields = {"stop_reason": stop_reason, "stop_sequence": None}
    return {"type": "message_delta", "delta": fields, "usage": {"output_tokens": 5} | usage}


MESSAGE_STOP: Json = {"type": "message_stop"}


def answer(*events: Json, stop_reason: str = "end_turn") -> list[Json]:
    """A whole stream around the events of its blocks."""
    return [message_start(), *events, message_delta(stop_reason), MESSAGE_STOP]


def accumulator(taken: Iterable[str] = ()) -> Accumulator:
    numbers = iter(range(1, 1_000_000))
    return Accumulator(
        new_tool_id=lambda: f"fresh_{next(numbers)}", taken_tool_ids=frozenset(taken)
    )


def run(events: Iterable[Json | StreamFault], taken: Iterable[str] = ()) -> list[AnswerEvent]:
    """Return all events of an answer's accumulator, including those at the end of the stream."""
    machine = accumulator(taken)
    out = [out for event in events for out in machine.feed(event)]
    return out + machine.close()


def finished(events: Iterable[AnswerEvent]) -> MessageFinished:
    (last,) = [e for e in events if isinstance(e, MessageFinished)]
    return last


def faults(events: Iterable[Any]) -> list[str]:
    return [e.kind for e in events if isinstance(e, StreamFault)]


def judged(told: list[AnswerEvent]) -> list[str]:
    """Return the IDs of the calls with a verdict, in the order of their blocks."""
    verdicts = [e for e in told if isinstance(e, ToolUseReady | ToolUseUnusable)]
    return [e.block["id"] for e in sorted(verdicts, key=lambda e: e.index)]


def cut(data: bytes, at: Iterable[int]) -> Iterator[bytes]:
    """The data in pieces, parted at these offsets."""
    begin = 0
    for end in sorted(set(at)):
        yield data[begin:end]
        begin = end
    yield data[begin:]


# Text of all kinds: what other tools take for line ends, characters beyond 16 bits, quotes, NUL.
words = st.text(
    st.one_of(
        st.sampled_from('ab {}[]"\\\n\r\x00\x0b\x85\u2028\u2029\ufeffé中😀'),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=12,
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(words, json_values, max_size=3)
citations = st.fixed_dictionaries(
    {
        "type": st.just("char_location"),
        "cited_text": words,
        "document_index": st.integers(0, 3),
        "document_title": st.none() | words,
        "file_id": st.none(),
        "start_char_index": st.integers(0, 9),
        "end_char_index": st.integers(0, 9),
    }
)


def _in_pieces(whole: str) -> st.SearchStrategy[list[str]]:
    offsets = st.lists(st.integers(0, len(whole)), max_size=5).map(sorted)
    return offsets.map(lambda at: [whole[a:b] for a, b in zip([0, *at], [*at, None], strict=True)])


@st.composite
def blocks(draw: st.DrawFn, index: int) -> list[Json]:
    """The events of one block, well formed."""
    kind = draw(
        st.sampled_from(
            ["text", "cited", "thinking", "redacted", "tool", "bare", "server", "result"]
        )
    )
    middle: list[Json]
    match kind:
        case "text" | "cited":
            opening = start(index)
            middle = [text(index, piece) for piece in draw(st.lists(words, max_size=6))]
            if kind == "cited":
                opening["content_block"]["citations"] = []
                middle += [
                    delta(index, "citations_delta", citation=c)
                    for c in draw(st.lists(citations, max_size=3))
                ]
        case "thinking":
            opening = start(index, "thinking", signature="")
            middle = [
                delta(index, "thinking_delta", thinking=piece)
                for piece in draw(st.lists(words, max_size=4))
            ]
            middle.append(
                delta(index, "signature_delta", signature=draw(st.text("AZaz09+/=", max_size=8)))
            )
        case "redacted":
            opening, middle = start(index, "redacted_thinking", data="AAAA"), []
        case "tool" | "server":
            opening = tool_start(index, f"toolu_{index}", input={})
            if kind == "server":
                opening["content_block"] |= {"type": "server_tool_use", "name": "web_search"}
            whole = json.dumps(draw(objects), ensure_ascii=draw(st.booleans()))
            middle = [tool_input(index, piece) for piece in draw(_in_pieces(whole))]
        case "bare":
            opening, middle = tool_start(index, f"toolu_{index}"), [tool_input(index, "")]
        case _:
            result = {
                "type": "web_search_result",
                "title": draw(words),
                "url": "u",
                "encrypted_content": "e",
                "page_age": None,
            }
            opening = start(index, "web_search_tool_result", tool_use_id="srv", content=[result])
            middle = []
    return [opening, *middle, stop(index)]


@st.composite
def answers(draw: st.DrawFn) -> list[Json]:
    """The events of a whole answer, with pings and several message_deltas, in a legal order."""
    events = [message_start()]
    for index in range(draw(st.integers(0, 4))):
        events += draw(blocks(index))
    for position in draw(st.lists(st.integers(1, len(events)), max_size=2)):
        events.insert(position, {"type": "ping"})
    if draw(st.booleans()):
        events.append(message_delta(None, output_tokens=draw(st.integers(0, 99))))
    reason = draw(
        st.sampled_from(["end_turn", "tool_use", "stop_sequence", "pause_turn", "refusal"])
    )
    usage = draw(
        st.fixed_dictionaries(
            {"output_tokens": st.integers(0, 10**6)},
            optional={
                "input_tokens": st.integers(0, 10**6),
                "cache_read_input_tokens": st.none() | st.integers(0, 10**6),
                "server_tool_use": st.just({"web_search_requests": 1, "web_fetch_requests": 0}),
            },
        )
    )
    return [*events, message_delta(reason, **usage), MESSAGE_STOP]
