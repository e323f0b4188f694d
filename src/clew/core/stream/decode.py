"""Convert server-sent events to the event dicts of the Messages API.

Adjacent deltas of one block in the same chunk are merged into one, which makes a fast response
cheap. With `merge=False`, every event is passed on as sent, for callers that relay the stream.
Anything but an ordinary delta is decoded completely, so no field is lost.

Decision: docs/decisions/021-streams-and-tool-input.md
"""

from collections.abc import Iterable

import msgspec

from clew.core.json_object import Json
from clew.core.stream.events import StreamFault, make_excerpt
from clew.core.stream.json_pieces import NEVER_TOO_DEEP_BYTES, parse_object
from clew.core.stream.sse import ServerSentEvent, SseDecoder


class _Text(
    msgspec.Struct,
    tag="text_delta",
    tag_field="type",
    forbid_unknown_fields=True,
    rename={"piece": "text"},
):
    piece: str


class _Thinking(
    msgspec.Struct,
    tag="thinking_delta",
    tag_field="type",
    forbid_unknown_fields=True,
    rename={"piece": "thinking"},
):
    piece: str


class _Input(
    msgspec.Struct,
    tag="input_json_delta",
    tag_field="type",
    forbid_unknown_fields=True,
    rename={"piece": "partial_json"},
):
    piece: str


class _Delta(
    msgspec.Struct, tag="content_block_delta", tag_field="type", forbid_unknown_fields=True
):
    """A delta without extra fields, of one of the three kinds that make up most of a stream."""

    index: int
    delta: _Text | _Thinking | _Input


_decode = msgspec.json.Decoder().decode
_ordinary = msgspec.json.Decoder(_Delta).decode

_FIELDS: dict[type, tuple[str, str]] = {
    _Text: ("text_delta", "text"),
    _Thinking: ("thinking_delta", "thinking"),
    _Input: ("input_json_delta", "partial_json"),
}

_HEAD_BYTES = 800


class EventDecoder:
    """A decoder that turns the bytes of an SSE body into event dicts and faults."""

    __slots__ = ("_any_event", "_head", "_merge", "_sse")

    def __init__(self, *, merge: bool = True, max_event_bytes: int | None = None) -> None:
        self._sse = SseDecoder(max_event_bytes=max_event_bytes)
        self._merge = merge
        self._any_event = False
        self._head = (
            b""  # the first bytes, for the error message about a body that is not an event stream
        )

    def feed(self, chunk: bytes) -> list[Json | StreamFault]:
        events = self._sse.feed(chunk)
        if not self._any_event:
            self._any_event = bool(events)
            self._head = (self._head + chunk[:_HEAD_BYTES])[:_HEAD_BYTES]
        return merged(events) if self._merge else decoded(events)

    def close(self) -> list[Json | StreamFault]:
        """Handle the end of the bytes; if the body had no event, report how the body starts."""
        faults = self._sse.close()
        if self._any_event or not self._head:
            return decoded(faults)
        message = "the response is not an event stream"
        return [StreamFault(kind="no_message", message=message, excerpt=make_excerpt(self._head))]


def decoded(events: Iterable[ServerSentEvent | StreamFault]) -> list[Json | StreamFault]:
    """Decode each event on its own, without merging."""
    out: list[Json | StreamFault] = []
    for event in events:
        if isinstance(event, StreamFault):
            out.append(event)
        elif (plain := _plain(event.data)) is not None:
            out.append(plain)
        elif (unusual := event_of(event)) is not None:
            out.append(unusual)
    return out


def _plain(data: bytes) -> Json | None:
    """Decode an event that names its type and is too short to be nested too deeply.

    Return None for any other event.
    """
    if len(data) > NEVER_TOO_DEEP_BYTES:
        return None
    try:
        value = _decode(data)
    except (ValueError, RecursionError):
        return None  # unusual or invalid: `event_of` decides
    return value if type(value) is dict and "type" in value else None


def merged(events: Iterable[ServerSentEvent | StreamFault]) -> list[Json | StreamFault]:
    """Decode the events, merging runs of ordinary deltas for one block into one delta."""
    out: list[Json | StreamFault] = []
    run: list[_Text | _Thinking | _Input] = []
    index = -1
    for event in events:
        ordinary = _ordinary_delta(event)
        if (
            ordinary is not None
            and run
            and ordinary.index == index
            and type(ordinary.delta) is type(run[0])
        ):
            run.append(ordinary.delta)
            continue
        if run:
            out.append(_one_delta(index, run))
        if ordinary is not None:
            index, run = ordinary.index, [ordinary.delta]
        else:
            run = []
            out += decoded([event])
    if run:
        out.append(_one_delta(index, run))
    return out


def _ordinary_delta(event: ServerSentEvent | StreamFault) -> _Delta | None:
    if isinstance(event, StreamFault) or event.event != "content_block_delta":
        return None
    try:
        return _ordinary(event.data)
    except (ValueError, RecursionError):
        return None  # unusual or invalid: `event_of` decides


def _one_delta(index: int, run: list[_Text | _Thinking | _Input]) -> Json:
    kind, field = _FIELDS[type(run[0])]
    joined = "".join([delta.piece for delta in run]) if len(run) > 1 else run[0].piece
    return {
        "type": "content_block_delta",
        "index": index,
        "delta": {"type": kind, field: joined},
    }


def event_of(event: ServerSentEvent) -> Json | StreamFault | None:
    """Decode one event; its type comes from the data, or else from the event name.

    Return None for an event without data or a name.
    """
    if not event.data or event.data.isspace():
        return {"type": event.event} if event.event != "message" else None
    value = parse_object(event.data)
    if not isinstance(value, StreamFault):
        if "type" in value:
            return value
        # Gateways pass on an upstream error in the stream unchanged, without an event name.
        is_error = event.event == "message" and "error" in value
        return {"type": "error" if is_error else event.event, **value}
    if event.event == "ping":
        return {"type": "ping"}
    if event.event == "error":
        return StreamFault(
            kind="error_event", message=make_excerpt(event.data), excerpt=value.excerpt
        )
    return value


# Converts a complete message, the response without streaming, to the events of a stream.


# Sent at the end of a stream, not at its start.
_LATE = ("stop_reason", "stop_sequence", "stop_details")


def events_of_body(body: bytes) -> list[Json | StreamFault]:
    """Convert the body of a response that was not streamed to the events of a stream."""
    message = parse_object(body)
    return [message] if isinstance(message, StreamFault) else events_of_message(message)


def events_of_message(message: Json) -> list[Json | StreamFault]:
    if message.get("type") == "error":
        return [message]
    content = message.get("content")
    if content is None and message.get("error"):
        # A gateway's error with HTTP status 200.
        return [message | {"type": "error"}]
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raw = make_excerpt(msgspec.json.encode(message))
        return [
            StreamFault(
                kind="malformed_event", message="the response is not a message", excerpt=raw
            )
        ]
    late = {name: message[name] for name in _LATE if name in message}
    early = message | dict.fromkeys(late) | {"content": []}
    events: list[Json | StreamFault] = [{"type": "message_start", "message": early}]
    for index, block in enumerate(content):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events.append({"type": "content_block_stop", "index": index})
    return [*events, {"type": "message_delta", "delta": late}, {"type": "message_stop"}]
