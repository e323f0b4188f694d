"""Whether to try again, when, and how: the whole policy as one function over values.

Owns no clock and no randomness: time spent and a number from 0 to 1 are arguments. A request whose
answer has a completed block never comes here: its tools may have run.

Decision: docs/decisions/032-retries.md
"""

from typing import TypeAlias

from msgspec import Struct

from clew.messages.counts import count_of
from clew.providers.base import Failure, Request
from clew.providers.failure_kinds import (
    RETRIED_STATUSES,
    affordable_output,
    effective_status,
    is_busy,
    is_missing_model,
    is_overload,
    is_unnamed,
    without_credit,
)
from clew.providers.overflow import Overflow, overflow_of, shrunk, with_output

# The line, or what came over it, was at fault: the next attempt meets another server.
BROKEN_LINE = frozenset({"connect", "connect_timeout", "reset", "stalled", "truncated", "event"})
# Something on the way that answers for the service; it is rarely gone a second later.
IN_THE_WAY = frozenset({"protocol", "content", "proxy"})
# Where these come after the head, a stream had begun and broke.
BROKEN_STREAM = frozenset({"reset", "stalled", "truncated", "event"})

# An answer shorter than this is of no use to a turn with tools.
LEAST_AFFORDED = 1_000


class Policy(Struct, frozen=True, kw_only=True):
    """How patient clew is. `unattended` waits out 429 and 529 for as long as they last."""

    max_attempts: int = 10
    # Whether overloads count as attempts too: they do where a number of retries was asked for, and
    # otherwise only the time bounds them.
    counts_overloads: bool = False
    budget_s: float = 600.0
    # No attempt begins with less than this of the budget left; one that begins late is silent for
    # no longer than what is left.
    least_attempt_s: float = 5.0
    base_s: float = 1.0
    factor: float = 2.0
    cap_s: float = 30.0
    # Attempts that meet something in the way of the service.
    max_in_the_way: int = 3
    # Broken streams before one attempt asks for the whole answer at once, and what it may take.
    streams_before_whole: int = 3
    whole_s: float = 300.0
    # Overloads in a row before the next model of the chain is asked.
    overloads_before_fallback: int = 3
    unattended: bool = False
    unattended_cap_s: float = 300.0
    # After so long even a run that waits for ever asks again: a limit may be lifted before the
    # time it names, and a header may name the year 9999.
    unattended_ask_s: float = 21_600.0


class Spent(Struct, frozen=True, kw_only=True):
    """What has been tried for this answer; the counts are of the model that is asked now."""

    attempts: int = 0
    # Of these, the ones that no number of attempts bounds: overloads, and in an unattended run
    # whatever it waits out, of which the time does not count either.
    uncounted: int = 0
    elapsed_s: float = 0.0
    in_the_way: int = 0
    broken_streams: int = 0
    overloads: int = 0
    asked_whole: bool = False
    shrunk: bool = False
    # Models of the chain that are left.
    fallbacks: tuple[str, ...] = ()


class Again(Struct, frozen=True, kw_only=True):
    """The same request after a pause; `whole` asks for the answer in one piece."""

    delay_s: float
    whole: bool = False


class Shrink(Struct, frozen=True, kw_only=True):
    """The same request at once, with less room for the answer."""

    request: Request


class FallBack(Struct, frozen=True, kw_only=True):
    """The same request to the next model, after withdrawing what was shown."""

    model: str


class Compact(Struct, frozen=True, kw_only=True):
    """The conversation does not fit; nothing but compaction helps."""

    overflow: Overflow


class GiveUp(Struct, frozen=True, kw_only=True):
    """No further attempt; `why` is for people. `retry_in_s` is when the service would answer."""

    why: str
    retry_in_s: float | None = None


Decision: TypeAlias = Again | Shrink | FallBack | Compact | GiveUp


def counted(spent: Spent, failure: Failure, policy: Policy) -> Spent:
    """`spent` after an attempt that failed so."""
    return Spent(
        attempts=spent.attempts + 1,
        uncounted=spent.uncounted + is_uncounted(failure, policy),
        elapsed_s=spent.elapsed_s,
        in_the_way=spent.in_the_way + is_in_the_way(failure),
        broken_streams=spent.broken_streams + is_broken_stream(failure),
        overloads=spent.overloads + 1 if is_overload(failure) else 0,
        asked_whole=spent.asked_whole,
        shrunk=spent.shrunk,
        fallbacks=spent.fallbacks,
    )


def decide(
    failure: Failure, request: Request, spent: Spent, policy: Policy, *, random: float
) -> Decision:
    """What follows a failed attempt; `spent` counts it already, `random` is from 0 to below 1."""
    overflow = overflow_of(failure)
    if overflow is not None:
        smaller = None if spent.shrunk else shrunk(request, overflow)
        return Compact(overflow=overflow) if smaller is None else Shrink(request=smaller)
    fewer = None if spent.shrunk else affordable_output(failure)
    if fewer is not None and fewer >= LEAST_AFFORDED:
        return Shrink(request=with_output(request, fewer))
    if spent.fallbacks and (
        is_missing_model(failure) or spent.overloads >= policy.overloads_before_fallback
    ):
        return FallBack(model=spent.fallbacks[0])
    if (why := final(failure)) is not None:
        return GiveUp(why=why)
    unlimited = is_waited_out(failure, policy)
    delay_s = _delay(failure, spent.attempts, policy, random, unlimited=unlimited)
    end = None if unlimited else _end(failure, spent, policy, delay_s)
    if end is None:
        return Again(delay_s=delay_s, whole=_ask_whole(failure, request, spent, policy))
    return FallBack(model=spent.fallbacks[0]) if spent.fallbacks else end


def final(failure: Failure) -> str | None:
    """Say why no attempt can help, or None if one may."""
    if (why := without_credit(failure)) is not None:
        return why
    if failure.should_retry is not None:
        return None if failure.should_retry else "the service says not to try again"
    match failure.kind:
        case "status" | "error_event":
            may = is_unnamed(failure) or effective_status(failure) in RETRIED_STATUSES
        case "proxy":
            may = failure.status is None or failure.status >= 500
        case _:
            may = failure.kind in BROKEN_LINE or failure.kind in IN_THE_WAY
    return None if may else "trying again would end the same way"


def is_waited_out(failure: Failure, policy: Policy) -> bool:
    return policy.unattended and is_busy(failure)


def is_uncounted(failure: Failure, policy: Policy) -> bool:
    """Whether no number of attempts bounds how often this is tried again."""
    if is_overload(failure):
        return policy.unattended or not policy.counts_overloads
    return is_waited_out(failure, policy)


def is_in_the_way(failure: Failure) -> bool:
    """Whether few attempts are enough: something on the way answered, or nobody says what it is."""
    return failure.kind in IN_THE_WAY or is_unnamed(failure)


def is_broken_stream(failure: Failure) -> bool:
    return failure.status == 200 and failure.kind in BROKEN_STREAM


def _delay(
    failure: Failure, attempts: int, policy: Policy, random: float, *, unlimited: bool
) -> float:
    """Full jitter over a growing span; never before the time the service names."""
    cap_s = policy.unattended_cap_s if unlimited else policy.cap_s
    exponent = min(attempts - 1, 30)
    span_s = min(cap_s, policy.base_s * policy.factor**exponent)
    said_s = failure.retry_after_s
    if said_s is None:
        return random * span_s
    if unlimited:
        said_s = min(said_s, policy.unattended_ask_s)
    # Everybody was told the same moment: come a little after it, each at another time.
    return said_s + random * min(span_s, max(1.0, 0.1 * said_s))


def _end(failure: Failure, spent: Spent, policy: Policy, delay_s: float) -> GiveUp | None:
    """Return why no attempt follows, though one might help: the patience is used up."""
    tries = spent.attempts - spent.uncounted
    if tries >= policy.max_attempts:
        return GiveUp(why=f"{count_of(tries, 'attempt')} failed")
    if spent.in_the_way >= policy.max_in_the_way and is_in_the_way(failure):
        return GiveUp(why=f"{count_of(spent.in_the_way, 'attempt')} met the same obstacle")
    if spent.elapsed_s + delay_s + policy.least_attempt_s <= policy.budget_s:
        return None
    if (asked_s := failure.retry_after_s) is not None:
        return GiveUp(why=f"the service asks to wait {span_in_words(asked_s)}", retry_in_s=asked_s)
    return GiveUp(why=f"{spent.elapsed_s:.0f} s of {policy.budget_s:.0f} are spent")


def span_in_words(seconds: float) -> str:
    """Return a wait as a person reads it: `34 s`, `7 min`, `2 h 5 min`, `3 d 4 h`."""
    whole = round(seconds)
    for size, unit, below, part in (
        (86_400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size} {unit} {rest} {part}" if rest else f"{whole // size} {unit}"
    return f"{whole} s"


def _ask_whole(failure: Failure, request: Request, spent: Spent, policy: Policy) -> bool:
    return (
        request.stream
        and not spent.asked_whole
        and is_broken_stream(failure)
        and spent.broken_streams >= policy.streams_before_whole
        and spent.elapsed_s + policy.whole_s <= policy.budget_s
    )
