"""After each answer: go on, and with what words, or end, and why. Decisions as data, no effects.

Every stop reason has its branch; one that nobody knows ends the turn. Whatever makes a turn go on
without tools is counted, so that no model can keep a turn alive by saying nothing.

Decision: docs/decisions/004-turn-loop.md
"""

from typing import Literal, TypeAlias

from msgspec import Struct

from clew.engine.events import EndReason
from clew.messages.wording import AFTER_MAX_TOKENS

# How often in one turn an answer may be asked for again for each of these reasons.
MAX_RECOVERIES = {"max_tokens": 3, "full": 2, "broken_off": 3, "paused": 8, "empty": 1, "hook": 8}

AFTER_BREAK = (
    "The connection broke in the middle of your last answer; what is above is what arrived. Go on "
    "from there without repeating it."
)
AFTER_EMPTY = "Your last answer was empty. If the work is done, say so in a sentence; otherwise go on with it."

Cause: TypeAlias = Literal[
    "tools", "max_tokens", "full", "broken_off", "paused", "empty", "hook", "budget"
]
# These are work, or hold bounds of their own: what was recovered before is behind them.
WORK: frozenset[Cause] = frozenset({"tools", "budget"})


class Reply(Struct, frozen=True, kw_only=True):
    """What a transition needs to know of an answer and of what its calls did."""

    ending: str
    is_complete: bool = True
    is_empty: bool = False
    has_results: bool = False
    is_stopped: bool = False  # a person or host denied a call and said stop
    # What was repeated until nobody could take it for work any more; empty: nothing.
    repeats: str = ""
    # A hook wants the session to stop here, and why.
    halt: str | None = None
    # The request was given up, not broken off: asking again is no help.
    is_final: bool = False
    failure: str = ""
    stop_reason: str | None = None
    status: int | None = None
    # The category of the failure, in the words that hooks and readers of transcripts know.
    error: str = "unknown"
    error_type: str | None = None


class Continue(Struct, frozen=True, kw_only=True):
    """Another request follows; `words` go before it as a message that only the model sees."""

    cause: Cause
    words: str = ""


class Terminal(Struct, frozen=True, kw_only=True):
    reason: EndReason
    message: str = ""


Transition: TypeAlias = Continue | Terminal
FULL = Terminal(reason="prompt_too_long", message="the model's context window is full")


class Recoveries(Struct, frozen=True, kw_only=True):
    """How often this turn went on for each cause since a tool last ran."""

    max_tokens: int = 0
    full: int = 0
    broken_off: int = 0
    paused: int = 0
    empty: int = 0
    hook: int = 0

    def after(self, cause: Cause) -> "Recoveries":
        if cause in WORK:
            return Recoveries()
        counts = {name: getattr(self, name) for name in MAX_RECOVERIES}
        counts[cause] += 1
        return Recoveries(**counts)

    def has_left(self, cause: Cause) -> bool:
        return cause in WORK or getattr(self, cause) < MAX_RECOVERIES[cause]


def after_answer(reply: Reply, recoveries: Recoveries) -> Transition:
    """What follows an answer."""
    if reply.is_stopped:
        return Terminal(reason="denied_and_stopped")
    if reply.halt is not None:
        return Terminal(reason="stopped_by_hook", message=reply.halt)
    if reply.repeats:
        return Terminal(reason="loop_stopped", message=f"stopped: {reply.repeats}")
    if reply.has_results:
        return Continue(cause="tools")
    if reply.is_final:
        full = reply.ending == "cut_by_context"
        return Terminal(reason="prompt_too_long" if full else "api_error", message=reply.failure)
    if not reply.is_complete:
        return _unless_spent(
            Continue(cause="broken_off", words=AFTER_BREAK),
            recoveries,
            Terminal(reason="api_error", message=reply.failure),
        )
    match reply.ending:
        case "paused":
            return _unless_spent(
                Continue(cause="paused"),
                recoveries,
                Terminal(reason="no_answer", message="the model paused too often in one turn"),
            )
        case "cut_by_max_tokens" | "compacted":
            return _unless_spent(
                Continue(cause="max_tokens", words=AFTER_MAX_TOKENS),
                recoveries,
                Terminal(reason="completed", message="the answer was cut at its length limit"),
            )
        case "cut_by_context":
            return _unless_spent(Continue(cause="full", words=AFTER_MAX_TOKENS), recoveries, FULL)
        case "refused":
            return Terminal(reason="refused", message="the model refused to answer")
        case "turn" | "tools" if reply.is_empty:
            return _unless_spent(
                Continue(cause="empty", words=AFTER_EMPTY),
                recoveries,
                Terminal(reason="completed", message="the model had nothing to say"),
            )
        case "turn" | "tools":
            return Terminal(reason="completed")
        case _:
            return Terminal(
                reason="completed", message="the answer ended for a reason clew does not know"
            )


def _unless_spent(onward: Continue, recoveries: Recoveries, otherwise: Terminal) -> Transition:
    return onward if recoveries.has_left(onward.cause) else otherwise
