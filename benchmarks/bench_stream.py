"""From the bytes of an answer to its message, compared with the official SDK in one run.

The bodies are those of the service: small deltas, one event each. Both sides receive the same bytes
and return the finished message; clew receives them in chunks, as a transport reads them.
"""

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec

from benchmarks.measure import Figure, cpu_s, growth
from clew.core.stream.accumulate import Accumulator
from clew.core.stream.decode import EventDecoder
from clew.core.stream.events import MessageFinished
from clew.core.stream.sse import READ_SIZE_BYTES, SseDecoder

MB = 1_000_000
PIECE = 12  # characters in a delta, as the service sends them
Json = dict[str, Any]


def body(kind: str, pieces: list[str]) -> bytes:
    """Return the stream of one answer with one block that arrives in these pieces."""
    usage = {"input_tokens": 9, "output_tokens": 1}
    message: Json = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
    message |= {"model": "m", "stop_reason": None, "stop_sequence": None, "usage": usage}
    block: Json = {"type": "text", "text": ""}
    name, field = "text_delta", "text"
    if kind == "tool_use":
        block = {"type": "tool_use", "id": "toolu_1", "name": "Edit", "input": {}}
        name, field = "input_json_delta", "partial_json"
    ending: Json = {"stop_reason": "end_turn", "stop_sequence": None}
    events: list[Json] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": name, field: piece}}
            for piece in pieces
        ),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ending, "usage": {"output_tokens": 99}},
        {"type": "message_stop"},
    ]
    return b"".join(
        b"event: %s\ndata: %s\n\n"
        % (e["type"].encode(), json.dumps(e, separators=(",", ":")).encode())
        for e in events
    )


def cut(text: str) -> list[str]:
    return [text[i : i + PIECE] for i in range(0, len(text), PIECE)]


def prose(size: int) -> str:
    return ("The quick brown fox jumps over the lazy dog, line after line.\n" * (size // 60))[:size]


def long_string(size: int) -> str:
    return json.dumps({"file_path": "/src/a.py", "content": prose(size)})


def small_edits(size: int) -> str:
    edit = {"old_string": "total = 0", "new_string": "total = count", "replace_all": False}
    return json.dumps({"file_path": "/src/a.py", "edits": [edit] * (size // 85)})


SHAPES: dict[str, Callable[[int], bytes]] = {
    "text": lambda size: body("text", cut(prose(size))),
    "one long string of tool input": lambda size: body("tool_use", cut(long_string(size))),
    "an array of small edits": lambda size: body("tool_use", cut(small_edits(size))),
}


def chunks(data: bytes, size: int) -> list[bytes]:
    return [data[i : i + size] for i in range(0, len(data), size)]


def by_clew(pieces: list[bytes], *, merge: bool = True) -> Json:
    decoder, answer = EventDecoder(merge=merge), Accumulator(new_tool_id=lambda: "toolu_new")
    message: Json = {}
    for piece in pieces:
        for event in decoder.feed(piece):
            for out in answer.feed(event):
                if isinstance(out, MessageFinished):
                    message = out.message
    return message


def by_sdk(data: bytes) -> Callable[[], Json]:
    import anthropic
    import httpx2

    headers = {"content-type": "text/event-stream"}
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, content=data, headers=headers))
    client = anthropic.Anthropic(
        api_key="k", base_url="http://loopback", http_client=httpx2.Client(transport=transport)
    )

    def work() -> Json:
        with client.messages.stream(
            model="m", max_tokens=9, messages=[{"role": "user", "content": "hi"}]
        ) as stream:
            return dict(stream.get_final_message().to_dict())

    return work


def floor(data: bytes) -> None:
    """Do the minimum for the standard shape: split the lines, decode to a type."""

    class Delta(msgspec.Struct):
        text: str = ""
        partial_json: str = ""

    class Event(msgspec.Struct):
        index: int = 0
        delta: Delta | None = None

    decode = msgspec.json.Decoder(Event).decode
    for line in data.split(b"\n"):
        if line.startswith(b"data: "):
            decode(line[6:])


def per_event(data: bytes, work: Callable[[], object]) -> float:
    return cpu_s(work) / data.count(b"\n\n") * 1e6


def figures() -> Iterator[Figure]:
    data = SHAPES["text"](2 * MB)
    yield Figure(
        name="floor: split and typed decode",
        value=per_event(data, partial(floor, data)),
        unit="us/event",
    )
    for size in (READ_SIZE_BYTES, 1400):
        pieces = chunks(data, size)
        name = f"bytes to message, chunks of {size} bytes"
        yield Figure(
            name=name, value=per_event(data, partial(by_clew, pieces)), unit="us/event", at_most=2
        )
    pieces = chunks(data, READ_SIZE_BYTES)
    yield Figure(
        name="the same, every event returned as sent",
        value=per_event(data, partial(by_clew, pieces, merge=False)),
        unit="us/event",
    )
    one_each = [event + b"\n\n" for event in data.split(b"\n\n")]
    yield Figure(
        name="the same, one chunk per event",
        value=per_event(data, partial(by_clew, one_each)),
        unit="us/event",
    )
    for shape, make in SHAPES.items():
        small, large = (chunks(make(n * MB), READ_SIZE_BYTES) for n in (1, 4))
        ratio = growth(partial(by_clew, small), partial(by_clew, large))
        yield Figure(name=f"{shape}: 4 MB over 1 MB", value=ratio, unit="x", at_most=4.4)
    yield from one_event()
    yield from beside_the_sdk()


def one_event() -> Iterator[Figure]:
    """Measure one event of 50 MB, in large and in very small chunks."""

    def feed(pieces: list[bytes]) -> None:
        decoder = SseDecoder()
        found = [event for piece in pieces for event in decoder.feed(piece)]
        assert len(found) == 1

    # Both exceed the size from which the allocator requests new pages each time.
    for size in (64, READ_SIZE_BYTES):
        half, whole = (
            cpu_s(partial(feed, chunks(b'data: "' + b"x" * (n * MB) + b'"\n\n', size)), runs=3)
            for n in (50, 100)
        )
        name = f"one event of 100 MB over one of 50, by {size} bytes"
        yield Figure(name=name, value=whole / half, unit="x", at_most=2.4, note=f"{whole:.2f} s")


def beside_the_sdk() -> Iterator[Figure]:
    """Compare with the SDK; the array is a quarter as long, because the SDK is quadratic and needs
    minutes for 1 MB.
    """
    for shape, megabytes, goal in (
        ("text", 1, 10),
        ("one long string of tool input", 1, 30),
        ("an array of small edits", 0.25, 30),
    ):
        data = SHAPES[shape](int(megabytes * MB))
        ours_s = cpu_s(partial(by_clew, chunks(data, READ_SIZE_BYTES)))
        theirs_s = cpu_s(by_sdk(data), runs=1)
        yield Figure(
            name=f"{shape}, {megabytes} MB: CPU of the official SDK",
            value=theirs_s / ours_s,
            unit="x",
            at_least=goal,
            note=f"{theirs_s:.2f} s against {ours_s * 1000:.0f} ms",
        )
