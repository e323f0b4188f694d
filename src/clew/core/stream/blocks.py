"""Apply deltas to a content block while it streams, and return its final form.

Blocks and deltas are the API's dicts. A block of an unknown kind accepts all known deltas and
retains all its fields. A delta of an unknown kind is passed on but not applied.
"""

from collections.abc import Callable, Container
from typing import Any

from msgspec import Struct

from clew.core.json_object import Json
from clew.core.messages.encoding import encode
from clew.core.stream.events import (
    ENDINGS,
    AnswerEvent,
    CitationAdded,
    FaultKind,
    Ignored,
    InputDelta,
    StreamFault,
    TextDelta,
    ThinkingDelta,
    ToolUseReady,
    ToolUseUnusable,
    UnusableReason,
    make_excerpt,
)
from clew.core.stream.json_pieces import GrowingText, InputBuffer, UnreadableInput, read_input

TOOL_KINDS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})

_INPUT = frozenset({"input_json_delta"})
_TAKES: dict[str, frozenset[str]] = {
    "text": frozenset({"text_delta", "citations_delta"}),
    "thinking": frozenset({"thinking_delta", "signature_delta"}),
    "redacted_thinking": frozenset(),
    "tool_use": _INPUT,
    "server_tool_use": _INPUT,
    "mcp_tool_use": _INPUT,
    "compaction": frozenset({"compaction_delta"}),
}


class FinishedBlock(Struct, frozen=True, kw_only=True):
    """A block at its stop event.

    `unreadable` says why the input is invalid; `bare` is set if there was no input at all.
    """

    block: Json
    unreadable: UnreadableInput | None = None
    bare: bool = False


class OpenBlock:
    """A block between its start and stop events."""

    __slots__ = ("_block", "_citations", "_takes", "_texts", "index", "input", "kind")

    def __init__(self, index: int, block: Json) -> None:
        self.index = index
        self.kind = str(block.get("type"))
        self.input = InputBuffer()
        self._block = dict(block)
        self._citations: list[Json] = []
        self._takes = _TAKES.get(self.kind)
        self._texts: dict[str, GrowingText] = {}

    def first_words(self) -> list[AnswerEvent]:
        """Return the text in the start event as events, as if it had arrived in deltas."""
        text, thinking = self._block.get("text"), self._block.get("thinking")
        events: list[AnswerEvent] = []
        if isinstance(text, str) and text:
            events.append(TextDelta(index=self.index, text=text))
        if isinstance(thinking, str) and thinking:
            events.append(ThinkingDelta(index=self.index, thinking=thinking))
        return events

    def apply(self, event: Json, delta: Json) -> AnswerEvent | None:
        kind = delta.get("type")
        how = _DELTAS.get(kind) if isinstance(kind, str) else None
        if how is None:
            return Ignored(what="delta", kind=make_excerpt(str(kind)), event=event)
        if self._takes is not None and kind not in self._takes:
            message = f"unexpected {kind} for a block of type {self.kind}"
            return StreamFault(kind="delta_mismatch", message=message, index=self.index)
        field, of, apply = how
        value = delta.get(field)
        if not isinstance(value, of):
            message = f"{kind}: {field} has the wrong type {type(value).__name__}"
            return StreamFault(kind="malformed_event", message=message, index=self.index)
        return apply(self, value, delta)

    def _text(self, piece: str, _: Json) -> AnswerEvent | None:
        text = (self._texts.get("text") or self._growing("text")).add(piece)
        return TextDelta(index=self.index, text=text) if text else None

    def _thinking(self, piece: str, _: Json) -> AnswerEvent | None:
        text = (self._texts.get("thinking") or self._growing("thinking")).add(piece)
        return ThinkingDelta(index=self.index, thinking=text) if text else None

    def _input(self, piece: str, _: Json) -> AnswerEvent | None:
        self.input.append(piece)
        return InputDelta(index=self.index, partial_json=piece) if piece else None

    def _citation(self, citation: Json, _: Json) -> AnswerEvent | None:
        self._citations.append(citation)
        return CitationAdded(index=self.index, citation=citation)

    def _replace(self, _: str, delta: Json) -> AnswerEvent | None:
        """Replace the block's fields with those of a signature or compaction delta; return None."""
        self._block.update((k, v) for k, v in delta.items() if k != "type")
        return None

    def _growing(self, field: str) -> GrowingText:
        start = self._block.get(field)
        text = self._texts[field] = GrowingText(start if isinstance(start, str) else "")
        return text

    def so_far(self) -> Json:
        """Return the block so far, without the streamed input."""
        block = self._block | {field: text.whole() for field, text in self._texts.items()}
        if self._citations:
            before = block.get("citations")
            block["citations"] = [*(before if isinstance(before, list) else ()), *self._citations]
        return block

    def finish(self) -> FinishedBlock:
        block = self.so_far()
        if self.kind not in TOOL_KINDS and self.input.blank:
            return FinishedBlock(block=block)
        if not self.input.blank:
            value: Any = self.input.finish()
        else:
            value = _whole_input(block.get("input"))
        if isinstance(value, UnreadableInput):
            # The input must be an object so that the message can be sent again. The API's
            # documentation uses this name for invalid input.
            block["input"] = {"INVALID_JSON": value.raw}
            return FinishedBlock(block=block, unreadable=value)
        block["input"] = value
        return FinishedBlock(block=block, bare=self.input.blank and not value)


# For each delta type: the field that contains its value, the value's type and the method.
_DELTAS: dict[str, tuple[str, type, Callable[[OpenBlock, Any, Json], AnswerEvent | None]]] = {
    "text_delta": ("text", str, OpenBlock._text),
    "thinking_delta": ("thinking", str, OpenBlock._thinking),
    "input_json_delta": ("partial_json", str, OpenBlock._input),
    "citations_delta": ("citation", dict, OpenBlock._citation),
    "signature_delta": ("signature", str, OpenBlock._replace),
    "compaction_delta": ("type", str, OpenBlock._replace),
}


def _whole_input(value: Any) -> Json | UnreadableInput:
    """Return the input from the start event, for servers that do not stream it."""
    if not value and (value is None or isinstance(value, dict)):
        return {}
    raw = value if isinstance(value, str) else encode(value).decode()
    if isinstance(value, dict):
        return read_input(raw)
    message = f"the input is of type {type(value).__name__}, not an object"
    return UnreadableInput(reason="not_an_object", message=message, raw=raw)


# The tool calls of one response: each gets a unique ID and exactly one verdict.


# Stop reasons after which a call without input is known to be intentional.
_SURE = frozenset({"end_turn", "tool_use"})
_CUTTING = frozenset({"cut_by_max_tokens", "cut_by_context"})
# The name of a call without one, because it could otherwise not be stored or sent.
UNNAMED = "unnamed"


class ToolCalls:
    """The tool calls of one response; each gets a verdict, `ToolUseReady` or `ToolUseUnusable`."""

    __slots__ = ("_ids", "_nameless", "_new_id", "_taken", "_undecided")

    def __init__(self, new_id: Callable[[], str], used_ids: Container[str]) -> None:
        self._new_id = new_id
        self._taken = used_ids
        self._ids: set[str] = set()
        self._nameless: set[int] = set()
        self._undecided: tuple[int, FinishedBlock] | None = None

    def named(self, index: int, block: Json) -> tuple[Json, list[AnswerEvent]]:
        """Return the block with an ID that no other call uses, so that results cannot be confused.

        A call that the service runs retains its ID, because its result refers to it.
        """
        kind, tool_id, name = block.get("type"), block.get("id"), block.get("name")
        if not isinstance(kind, str) or kind not in TOOL_KINDS:
            return block, []
        if not isinstance(name, str) or not name:
            self._nameless.add(index)
            block = block | {"name": UNNAMED}
        fault = self._fault_of(index, tool_id, ours=kind == "tool_use")
        if fault is not None:
            tool_id = self._new_id()
            block = block | {"id": tool_id}
        self._ids.add(str(tool_id))
        return block, [] if fault is None else [fault]

    def _fault_of(self, index: int, tool_id: object, *, ours: bool) -> StreamFault | None:
        kind: FaultKind
        if not isinstance(tool_id, str) or not tool_id:
            kind, message = "missing_tool_id", f"the call in block {index} has no ID"
        elif ours and (tool_id in self._ids or tool_id in self._taken):
            kind, message = "duplicate_tool_id", f"the ID {tool_id} is already used by another call"
        else:
            return None
        return StreamFault(kind=kind, message=message, index=index)

    def stopped(self, index: int, call: FinishedBlock) -> list[AnswerEvent]:
        # Another block ended after the pending call, so that call was not cut off either.
        before = self._decide(cut=False, stop_reason="tool_use")
        if call.bare or call.unreadable is not None:
            self._undecided = (index, call)
            return before
        return [*before, self._verdict(index, call, cut=False, stop_reason="tool_use")]

    def another_block_follows(self) -> list[AnswerEvent]:
        """Decide about the pending call: a block followed by another one was not cut off."""
        return self._decide(cut=False, stop_reason="tool_use")

    def answer_ended(self, stop_reason: str | None) -> list[AnswerEvent]:
        cut = ENDINGS.get(stop_reason or "") in _CUTTING
        return self._decide(cut=cut, stop_reason=stop_reason)

    def _decide(self, *, cut: bool, stop_reason: str | None) -> list[AnswerEvent]:
        if self._undecided is None:
            return []
        index, call = self._undecided
        self._undecided = None
        return [self._verdict(index, call, cut=cut, stop_reason=stop_reason)]

    def _verdict(
        self, index: int, call: FinishedBlock, *, cut: bool, stop_reason: str | None
    ) -> ToolUseReady | ToolUseUnusable:
        reason: UnusableReason
        if cut:
            reason, why = "cut", f"the response was cut off inside this call ({stop_reason})"
        elif call.unreadable is not None:
            reason, why = call.unreadable.reason, call.unreadable.message
        elif index in self._nameless:
            reason, why = "no_name", "the call has no tool name"
        elif stop_reason not in _SURE:
            reason, why = (
                "unconfirmed",
                f"the response ended ({stop_reason}) before any input arrived",
            )
        else:
            return ToolUseReady(index=index, block=call.block)
        raw = call.unreadable.raw if call.unreadable is not None else ""
        return ToolUseUnusable(index=index, block=call.block, reason=reason, message=why, raw=raw)
