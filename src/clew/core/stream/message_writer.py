"""Write the Messages API's events for a response that arrives in another wire format.

Owns block indexes and the order of stops: a block stops only after all blocks before it, so readers
see blocks complete in order, however the service interleaves them. A stop event carries the
`origin` of its block: the service's own items, which can be returned to it unchanged.

Decision: docs/decisions/021-streams-and-tool-input.md
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from clew.core.json_object import Json

NO_NAMES: Mapping[str, str] = {}


class Stamp(Struct, frozen=True, kw_only=True):
    """The request data that a decoder needs: the answering service and shortened tool names."""

    service: str = ""
    wire: str = ""
    model: str = ""
    # The tools' full names, by the shortened name in the request.
    names: Mapping[str, str] = NO_NAMES

    def origin(self, items: list[Json]) -> Json:
        """Return the record of origin for a block with these items."""
        own = {"service": self.service, "wire": self.wire, "model": self.model}
        return own | {"items": items}


NO_STAMP = Stamp()


class MessageWriter:
    """Collects the events of one response; `drain` returns those not yet returned."""

    __slots__ = ("_ended", "_events", "_held", "_lead", "_next", "is_over", "is_started", "stamp")

    def __init__(self, stamp: Stamp = NO_STAMP) -> None:
        self.stamp = stamp
        self.is_started = False
        self.is_over = False
        self._events: list[Json] = []
        self._next = 0
        # The first index whose stop has not been sent, and the items of later blocks that ended.
        self._ended = 0
        self._held: dict[int, list[Json]] = {}
        # Items that have no block, by the block that they precede.
        self._lead: dict[int, list[Json]] = {}

    def drain(self) -> list[Json]:
        events, self._events = self._events, []
        return events

    @property
    def block_count(self) -> int:
        return self._next

    def begin(self, message_id: Any, model: Any, usage: Json | None = None) -> None:
        """Start the message, unless it has started."""
        if self.is_started:
            return
        self.is_started = True
        message: Json = {
            "id": message_id if type(message_id) is str else "",
            "type": "message",
            "role": "assistant",
            "model": model if type(model) is str else "",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage or {"input_tokens": 0, "output_tokens": 0},
        }
        self._events.append({"type": "message_start", "message": message})

    def open(self, block: Json) -> int:
        """Open a block and return its index."""
        index, self._next = self._next, self._next + 1
        start = {"type": "content_block_start", "index": index, "content_block": block}
        self._events.append(start)
        return index

    def open_words(self, kind: str) -> int:
        """Open a block of text or thinking."""
        return self.open(
            {"type": "text", "text": ""}
            if kind == "text"
            else {"type": "thinking", "thinking": "", "signature": ""}
        )

    def open_call(self, call_id: Any, name: Any) -> int:
        """Open a tool call under the tool's full name."""
        tool_name = name if type(name) is str else ""
        return self.open(
            {
                "type": "tool_use",
                "id": call_id if type(call_id) is str else "",
                "name": self.stamp.names.get(tool_name, tool_name),
                "input": {},
            }
        )

    def add(self, index: int, kind: str, member: str, piece: str) -> None:
        """Add a delta to an open block."""
        delta = {"type": kind, member: piece}
        self._events.append({"type": "content_block_delta", "index": index, "delta": delta})

    def say(self, index: int, kind: str, piece: str) -> None:
        """Add a piece of text or thinking."""
        self.add(index, f"{kind}_delta", kind, piece)

    def carry(self, items: list[Json]) -> None:
        """Attach items that have no block to the next block that opens."""
        if items:
            self._lead.setdefault(self._next, []).extend(items)

    def stop(self, index: int, items: list[Json]) -> None:
        """End a block that consists of these items of the service."""
        self._held[index] = [*self._lead.pop(index, ()), *items]
        while self._ended in self._held:
            event: Json = {"type": "content_block_stop", "index": self._ended}
            if self.stamp.wire and (own := self._held[self._ended]):
                event["origin"] = self.stamp.origin(own)
            del self._held[self._ended]
            self._events.append(event)
            self._ended += 1

    def end(self, stop_reason: str, usage: Json, **members: Any) -> None:
        """End the message, unless it has ended."""
        if self.is_over:
            return
        self.is_over = True
        if self._next in self._lead:
            # Nothing followed these items; a block keeps them with the response.
            self.stop(self.open_words("thinking"), [])
        delta = {"stop_reason": stop_reason, "stop_sequence": None}
        self._events += [
            {"type": "message_delta", "delta": delta, "usage": usage, **members},
            {"type": "message_stop"},
        ]

    def fail(self, error: Json) -> None:
        """End the response with the service's error."""
        if not self.is_over:
            self.is_over = True
            self._events.append({"type": "error", "error": error})


def count_of(value: Any) -> int:
    """Return a token count; anything but a positive integer is treated as 0."""
    return value if type(value) is int and value > 0 else 0
