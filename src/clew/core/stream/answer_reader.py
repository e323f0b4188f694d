"""Read one streamed answer: bytes in, events and the message out.

Connect the decoder of a service's wire to the accumulator of the message, and close both in this
order. Received data never raises an exception.
"""

from collections.abc import Callable, Container
from itertools import count
from typing import Literal, TypeAlias

from clew.core.json_object import Json
from clew.core.stream.accumulate import Accumulator
from clew.core.stream.chat import ChatDecoder
from clew.core.stream.decode import EventDecoder
from clew.core.stream.events import AnswerEvent
from clew.core.stream.responses import ResponsesDecoder

# The Messages API, chat completions, or OpenAI's Responses API.
Wire: TypeAlias = Literal["messages", "chat", "responses"]
DECODERS = {"messages": EventDecoder, "chat": ChatDecoder, "responses": ResponsesDecoder}


class AnswerReader:
    """The reader of one answer. Feed it the bytes as they arrive, and close it when they end.

    The same bytes give the same events, however they are split. `new_tool_id` creates IDs for
    calls without an ID, and for calls whose ID is in `taken_tool_ids`.
    """

    def __init__(
        self,
        wire: Wire = "messages",
        *,
        new_tool_id: Callable[[], str] | None = None,
        taken_tool_ids: Container[str] = frozenset(),
        max_event_bytes: int | None = None,
    ) -> None:
        if wire not in DECODERS:
            raise ValueError(f"wire: expected one of {', '.join(DECODERS)}, got {wire!r}")
        numbers = count(1)
        self._decoder = DECODERS[wire](max_event_bytes=max_event_bytes)
        self._accumulator = Accumulator(
            new_tool_id=new_tool_id or (lambda: f"toolu_{next(numbers)}"),
            taken_tool_ids=taken_tool_ids,
        )
        self._is_closed = False

    @property
    def message(self) -> Json | None:
        """The message so far, in the form of the Messages API; None before it starts."""
        return self._accumulator.message

    def feed(self, chunk: bytes) -> list[AnswerEvent]:
        """Return the events in these bytes."""
        if not isinstance(chunk, bytes | bytearray | memoryview):
            raise TypeError(f"chunk: expected bytes, got {type(chunk).__name__}")
        events = self._decoder.feed(chunk)
        return [out for event in events for out in self._accumulator.feed(event)]

    def close(self) -> list[AnswerEvent]:
        """End the response; return its last events. An incomplete one ends with what arrived."""
        if self._is_closed:
            return []
        self._is_closed = True
        events = [out for event in self._decoder.close() for out in self._accumulator.feed(event)]
        return events + self._accumulator.close()
