"""The retry policy as one function over values: whether to retry, when and how.

Contains no clock and no randomness: the time spent and a random number are arguments. It is never
applied after a response block was completed, because its tool may have run.

Decision: docs/decisions/032-retries.md
"""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TypeAlias

from msgspec import Struct

from clew.core.messages.text import format_count
from clew.core.regex import lazy_pattern
from clew.providers.base import Failure, ModelRequest
from clew.providers.failure_kinds import (
    RETRIED_STATUSES,
    Overflow,
    find_affordable_output,
    find_effective_status,
    is_busy,
    is_missing_model,
    is_overload,
    is_unnamed,
    overflow_of,
    shrink_request,
    why_no_credit,
    with_output,
)

# Read how long a service asks to wait, wherever it reports that.


MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# A larger number of seconds is a Unix time; a number above the second limit is one in milliseconds.
_MOMENT_S = 1e9
_MOMENT_MS = 1e12

_UNITS_S = {
    "ms": 0.001, "msec": 0.001, "msecs": 0.001, "millisecond": 0.001, "milliseconds": 0.001,
    "s": 1, "sec": 1, "secs": 1, "second": 1, "seconds": 1,
    "m": 60, "min": 60, "mins": 60, "minute": 60, "minutes": 60,
    "h": 3600, "hr": 3600, "hrs": 3600, "hour": 3600, "hours": 3600,
    "d": 86_400, "day": 86_400, "days": 86_400,
}  # fmt: skip
_UNIT = "|".join(sorted(_UNITS_S, key=len, reverse=True))
_PART = rf"\d{{1,9}}(?:\.\d{{1,12}})?\s{{0,2}}(?:{_UNIT})(?![a-z])"
_SPAN = lazy_pattern(rf"{_PART}(?:[\s,]{{0,2}}(?:and\s)?{_PART}){{0,4}}", re.I)
_EACH = lazy_pattern(r"(\d{1,9}(?:\.\d{1,12})?)\s{0,2}([a-z]+)", re.I)
_AGAIN = lazy_pattern(
    r"\b(?:try again|retry)\s+(?:in|after)\s+(?:about\s+|approximately\s+)?", re.I
)


def read_retry_after_s(headers: Mapping[str, str], *, wall_s: float | None) -> float | None:
    """Return the seconds to wait, at least 0, or None if no valid header specifies them.

    A date is compared with the service's own `date` header if there is one, because its clock may
    differ.
    """
    millis = _number(headers.get("retry-after-ms"))
    if millis is not None:
        return millis / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None:
        return seconds
    until = parse_http_date_s(value)
    if until is None:
        return parse_seconds(value or "")
    their_now = parse_http_date_s(headers.get("date"))
    now_s = wall_s if their_now is None else their_now
    return None if now_s is None else max(0.0, until - now_s)


def reset_after_s(headers: Mapping[str, str], *, now_s: float | None) -> float | None:
    """Return the seconds until every exhausted limit resets, or None if no reset is known.

    If no limit is reported as exhausted, the limits without a remaining count are used.
    """
    exhausted: list[float] = []
    untold: list[float] = []
    for reset, remaining in _limits(headers):
        seconds = _until_s(reset, now_s)
        if seconds is not None and remaining is None:
            untold.append(seconds)
        elif seconds is not None and _number(remaining) == 0:
            exhausted.append(seconds)
    return max(exhausted or untold, default=None)


def _limits(headers: Mapping[str, str]) -> Iterator[tuple[str, str | None]]:
    """Yield the reset time and the remaining count of each limit in the headers.

    The headers are `x-ratelimit-reset[-KIND]` (OpenAI, Groq, OpenRouter) and
    `anthropic-ratelimit-KIND-reset`.
    """
    for name, value in headers.items():
        if name.startswith("x-ratelimit-reset"):
            yield value, headers.get(name.replace("-reset", "-remaining", 1))
        elif name.startswith("anthropic-ratelimit-") and name.endswith("-reset"):
            yield value, headers.get(f"{name.removesuffix('-reset')}-remaining")


def _until_s(value: str, now_s: float | None) -> float | None:
    """Return the seconds until a reset given as a duration, seconds, a Unix time or RFC 3339.

    Return None for other values, and for a time if the service's clock is not known.
    """
    number = _number(value)
    if number is not None and number < _MOMENT_S:
        return number
    moment_s = _rfc3339_s(value) if number is None else number
    if moment_s is None:
        return parse_seconds(value)
    if number is not None and number >= _MOMENT_MS:
        moment_s = number / 1000
    return None if now_s is None else max(0.0, moment_s - now_s)


def _rfc3339_s(text: str) -> float | None:
    try:
        moment = datetime.fromisoformat(text.strip())
        return None if moment.tzinfo is None else moment.timestamp()
    except (ValueError, OverflowError):
        return None


def parse_seconds(text: str) -> float | None:
    """Return the seconds in a duration such as `34.07s` or `6m0s`, or None if it is invalid."""
    span = text.strip()
    match = _SPAN.fullmatch(span)
    return None if match is None else _sum_s(span)


def find_seconds(text: str) -> float | None:
    """Return the seconds to wait that a message states, as in "try again in 4.0s", or None."""
    for again in _AGAIN.finditer(text):
        if span := _SPAN.match(text, again.end()):
            return _sum_s(span[0])
    return None


def _sum_s(span: str) -> float:
    return sum(float(number) * _UNITS_S[unit.lower()] for number, unit in _EACH.findall(span))


def _number(text: str | None) -> float | None:
    digits = (text or "").strip()
    integer, _, part = digits.partition(".")
    if len(digits) > 20 or not (integer.isascii() and integer.isdigit()):
        return None
    return float(digits) if not part or (part.isascii() and part.isdigit()) else None


def parse_http_date_s(text: str | None) -> float | None:
    """Return the Unix time of an HTTP date such as `Sun, 06 Nov 1994 08:49:37 GMT`, or None.

    Of the HTTP date formats, only this one is still in use.
    """
    words = (text or "").replace("-", " ").split()
    if (
        len(words) != 6
        or len(words[3]) != 4
        or words[5] not in ("GMT", "UTC")
        or words[2] not in MONTHS
    ):
        return None
    try:
        hour, minute, second = map(int, words[4].split(":"))
        month = MONTHS.index(words[2]) + 1
        moment = datetime(
            int(words[3]), month, int(words[1]), hour, minute, min(second, 59), tzinfo=UTC
        )
    except (ValueError, OverflowError):  # An invalid day, or a number out of range.
        return None
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()


# Faults of the connection or its data: the next attempt may reach another server.
BROKEN_LINE = frozenset(
    {"connect", "no_server", "connect_timeout", "reset", "stalled", "truncated", "event"}
)
# An intermediary responded in place of the service; this rarely goes away within a second.
IN_THE_WAY = frozenset({"protocol", "content", "proxy"})
# If the response head was received, these failures mean that the stream broke off.
BROKEN_STREAM = frozenset({"reset", "stalled", "truncated", "event"})

# A shorter response is of no use in a turn with tools.
LEAST_AFFORDED = 1_000


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """The limits for retries.

    With `unattended`, 429 and 529 are retried for as long as they last.
    """

    max_attempts: int = 10
    # Whether overloads count as attempts. They do if the user set a number of retries; otherwise
    # only the time limits them.
    counts_overloads: bool = False
    budget_s: float = 600.0
    # No attempt begins with less time than this left in the budget. The silence allowed in a late
    # attempt is limited to the time that is left.
    least_attempt_s: float = 5.0
    base_s: float = 1.0
    factor: float = 2.0
    cap_s: float = 30.0
    # The maximum number of attempts that fail because of an intermediary.
    max_in_the_way: int = 3
    # The maximum number of attempts at a server on this machine that is not running. Unless it is
    # being restarted, only the user can start it.
    max_no_server: int = 3
    # The number of broken streams after which one attempt requests the response without streaming,
    # and the time that this attempt may take.
    streams_before_whole: int = 3
    whole_s: float = 300.0
    # Consecutive overloads before the next model of the chain is used.
    overloads_before_fallback: int = 3
    unattended: bool = False
    unattended_cap_s: float = 300.0
    # Even a run without a time limit asks again after this time: a limit may be lifted early, and a
    # header may name the year 9999.
    unattended_ask_s: float = 21_600.0


class Spent(Struct, frozen=True, kw_only=True):
    """The attempts made for this response. The counts concern the current model."""

    attempts: int = 0
    # Attempts that do not count toward the maximum: overloads and, in an unattended run, all
    # failures that the run waits out. For the latter, the time does not count either.
    uncounted: int = 0
    elapsed_s: float = 0.0
    in_the_way: int = 0
    broken_streams: int = 0
    overloads: int = 0
    asked_whole: bool = False
    shrunk: bool = False
    # The remaining models of the chain.
    fallbacks: tuple[str, ...] = ()


class Again(Struct, frozen=True, kw_only=True):
    """Send the same request after a pause. `whole` requests the response without streaming."""

    delay_s: float
    whole: bool = False


class Shrink(Struct, frozen=True, kw_only=True):
    """Send the same request at once, with a smaller maximum output."""

    request: ModelRequest


class FallBack(Struct, frozen=True, kw_only=True):
    """Send the same request to the next model, after withdrawing the output shown so far."""

    model: str


class CompactFirst(Struct, frozen=True, kw_only=True):
    """The session does not fit; only compaction helps."""

    overflow: Overflow


class GiveUp(Struct, frozen=True, kw_only=True):
    """Make no further attempt.

    `why` is shown to the user. `retry_in_s` is the time after which the service would respond.
    """

    why: str
    retry_in_s: float | None = None


Decision: TypeAlias = Again | Shrink | FallBack | CompactFirst | GiveUp


def count_attempt(spent: Spent, failure: Failure, policy: RetryPolicy) -> Spent:
    """Return `spent` with this failed attempt included."""
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
    failure: Failure, request: ModelRequest, spent: Spent, policy: RetryPolicy, *, random: float
) -> Decision:
    """Decide what to do after a failed attempt.

    `spent` already includes this attempt; `random` is in [0, 1).
    """
    overflow = overflow_of(failure)
    if overflow is not None:
        smaller = None if spent.shrunk else shrink_request(request, overflow)
        return CompactFirst(overflow=overflow) if smaller is None else Shrink(request=smaller)
    fewer = None if spent.shrunk else find_affordable_output(failure)
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
    """Return why no further attempt can help, or None if one may."""
    if (why := why_no_credit(failure)) is not None:
        return why
    if failure.should_retry is not None:
        return None if failure.should_retry else "the API told clew not to retry"
    match failure.kind:
        case "status" | "error_event":
            may = is_unnamed(failure) or find_effective_status(failure) in RETRIED_STATUSES
        case "proxy":
            may = failure.status is None or failure.status >= 500
        case _:
            may = failure.kind in BROKEN_LINE or failure.kind in IN_THE_WAY
    return None if may else "retrying would not help"


def is_waited_out(failure: Failure, policy: RetryPolicy) -> bool:
    return policy.unattended and is_busy(failure)


def is_uncounted(failure: Failure, policy: RetryPolicy) -> bool:
    """Return whether the number of retries after this failure is unlimited."""
    if is_overload(failure):
        return policy.unattended or not policy.counts_overloads
    return is_waited_out(failure, policy)


def find_max_attempts(failure: Failure, policy: RetryPolicy) -> int:
    """Return the maximum number of attempts; a number that the user set always applies."""
    if failure.kind == "no_server" and not policy.counts_overloads:
        return min(policy.max_no_server, policy.max_attempts)
    return policy.max_attempts


def is_in_the_way(failure: Failure) -> bool:
    """Return whether only a few attempts may end with this kind of failure.

    This applies if an intermediary responded in place of the service, or if the cause is unknown.
    """
    return failure.kind in IN_THE_WAY or is_unnamed(failure)


def is_broken_stream(failure: Failure) -> bool:
    return failure.status == 200 and failure.kind in BROKEN_STREAM


def _delay(
    failure: Failure, attempts: int, policy: RetryPolicy, random: float, *, unlimited: bool
) -> float:
    """Return a random delay in a growing interval, at least as long as the service asks for."""
    cap_s = policy.unattended_cap_s if unlimited else policy.cap_s
    exponent = min(attempts - 1, 30)
    span_s = min(cap_s, policy.base_s * policy.factor**exponent)
    said_s = failure.retry_after_s
    if said_s is None:
        return random * span_s
    if unlimited:
        said_s = min(said_s, policy.unattended_ask_s)
    # All clients were given the same time, so each retries at a different moment shortly after it.
    return said_s + random * min(span_s, max(1.0, 0.1 * said_s))


def _end(failure: Failure, spent: Spent, policy: RetryPolicy, delay_s: float) -> GiveUp | None:
    """Return the reason to give up if a limit of the policy is reached, else None."""
    tries = spent.attempts - spent.uncounted
    if tries >= find_max_attempts(failure, policy):
        return GiveUp(why=f"{format_count(tries, 'attempt')} failed")
    if spent.in_the_way >= policy.max_in_the_way and is_in_the_way(failure):
        return GiveUp(why=f"{format_count(spent.in_the_way, 'attempt')} failed in the same way")
    if spent.elapsed_s + delay_s + policy.least_attempt_s <= policy.budget_s:
        return None
    if (asked_s := failure.retry_after_s) is not None:
        return GiveUp(
            why=f"the API requires a wait of {span_in_words(asked_s)}", retry_in_s=asked_s
        )
    return GiveUp(why=f"the time limit of {policy.budget_s:.0f} s is reached")


def span_in_words(seconds: float) -> str:
    """Format a wait for display: `34 s`, `7 min`, `2 h 5 min`, `3 d 4 h`."""
    amount = round(seconds)
    for size, unit, below, part in (
        (86_400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if amount >= size:
            rest = amount % size // below
            return f"{amount // size} {unit} {rest} {part}" if rest else f"{amount // size} {unit}"
    return f"{amount} s"


def _ask_whole(failure: Failure, request: ModelRequest, spent: Spent, policy: RetryPolicy) -> bool:
    return (
        request.stream
        and not spent.asked_whole
        and is_broken_stream(failure)
        and spent.broken_streams >= policy.streams_before_whole
        and spent.elapsed_s + policy.whole_s <= policy.budget_s
    )
