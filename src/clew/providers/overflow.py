"""What to do when a conversation does not fit a model's window: answer shorter, once, or compact.

Counted tokens are the first source (`room_for_output`); the service's words, a fragile signal, are
read only where it refused a request that was thought to fit.
"""

import re

from msgspec import Struct
from msgspec.structs import replace

from clew.catalog.models import Model
from clew.providers.base import Budget, Failure, Request
from clew.providers.request_body import output_limit

SAFETY_TOKENS = 1_000
MIN_OUTPUT_TOKENS = 3_000
TOO_LARGE_STATUS = 413

_EXCEEDS = re.compile(
    r"input length and `?max_tokens`? exceed context limit:\s*"
    r"([\d,_]+)\s*\+\s*([\d,_]+)\s*>\s*([\d,_]+)",
    re.I,
)
_TOO_LONG = re.compile(r"prompt is too long(?::\s*([\d,_]+) tokens? > ([\d,_]+))?", re.I)
# Chat completions say it in these words.
_MAXIMUM = re.compile(
    r"maximum context length is ([\d,_]+) tokens(?:.{0,200}?(?:resulted in|requested) ([\d,_]+) tokens)?",
    re.I | re.S,
)


class Overflow(Struct, frozen=True, kw_only=True):
    """A request that did not fit: how long its input is and what the window holds, where said."""

    input_tokens: int | None = None
    limit_tokens: int | None = None


def overflow_of(failure: Failure) -> Overflow | None:
    """What a refusal says about a window that was too small; None if it is of another kind."""
    if failure.status == TOO_LARGE_STATUS:
        return Overflow()
    if exceeds := _EXCEEDS.search(failure.message):
        return Overflow(input_tokens=_number(exceeds[1]), limit_tokens=_number(exceeds[3]))
    if too_long := _TOO_LONG.search(failure.message):
        return Overflow(input_tokens=_number(too_long[1]), limit_tokens=_number(too_long[2]))
    if maximum := _MAXIMUM.search(failure.message):
        return Overflow(input_tokens=_number(maximum[2]), limit_tokens=_number(maximum[1]))
    return None


def room_for_output(input_tokens: int, limit_tokens: int) -> int | None:
    """How long the answer may become; None where too little is left and only compaction helps.

    A small window holds a conversation too: what an answer needs of it is a part.
    """
    room = limit_tokens - input_tokens - min(SAFETY_TOKENS, limit_tokens // 20)
    return room if room >= min(MIN_OUTPUT_TOKENS, limit_tokens // 8) else None


def fitted(request: Request, model: Model) -> Request | Overflow:
    """The request as far as its counted input leaves room for an answer, or why it leaves none."""
    counted, window = request.input_tokens, model.context_window
    if counted is None or window is None:
        return request
    room = room_for_output(counted, window)
    if room is None:
        return Overflow(input_tokens=counted, limit_tokens=window)
    return request if output_limit(request, model) <= room else with_output(request, room)


def shrunk(request: Request, overflow: Overflow) -> Request | None:
    """The request with room for what fits, its thinking below that; None if compaction is due."""
    if overflow.input_tokens is None or overflow.limit_tokens is None:
        return None
    room = room_for_output(overflow.input_tokens, overflow.limit_tokens)
    return None if room is None else with_output(request, room)


def with_output(request: Request, max_tokens: int) -> Request:
    """The request with another `max_tokens`, and a thinking budget that stays below it."""
    thinking = request.thinking
    if isinstance(thinking, Budget) and thinking.tokens >= max_tokens:
        thinking = replace(thinking, tokens=max_tokens - 1)
    return replace(request, max_tokens=max_tokens, thinking=thinking)


def _number(text: str | None) -> int | None:
    digits = (text or "").replace(",", "").replace("_", "")
    return int(digits[:15]) if digits else None
