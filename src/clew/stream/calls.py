"""The tool calls of one answer: each under an id of its own, each judged exactly once.

A call may run only if its input came whole. That is nearly always known at its block's stop; but a
call without any input looks the same as one that was cut off before its first character, so that
one waits for what follows: another block's start or end, or the stop reason.

Decision: docs/decisions/021-streams-and-tool-input.md
"""

from collections.abc import Callable, Container

from clew.stream.blocks import TOOL_KINDS, Finished
from clew.stream.events import (
    ENDINGS,
    AnswerEvent,
    FaultKind,
    Json,
    StreamFault,
    ToolUseReady,
    ToolUseUnusable,
    UnusableReason,
)

# The stop reasons after which a call without input is known to be meant so.
_SURE = frozenset({"end_turn", "tool_use"})
_CUTTING = frozenset({"cut_by_max_tokens", "cut_by_context"})
# What a call is called that names no tool: without a name it could neither be stored nor sent.
UNNAMED = "unnamed"


class ToolCalls:
    """`tool_use` in a final message and verdicts (`ToolUseReady`, `ToolUseUnusable`) are one to one."""

    __slots__ = ("_ids", "_nameless", "_new_id", "_taken", "_undecided")

    def __init__(self, new_id: Callable[[], str], taken: Container[str]) -> None:
        self._new_id = new_id
        self._taken = taken
        self._ids: set[str] = set()
        self._nameless: set[int] = set()
        self._undecided: tuple[int, Finished] | None = None

    def named(self, index: int, block: Json) -> tuple[Json, list[AnswerEvent]]:
        """The block under an id that no other call has, so that none gets another's result.

        A call that the service runs keeps its id whatever it is: its result names it.
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
            kind, message = "missing_tool_id", f"the call in block {index} has no id"
        elif ours and (tool_id in self._ids or tool_id in self._taken):
            kind, message = "duplicate_tool_id", f"another call has the id {tool_id} already"
        else:
            return None
        return StreamFault(kind=kind, message=message, index=index)

    def stopped(self, index: int, call: Finished) -> list[AnswerEvent]:
        # That another block ends after it shows it, too, was not cut off.
        before = self._decide(cut=False, stop_reason="tool_use")
        if call.bare or call.unreadable is not None:
            self._undecided = (index, call)
            return before
        return [*before, self._verdict(index, call, cut=False, stop_reason="tool_use")]

    def another_block_follows(self) -> list[AnswerEvent]:
        """What stands before another block was not cut off."""
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
        self, index: int, call: Finished, *, cut: bool, stop_reason: str | None
    ) -> ToolUseReady | ToolUseUnusable:
        reason: UnusableReason
        if cut:
            reason, why = "cut", f"the answer was cut off inside this call ({stop_reason})"
        elif call.unreadable is not None:
            reason, why = call.unreadable.reason, call.unreadable.message
        elif index in self._nameless:
            reason, why = "no_name", "the call names no tool"
        elif stop_reason not in _SURE:
            reason, why = "unconfirmed", f"the answer ended ({stop_reason}) before any input came"
        else:
            return ToolUseReady(index=index, block=call.block)
        raw = call.unreadable.raw if call.unreadable is not None else ""
        return ToolUseUnusable(index=index, block=call.block, reason=reason, message=why, raw=raw)
