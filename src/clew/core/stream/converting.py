"""A decoder of server-sent events for wires whose events are converted to the Messages API's."""

from typing import Protocol

from clew.core.json_object import Json
from clew.core.stream.events import StreamFault, make_excerpt
from clew.core.stream.json_pieces import parse_object
from clew.core.stream.sse import SseDecoder

DONE = b"[DONE]"
_HEAD_BYTES = 800


class Converter(Protocol):
    """Converts the decoded objects of one response."""

    @property
    def is_whole(self) -> bool:
        """True if the service has reported why its response ended."""
        ...

    def take(self, value: Json) -> list[Json]: ...

    def done(self) -> list[Json]:
        """Return the final events, or none if the response may be incomplete."""
        ...


class ConvertingDecoder:
    """A decoder that turns the bytes of a stream into events and faults."""

    __slots__ = ("_any_event", "_events", "_head", "_sse")

    def __init__(self, events: Converter, *, max_event_bytes: int | None = None) -> None:
        self._sse = SseDecoder(max_event_bytes=max_event_bytes)
        self._events = events
        self._any_event = False
        self._head = b""

    def feed(self, chunk: bytes) -> list[Json | StreamFault]:
        if not self._any_event:
            self._head = (self._head + chunk[:_HEAD_BYTES])[:_HEAD_BYTES]
        out: list[Json | StreamFault] = []
        for event in self._sse.feed(chunk):
            self._any_event = True
            if isinstance(event, StreamFault):
                out.append(event)
            elif event.data.strip() == DONE:
                out += self._events.done()
            elif event.data.strip():
                value = parse_object(event.data)
                out += [value] if isinstance(value, StreamFault) else self._events.take(value)
        return out

    def close(self) -> list[Json | StreamFault]:
        """Handle the end of the bytes; some servers omit the `[DONE]` marker."""
        faults = [event for event in self._sse.close() if isinstance(event, StreamFault)]
        if self._events.is_whole:
            return list[Json | StreamFault](self._events.done())
        if self._any_event or not self._head:
            return list[Json | StreamFault](faults)
        message = "the response is not an event stream"
        return [StreamFault(kind="no_message", message=message, excerpt=make_excerpt(self._head))]


def convert_body(body: bytes, events: Converter, what: str) -> list[Json | StreamFault]:
    """Convert a complete response to the events of a stream. `what` names it in a fault."""
    value = parse_object(body)
    if isinstance(value, StreamFault):
        return [value]
    first_events = events.take(value)
    if not events.is_whole and not (first_events and first_events[0]["type"] == "error"):
        message = f"the response is not {what}"
        return [StreamFault(kind="malformed_event", message=message, excerpt=make_excerpt(body))]
    return [*first_events, *events.done()]
