"""Decide what follows a response: another request with added text, or the end of the turn.

Has no side effects. Every stop reason has its own branch, and an unknown one ends the turn. The
number of times a turn continues without tools is limited, so that no model can prolong the turn
with empty responses.

Decision: docs/decisions/004-turn-loop.md
"""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from clew.agent.events import EndReason
from clew.core.json_object import Json
from clew.core.messages import factories
from clew.core.messages.text import AFTER_MAX_TOKENS
from clew.core.normalize.repairs import find_media_kinds, find_refused_media
from clew.core.regex import lazy_pattern
from clew.providers.answer_events import GaveUp
from clew.providers.base import Failure
from clew.providers.failure_kinds import find_effective_status, why_no_credit
from clew.system.clock import format_local

# Repeated calls: first the user is asked whether they may continue; later the turn ends.


ASK_AT = 5
END_AT = 15
# How many results of one turn may fail to match the required schema.
MAX_FAILED_ANSWERS = 5


class Repetition:
    """Counts how many times in a row a turn made the same call (same name and input).

    Also remembers the denied calls that a hook then allowed the model to make again, and counts the
    results that did not match the required schema.
    """

    def __init__(self) -> None:
        self._last: tuple[str, Any] | None = None
        self._count = 0
        self._pardoned: list[tuple[str, Any]] = []
        self.failed_answers = 0

    def note(self, block: Json) -> None:
        this = (block["name"], block["input"])
        self._count = self._count + 1 if this == self._last else 1
        self._last = this

    def pardon(self, block: Json) -> None:
        """Remember a denied call that the model may make again."""
        self._pardoned.append((block["name"], block["input"]))

    def take_pardon(self, block: Json) -> bool:
        """Return whether a denied call may be repeated; this is true only once."""
        this = (block["name"], block["input"])
        if this not in self._pardoned:
            return False
        self._pardoned.remove(this)
        return True

    def forgive(self) -> None:
        """Reset the count, because the user approved the call."""
        self._count = 0

    @property
    def question(self) -> str:
        """The reason to ask the user about the repeated call; empty below the limit."""
        if self._count < ASK_AT:
            return ""
        return f"the same call was made {self._count} times in a row"

    @property
    def is_endless(self) -> bool:
        return self._count >= END_AT


# The messages about failed requests, and their transcript entries.


# A later time is not useful advice, and the calendar may not include it.
LONGEST_WAIT_S = 366 * 86_400.0


def describe_api_error(failure: Failure) -> str:
    """Return the text that describes a failure in the transcript."""
    if not failure.status:
        return f"API Error: {failure.message}"
    # Most messages start with the status as well.
    text = failure.message.removeprefix(f"HTTP {failure.status}").removeprefix(":").strip()
    return f"API Error: {failure.status} {text}"


def with_advice(ended: GaveUp, now: str, advice: str) -> str:
    """Return the failure's message, and either when to try again or what to do instead.

    If waiting does not help, the message says why.
    """
    words = describe_api_error(ended.failure)
    wait_s = ended.retry_in_s
    if wait_s is not None and wait_s < LONGEST_WAIT_S:
        until = format_local(datetime.fromisoformat(now).timestamp() + wait_s)
        return f"{words} ({ended.why}: try again at {until})"
    if why_no_credit(ended.failure) is not None:
        return f"{words} ({ended.why})"
    return f"{words.rstrip('.')}. {advice}" if advice else words


# Statuses that reject a request because of its content.
_REJECTED = frozenset({400, 413, 422})


def find_removable_media(failure: Failure, messages: list[Json]) -> list[str]:
    """Return the kinds of media in the request that the service rejected, if any."""
    if find_effective_status(failure) not in _REJECTED:
        return []
    refusal = {"apiErrorStatus": failure.status, "apiErrorType": failure.error_type}
    kinds = find_refused_media(refusal | {"errorDetails": failure.message})
    return sorted(kinds & find_media_kinds(messages)) if kinds else []


def make_failure_entry(
    failure: Failure,
    *,
    uuid: str,
    at: str,
    attempt: int,
    max_attempts: int | None = None,
    delay_s: float | None = None,
    refused_media: Sequence[str] = (),
) -> Json:
    """Return the transcript entry for one failed request; `delay_s` is None if no retry follows.

    The retry and all later requests omit the kinds of media in `refused_media`. The entry is part
    of the chain for readers of the transcript; requests don't include it.
    """
    error: Json = {"message": failure.message, "formatted": describe_api_error(failure)}
    fields = {"status": failure.status, "type": failure.error_type, "requestId": failure.request_id}
    error |= {name: value for name, value in fields.items() if value is not None}
    is_refusal = failure.kind in ("status", "error_event")
    if not is_refusal:
        code, is_tls = failure.kind, failure.kind == "tls"
        error["connection"] = {"code": code, "message": failure.message, "isSSLError": is_tls}
    retry_fields: Json = {"retryAttempt": attempt}
    if delay_s is not None:
        retry_fields["retryInMs"] = round(delay_s * 1000)
    if max_attempts is not None:
        retry_fields["maxRetries"] = max_attempts
    if refused_media:
        retry_fields["refusedMedia"] = list(refused_media)
    return factories.make_system(
        "api_error",
        uuid=uuid,
        at=at,
        level="error",
        error=error,
        source="request_retry" if is_refusal else "connection_retry",
        **retry_fields,
    )


# How often one turn may continue with another request, by cause.
MAX_RECOVERIES = {"max_tokens": 3, "full": 2, "broken_off": 3, "paused": 8, "empty": 1, "hook": 8}

AFTER_BREAK = (
    "The connection broke in the middle of your last response; what is above is what arrived. "
    "Continue from there without repeating it."
)
AFTER_EMPTY = (
    "Your last response was empty. If the work is done, say so in one sentence; otherwise continue."
)

Cause: TypeAlias = Literal[
    "tools", "max_tokens", "full", "broken_off", "paused", "empty", "hook", "budget"
]
# With these causes, the turn makes progress or has another limit, so the recovery counts start
# over.
WORK: frozenset[Cause] = frozenset({"tools", "budget"})


class ResponseSpeed(Struct, frozen=True, kw_only=True):
    """The speed of a response: the time to its first token, and tokens per second."""

    first_ms: float
    tokens_per_s: float


def make_speed_entry(speeds: Sequence[ResponseSpeed], *, uuid: str, at: str) -> Json:
    """Return an entry with the speed of a turn's responses: the medians if there are several."""
    middle = len(speeds) // 2
    return factories.make_system(
        "api_metrics",
        uuid=uuid,
        at=at,
        ttftMs=round(sorted(speed.first_ms for speed in speeds)[middle]),
        otps=round(sorted(speed.tokens_per_s for speed in speeds)[middle], 1),
        isP50=len(speeds) > 1,
        isMeta=True,
    )


class TurnReply(Struct, frozen=True, kw_only=True):
    """The facts about a response and its calls that a transition depends on."""

    ending: str
    is_complete: bool = True
    is_empty: bool = False
    has_results: bool = False
    is_stopped: bool = False  # the user or host denied a call and stopped the turn
    # The reason to ask about a call that was repeated too often; empty if none was.
    repeats: str = ""
    # The reason why a hook ends the session here.
    halt: str | None = None
    # The response gave the result that the run requires, so no further request is needed.
    is_answered: bool = False
    # Too many results of the turn did not match the required schema.
    is_unshaped: bool = False
    # The request failed and was not interrupted, so sending it again does not help.
    is_final: bool = False
    failure: str = ""
    stop_reason: str | None = None
    status: int | None = None
    # The category of the failure, in the terms of hooks and transcripts.
    error: str = "unknown"
    error_type: str | None = None
    speed: ResponseSpeed | None = None


class Continue(Struct, frozen=True, kw_only=True):
    """Another request follows. `words` is sent before it, as a message that only the model sees."""

    cause: Cause
    words: str = ""


class TurnEnd(Struct, frozen=True, kw_only=True):
    reason: EndReason
    message: str = ""


Transition: TypeAlias = Continue | TurnEnd
FULL = TurnEnd(reason="prompt_too_long", message="the model's context window is full")
UNSHAPED = TurnEnd(
    reason="unshaped",
    message="the model returned no result that matches the schema of --json-schema",
)


class Recoveries(Struct, frozen=True, kw_only=True):
    """The number of continuations of this turn by cause, since a tool last ran."""

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


def choose_transition(reply: TurnReply, recoveries: Recoveries) -> Transition:
    """Return the next step of the turn after a response."""
    if reply.is_stopped:
        return TurnEnd(reason="denied_and_stopped")
    if reply.halt is not None:
        return TurnEnd(reason="stopped_by_hook", message=reply.halt)
    if reply.repeats:
        return TurnEnd(reason="loop_stopped", message=f"stopped: {reply.repeats}")
    if reply.is_answered:
        return TurnEnd(reason="completed")
    if reply.is_unshaped:
        return UNSHAPED
    if reply.has_results:
        return Continue(cause="tools")
    if reply.ending == "over_budget":
        return TurnEnd(reason="budget_exhausted", message=reply.failure)
    if reply.is_final:
        full = reply.ending == "cut_by_context"
        return TurnEnd(reason="prompt_too_long" if full else "api_error", message=reply.failure)
    if not reply.is_complete:
        return _unless_spent(
            Continue(cause="broken_off", words=AFTER_BREAK),
            recoveries,
            TurnEnd(reason="api_error", message=reply.failure),
        )
    match reply.ending:
        case "paused":
            return _unless_spent(
                Continue(cause="paused"),
                recoveries,
                TurnEnd(reason="no_answer", message="the model paused too often in one turn"),
            )
        case "cut_by_max_tokens" | "compacted":
            return _unless_spent(
                Continue(cause="max_tokens", words=AFTER_MAX_TOKENS),
                recoveries,
                TurnEnd(reason="api_error", message="the response was cut off at its length limit"),
            )
        case "cut_by_context":
            return _unless_spent(Continue(cause="full", words=AFTER_MAX_TOKENS), recoveries, FULL)
        case "refused":
            return TurnEnd(reason="refused", message="the model refused to answer")
        case "turn" | "tools" if reply.is_empty:
            return _unless_spent(
                Continue(cause="empty", words=AFTER_EMPTY),
                recoveries,
                TurnEnd(reason="completed", message="the model returned an empty response"),
            )
        case "turn" | "tools":
            return TurnEnd(reason="completed")
        case _:
            return TurnEnd(
                reason="completed", message="the response ended with an unknown stop reason"
            )


def _unless_spent(onward: Continue, recoveries: Recoveries, otherwise: TurnEnd) -> Transition:
    return onward if recoveries.has_left(onward.cause) else otherwise


# `+500k` in a prompt: the model should use that many tokens, and continues if it stops early.


# At the start or the end of a prompt, where it can't be part of a calculation.
WISH = lazy_pattern(
    r"\A\s*\+(\d{1,4}(?:\.\d{1,3})?)([km])(?=\s|\Z)|(?<=\s)\+(\d{1,4}(?:\.\d{1,3})?)([km])\s*\Z",
    re.I,
)
UNITS = {"k": 1_000, "m": 1_000_000}

# From this fraction of the goal on, another round would probably exceed it.
ENOUGH = 0.9
FEW_TOKENS = 500
FEW_TIMES = 2
GO_ON = (
    "You have used {used:,} of the {wished:,} tokens set aside for this ({part}%). Keep "
    "working: find what is unfinished, unchecked or could be better, and continue. Don't "
    "summarize. If nothing is left, say so in one sentence."
)


def read_wished_tokens(prompt: str) -> int | None:
    """Return the number of tokens that a prompt asks the model to use (`+500k`), or None."""
    match = WISH.search(prompt)
    if match is None:
        return None
    number, unit = (match[1], match[2]) if match[1] else (match[3], match[4])
    return round(float(number) * UNITS[unit.lower()]) or None


class TokenBudget:
    """The number of tokens that a turn should use, and how many it had used at its last check."""

    def __init__(self, wished: int) -> None:
        self._wished = wished
        self._used = 0
        self._short = 0

    def onward(self, step: Transition, used: int) -> Transition:
        """Return the step, or another request if the model would end with much budget left."""
        if not (isinstance(step, TurnEnd) and step.reason == "completed"):
            return step
        self._short = self._short + 1 if used - self._used < FEW_TOKENS else 0
        self._used = used
        if used >= self._wished * ENOUGH or self._short >= FEW_TIMES:
            return step
        part = used * 100 // self._wished
        return Continue(
            cause="budget", words=GO_ON.format(used=used, wished=self._wished, part=part)
        )
