"""The conversation so far as an immutable value; each new history shares storage with the old.

A history contains decoded messages in order. Missing results are computed as calls minus results,
so checking or repairing a history twice changes nothing.
"""

from __future__ import annotations

from clew.core.messages.blocks import ToolUseBlock
from clew.core.messages.errors import MisuseError
from clew.core.messages.factories import make_tool_answer
from clew.core.messages.messages import AssistantMessage, UserMessage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any


class History:
    """An immutable sequence of messages. The cost of appending depends only on the added messages.

    A longer history shares the list of the history that it extends, and uses more of that list.
    Extending the same history a second time copies the list.
    """

    __slots__ = ("_length", "_shared")

    def __init__(self, messages: Iterable[dict[str, Any]] = ()) -> None:
        self._shared = list(messages)
        self._length = len(self._shared)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._shared[: self._length])

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self._shared[range(self._length)[index]]

    def __repr__(self) -> str:
        return f"<History of {self._length} messages>"

    def with_messages(self, messages: Iterable[dict[str, Any]]) -> History:
        """Return this history followed by `messages`."""
        longer = History()
        longer._shared = self._shared if self._is_tip else self._shared[: self._length]
        longer._shared.extend(messages)
        longer._length = len(longer._shared)
        return longer

    @property
    def _is_tip(self) -> bool:
        return len(self._shared) == self._length

    def without(self, uuids: Iterable[str]) -> History:
        """Return this history without the messages named in `uuids`.

        The memory that these messages use can then be freed.
        """
        gone = frozenset(uuids)
        return History(m for m in self if m.get("uuid") not in gone)

    def unanswered(self) -> list[tuple[ToolUseBlock, str | None]]:
        """Return each call without a result, with the uuid of the message that made it."""
        return find_unanswered_calls(self)


def find_unanswered_calls(
    messages: Iterable[dict[str, Any]],
) -> list[tuple[ToolUseBlock, str | None]]:
    """Return the calls without a result, in order; a call without an ID cannot have a result."""
    calls: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
    answered: set[str] = set()
    for message in messages:
        # Raw dicts instead of views: a resumed session scans all its messages here before the first
        # screen.
        match message.get("type"):
            case "assistant":
                for block in _blocks(message, "tool_use"):
                    if type(call_id := block.get("id")) is str and call_id:
                        calls.setdefault(call_id, (block, message))
            case "user":
                for block in _blocks(message, "tool_result"):
                    if type(call_id := block.get("tool_use_id")) is str:
                        answered.add(call_id)
    left = [call for call_id, call in calls.items() if call_id not in answered]
    return [(ToolUseBlock(block), AssistantMessage(message).uuid) for block, message in left]


def _blocks(message: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    body = message.get("message")
    content = body.get("content") if type(body) is dict else None
    listed = content if type(content) is list else [content]
    return [block for block in listed if type(block) is dict and block.get("type") == kind]


def make_missing_results(
    messages: Iterable[dict[str, Any]], words: str, *, new_uuid: Callable[[], str], at: str
) -> list[dict[str, Any]]:
    """Return one error result, with the text `words`, for each call without a result."""
    return [
        make_tool_answer(
            use.id or "",
            words,
            uuid=new_uuid(),
            at=at,
            source_uuid=source_uuid,
            raw=f"Error: {words}",
            is_error=True,
        )
        for use, source_uuid in find_unanswered_calls(messages)
    ]


# The only ways to change a conversation's messages.


def with_results(history: History, results: Iterable[dict[str, Any]]) -> History:
    """Return `history` followed by the results of its open calls.

    A second result for a call is dropped, because the API rejects it. Raise MisuseError if the call
    of a result is unknown.
    """
    waiting = [(m, {r.tool_use_id for r in UserMessage(m).tool_results}) for m in results]
    called, answered = _calls_behind(history, {call for _, calls in waiting for call in calls})
    messages: list[dict[str, Any]] = []
    for message, calls in waiting:
        if not calls:
            raise MisuseError("every message must contain a tool result")
        if not calls <= called:
            raise MisuseError(
                f"no tool call found for the results {sorted(map(str, calls - called))}"
            )
        if not calls <= answered:
            answered |= calls
            messages.append(message)
    return history.with_messages(messages)


def _calls_behind(
    history: History, wanted: set[str | None]
) -> tuple[set[str | None], set[str | None]]:
    """Scan backward for the wanted calls; return the IDs of the calls and of the results found."""
    called: set[str | None] = set()
    answered: set[str | None] = set()
    for index in range(len(history) - 1, -1, -1):
        if wanted <= called:
            break
        message = history[index]
        kind = message.get("type")
        if kind == "assistant":
            called.update(use.id for use in AssistantMessage(message).tool_uses)
        elif kind == "user":
            answered.update(result.tool_use_id for result in UserMessage(message).tool_results)
    return called, answered


def with_cost(
    message: dict[str, Any], *, cost_usd: float | None, duration_ms: float
) -> dict[str, Any]:
    """Return an assistant message with its cost and duration; an unknown cost is omitted."""
    cost_fields = {} if cost_usd is None else {"costUSD": cost_usd}
    return message | cost_fields | {"durationMs": duration_ms}
