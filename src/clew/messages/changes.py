"""The three ways a conversation's messages change; there is no fourth.

1. A stream grows the message it brings: `clew.stream.accumulate.Accumulator.feed`.
2. A tool's result joins the history: `with_results`.
3. A request's cost and duration join its answer before that is recorded: `with_cost`.

The last two return new values. What is recorded is never changed: a later truth is a later entry.
"""

from __future__ import annotations

from clew.messages.errors import MisuseError
from clew.messages.messages import Assistant, User

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from clew.messages.history import History


def with_results(history: History, results: Iterable[dict[str, Any]]) -> History:
    """`history` and then the results whose calls wait in it. A second result for a call is dropped,
    because the API refuses it; one for a call that nobody made is a fault of the caller."""
    waiting = [(m, {r.tool_use_id for r in User(m).tool_results}) for m in results]
    called, answered = _calls_behind(history, {call for _, calls in waiting for call in calls})
    taken: list[dict[str, Any]] = []
    for message, calls in waiting:
        if not calls or not calls <= called:
            raise MisuseError(
                f"a result for {sorted(map(str, calls - called))}, which nobody called"
            )
        if not calls <= answered:
            answered |= calls
            taken.append(message)
    return history.with_messages(taken)


def _calls_behind(
    history: History, wanted: set[str | None]
) -> tuple[set[str | None], set[str | None]]:
    """The calls and the answers of `history`, read backwards until each wanted call is found."""
    called: set[str | None] = set()
    answered: set[str | None] = set()
    for index in range(len(history) - 1, -1, -1):
        if wanted <= called:
            break
        message = history[index]
        kind = message.get("type")
        if kind == "assistant":
            called.update(use.id for use in Assistant(message).tool_uses)
        elif kind == "user":
            answered.update(result.tool_use_id for result in User(message).tool_results)
    return called, answered


def with_cost(
    message: dict[str, Any], *, cost_usd: float | None, duration_ms: float
) -> dict[str, Any]:
    """An assistant message with what its request took; an unknown cost is left out, never 0."""
    known = {} if cost_usd is None else {"costUSD": cost_usd}
    return message | known | {"durationMs": duration_ms}
