"""Assemble the events of one response into its message, in a state machine keyed by block index.

The accumulator never raises because of received data and never guesses. Events out of order produce
a `StreamFault`, and a fatal fault ends the response with the blocks that were complete. A tool may
run only after `ToolUseReady`.

    waiting -- message_start --> open -- message_stop, a fatal fault, close or abort --> finished

The response's dicts are passed on as they are; the accumulator does not change them afterward.

Decision: docs/decisions/021-streams-and-tool-input.md
"""

from collections.abc import Callable, Container
from typing import Any, Literal, TypeAlias

from clew.core.json_object import Json
from clew.core.messages.blocks import view_block as view_of
from clew.core.stream.blocks import OpenBlock, ToolCalls
from clew.core.stream.events import (
    AnswerEvent,
    BlockDropped,
    BlockFinished,
    BlockStarted,
    FaultKind,
    Ignored,
    MessageFinished,
    MessageStarted,
    StreamFault,
    UsageChanged,
    make_excerpt,
)

# Converts blocks that a model must not send to a form that every reader accepts.


KEPT_UNDER = "unexpected"


def acceptable(index: int, block: Json) -> tuple[Json, list[StreamFault]]:
    """Return the block in a form that is valid in a response, and a fault if it was converted."""
    if "assistant" in view_of(block).roles:
        return block, []
    kind = make_excerpt(str(block.get("type")))
    fault = StreamFault(
        kind="foreign_block", message=f"unexpected {kind} block in a response", index=index
    )
    return told(block, kind), [fault]


def told(value: Any, kind: str) -> Json:
    words = f"(The response contained a block of type {kind} here. It is stored but not sent back.)"
    return {"type": "text", "text": words, KEPT_UNDER: value}


def brought_along(content: Any) -> list[Json]:
    """Convert the content of a message_start event, which should have none.

    A tool call in this content was never checked, so it must not look like a call that waits for a
    result.
    """
    blocks: list[Json] = []
    for value in content if isinstance(content, list) else [content]:
        if isinstance(value, str):
            blocks.append({"type": "text", "text": value})
        elif not isinstance(value, dict):
            blocks.append(told(value, type(value).__name__))
        elif view_of(value).type == "tool_use" or "assistant" not in view_of(value).roles:
            blocks.append(told(value, make_excerpt(str(value.get("type")))))
        else:
            blocks.append(value)
    return blocks


# The usage of one response: newer totals replace older ones, in a dict that is not shared.


class Totals:
    """Cumulative usage. A null or missing field leaves the earlier value unchanged."""

    __slots__ = ("_said",)

    def __init__(self, usage: Any) -> None:
        self._said: Json = _own(usage) if isinstance(usage, dict) else {}

    def take(self, newer: Json) -> None:
        for name, value in newer.items():
            before = self._said.get(name)
            if isinstance(value, dict) and isinstance(before, dict):
                before.update((k, v) for k, v in value.items() if v is not None or k not in before)
            elif value is not None or name not in self._said:
                self._said[name] = dict(value) if isinstance(value, dict) else value

    def whole(self) -> Json:
        return _own(self._said)


def _own(usage: Json) -> Json:
    """Return a copy that is deep enough for the changes that `take` makes."""
    return {k: dict(v) if isinstance(v, dict) else v for k, v in usage.items()}


State: TypeAlias = Literal["waiting", "open", "finished"]


class Accumulator:
    """Assembles one response from its events.

    `new_tool_id` creates IDs for tool calls whose ID is missing or in use.
    """

    __slots__ = (
        "_calls",
        "_content_before",
        "_done",
        "_late_told",
        "_message",
        "_open",
        "_usage",
        "completed_blocks",
        "state",
    )

    def __init__(
        self, *, new_tool_id: Callable[[], str], taken_tool_ids: Container[str] = frozenset()
    ) -> None:
        self._calls = ToolCalls(new_tool_id, taken_tool_ids)
        self._message: Json = {}
        self._usage = Totals({})
        self._content_before: list[Any] = []
        self._open: dict[int, OpenBlock] = {}
        self._done: dict[int, Json] = {}
        self._late_told = False
        self.completed_blocks = 0
        self.state: State = "waiting"

    @property
    def message(self) -> Json | None:
        """The message so far with finished blocks and partial text; None before it starts."""
        if not self._message:
            return None
        blocks = dict(self._done)
        blocks.update((i, b.so_far()) for i, b in self._open.items() if _partial_text(b))
        return self._as_it_is(blocks)

    def feed(self, event: Json | StreamFault) -> list[AnswerEvent]:
        if isinstance(event, StreamFault):
            return self._faulted(event)
        kind = event.get("type")
        if kind == "content_block_delta" and self.state == "open":
            return self._block_delta(event)
        handler = _HANDLERS.get(kind) if isinstance(kind, str) else None
        if self.state != "open" and kind not in _ANY_TIME[self.state]:
            if self.state == "finished":
                return self._late(f"{kind} after the end of the response")
            if handler is not None:
                return self._fail("event_before_message_start", f"{kind} before message_start")
        if handler is None:
            return [Ignored(what="event", kind=make_excerpt(str(kind)), event=event)]
        return handler(self, event)

    def close(self) -> list[AnswerEvent]:
        """Handle the end of the stream."""
        if self.state == "finished":
            return []
        if self.state == "waiting":
            return self._fail("no_message", "the stream ended before the message started")
        if not self._all_said:
            return self._fail("cut_short", "the stream ended in the middle of the response")
        fault = _fault("message_stop_missing", "the stream ended without message_stop")
        return [fault, *self._finish(complete=True)]

    def abort(self) -> list[AnswerEvent]:
        """End the response at the caller's request, without a fault; complete blocks remain."""
        return [] if self.state == "finished" else self._finish(complete=False)

    @property
    def _stop_reason(self) -> str | None:
        reason = self._message.get("stop_reason")
        return reason if isinstance(reason, str) else None

    def _message_start(self, event: Json) -> list[AnswerEvent]:
        if self.state == "open":
            return self._fail("message_started_twice", "second message_start")
        message = event.get("message")
        if not isinstance(message, dict):
            return self._malformed(event)
        self._usage = Totals(message.get("usage"))
        self._message = dict(message)
        self.state = "open"
        events: list[AnswerEvent] = [MessageStarted(message=self._as_it_is({}))]
        if content := message.get("content"):
            self._content_before = brought_along(content)
            events.append(_fault("content_in_message_start", "message_start contained content"))
        return events

    def _block_start(self, event: Json) -> list[AnswerEvent]:
        index, block = event.get("index"), event.get("content_block")
        if type(index) is not int or index < 0 or not isinstance(block, dict):
            return self._malformed(event)
        if index in self._open or index in self._done:
            return self._fail("block_started_twice", f"block {index} started twice", index)
        events = self._calls.another_block_follows()
        if index != len(self._open) + len(self._done):
            expected = len(self._open) + len(self._done)
            events.append(_fault("index_gap", f"got block {index}, expected {expected}", index))
        if self._stop_reason is not None:
            events.append(
                _fault("block_after_stop_reason", f"block {index} after the stop reason", index)
            )
        block, unexpected = acceptable(index, block)
        block, faults = self._calls.named(index, block)
        opened = self._open[index] = OpenBlock(index, block)
        return [
            *events,
            *unexpected,
            *faults,
            BlockStarted(index=index, block=block),
            *opened.first_words(),
        ]

    def _block_delta(self, event: Json) -> list[AnswerEvent]:
        index, delta = event.get("index"), event.get("delta")
        if type(index) is not int or not isinstance(delta, dict):
            return self._malformed(event)
        block = self._open.get(index)
        if block is None:
            if index in self._done:
                return self._fail(
                    "delta_after_stop", f"delta for block {index}, which has ended", index
                )
            return self._fail(
                "delta_without_block", f"delta for block {index}, which is not open", index
            )
        out = block.apply(event, delta)
        if isinstance(out, StreamFault):
            return self._faulted(out)
        return [out] if out is not None else []

    def _block_stop(self, event: Json) -> list[AnswerEvent]:
        index = event.get("index")
        if type(index) is not int:
            return self._malformed(event)
        if index in self._done:
            return [_fault("block_stopped_twice", f"block {index} stopped twice", index)]
        if index not in self._open:
            return self._fail(
                "stop_without_block", f"stop for block {index}, which is not open", index
            )
        finished = self._open.pop(index).finish()
        self._done[index] = finished.block
        self.completed_blocks += 1
        events: list[AnswerEvent] = [
            BlockFinished(index=index, block=finished.block, origin=event.get("origin"))
        ]
        if finished.block.get("type") == "tool_use":
            events += self._calls.stopped(index, finished)
        elif finished.unreadable is not None:
            message = f"input of block {index}: {finished.unreadable.message}"
            events.append(_fault("invalid_server_tool_input", message, index))
        return events

    def _message_delta(self, event: Json) -> list[AnswerEvent]:
        delta = event.get("delta")
        if delta is not None and not isinstance(delta, dict):
            return self._malformed(event)
        for name, value in (event | (delta or {})).items():
            if name not in _OWN_FIELDS and (value is not None or name not in self._message):
                self._message[name] = value
        events: list[AnswerEvent] = []
        if isinstance(event.get("usage"), dict):
            self._usage.take(event["usage"])
            events.append(UsageChanged(usage=event["usage"]))
        if self._stop_reason is not None:
            events += self._calls.answer_ended(self._stop_reason)
        return events

    def _message_stop(self, _: Json) -> list[AnswerEvent]:
        if self._open:
            indexes = ", ".join(map(str, sorted(self._open)))
            return self._fail(
                "block_never_stopped", f"message_stop before the end of block {indexes}"
            )
        events: list[AnswerEvent] = []
        if self._stop_reason is None:
            events.append(_fault("stop_reason_missing", "the response ended without a stop reason"))
        return events + self._finish(complete=True)

    def _ping(self, _: Json) -> list[AnswerEvent]:
        return []

    def _error(self, event: Json) -> list[AnswerEvent]:
        error = event.get("error")
        details: Json = error if isinstance(error, dict) else {"message": error}
        fault = StreamFault(
            kind="error_event",
            message=str(details.get("message") or details.get("type") or "error without a message"),
            error_type=details["type"] if isinstance(details.get("type"), str) else None,
            error=details,
            request_id=event["request_id"] if isinstance(event.get("request_id"), str) else None,
        )
        return self._faulted(fault)

    def _malformed(self, event: Json) -> list[AnswerEvent]:
        return self._fail("malformed_event", f"{event['type']} with missing or invalid fields")

    def _fail(self, kind: FaultKind, message: str, index: int | None = None) -> list[AnswerEvent]:
        return self._faulted(_fault(kind, message, index))

    def _faulted(self, fault: StreamFault) -> list[AnswerEvent]:
        if self.state == "finished":
            return self._late(f"after the end of the response: {fault.message}")
        if fault.kind == "unfinished_event" and self._all_said:
            # Only message_stop can be cut off here: some servers close the stream right after their
            # last event.
            return [_fault("message_stop_missing", fault.message), *self._finish(complete=True)]
        return [fault, *self._finish(complete=False)] if fault.fatal else [fault]

    def _late(self, message: str) -> list[AnswerEvent]:
        """Ignore an event after a failure; report the first event after a complete response."""
        if self._late_told:
            return []
        self._late_told = True
        return [_fault("event_after_end", message)]

    @property
    def _all_said(self) -> bool:
        return self.state == "open" and not self._open and self._stop_reason is not None

    def _finish(self, *, complete: bool) -> list[AnswerEvent]:
        started, self.state = self.state == "open", "finished"
        self._late_told = not complete
        events: list[AnswerEvent] = []
        for index, block in sorted(self._open.items()):
            if _partial_text(block):
                self._done[index] = block.so_far()
                events.append(BlockFinished(index=index, block=block.so_far(), complete=False))
            else:
                why = f"the response ended inside this {block.kind} block"
                events.append(BlockDropped(index=index, block=block.so_far(), why=why))
        self._open.clear()
        events += self._calls.answer_ended(self._stop_reason)
        if started:
            message = self._as_it_is(self._done)
            events.append(
                MessageFinished(message=message, stop_reason=self._stop_reason, complete=complete)
            )
        return events

    def _as_it_is(self, blocks: dict[int, Json]) -> Json:
        """Return the message as a new dict, with these blocks as its content."""
        content = [*self._content_before, *(blocks[index] for index in sorted(blocks))]
        return self._message | {"content": content, "usage": self._usage.whole()}


# Fields of a message_delta that do not belong to the message, or that a delta must not change. The
# role and the ID of displayed content are final.
_OWN_FIELDS = frozenset({"type", "delta", "usage", "content", "id", "role"})
# Events that are allowed while no message is open.
_ANY_TIME: dict[State, tuple[str, ...]] = {
    "waiting": ("ping", "message_start", "error"),
    "finished": ("ping",),
}
_HANDLERS: dict[str, Callable[[Accumulator, Json], list[AnswerEvent]]] = {
    "message_start": Accumulator._message_start,
    "content_block_start": Accumulator._block_start,
    "content_block_delta": Accumulator._block_delta,
    "content_block_stop": Accumulator._block_stop,
    "message_delta": Accumulator._message_delta,
    "message_stop": Accumulator._message_stop,
    "error": Accumulator._error,
    "ping": Accumulator._ping,
}


def _partial_text(block: OpenBlock) -> bool:
    """Return whether to store an unfinished block: only text is useful if incomplete."""
    return block.kind == "text" and bool(str(block.so_far().get("text") or "").strip())


def _fault(kind: FaultKind, message: str, index: int | None = None) -> StreamFault:
    return StreamFault(kind=kind, message=make_excerpt(message), index=index)
