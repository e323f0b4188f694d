"""Read how long a service asks to be left alone, wherever it writes it.

Owns the forms: `retry-after-ms` and `retry-after` in seconds or as a date, durations such as `1m30s`
(OpenAI's reset headers, Google's `retryDelay`), sentences such as "try again in 4.0s", and the reset
headers of exhausted limits. Where both stand, the more direct one counts: see `refusal`.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# A number of seconds beyond this is a moment since 1970, beyond the next one in milliseconds.
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
_SPAN = re.compile(rf"{_PART}(?:[\s,]{{0,2}}(?:and\s)?{_PART}){{0,4}}", re.I)
_EACH = re.compile(r"(\d{1,9}(?:\.\d{1,12})?)\s{0,2}([a-z]+)", re.I)
_AGAIN = re.compile(r"\b(?:try again|retry)\s+(?:in|after)\s+(?:about\s+|approximately\s+)?", re.I)


def retry_after_s(headers: Mapping[str, str], *, wall_s: float | None) -> float | None:
    """Return the seconds to wait, at least 0; None where no readable header says it.

    A date is taken against the service's own `date`, where it sends one: its clock and ours differ.
    """
    millis = _number(headers.get("retry-after-ms"))
    if millis is not None:
        return millis / 1000
    said = headers.get("retry-after")
    seconds = _number(said)
    if seconds is not None:
        return seconds
    until = http_date_s(said)
    if until is None:
        return seconds_of_text(said or "")
    their_now = http_date_s(headers.get("date"))
    now_s = wall_s if their_now is None else their_now
    return None if now_s is None else max(0.0, until - now_s)


def reset_after_s(headers: Mapping[str, str], *, now_s: float | None) -> float | None:
    """Return the seconds until every exhausted limit is refilled; None where none is exhausted.

    A limit whose headers tell no remainder counts too, unless another one is known to be used up.
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
    """Yield each limit's reset and remainder as its headers say them.

    `x-ratelimit-reset[-KIND]` (OpenAI, Groq, OpenRouter), `anthropic-ratelimit-KIND-reset`.
    """
    for name, said in headers.items():
        if name.startswith("x-ratelimit-reset"):
            yield said, headers.get(name.replace("-reset", "-remaining", 1))
        elif name.startswith("anthropic-ratelimit-") and name.endswith("-reset"):
            yield said, headers.get(f"{name.removesuffix('-reset')}-remaining")


def _until_s(said: str, now_s: float | None) -> float | None:
    """Return the seconds until a reset: a duration, seconds, or a moment as number or RFC 3339."""
    number = _number(said)
    if number is not None and number < _MOMENT_S:
        return number
    moment_s = _rfc3339_s(said) if number is None else number
    if moment_s is None:
        return seconds_of_text(said)
    if number is not None and number >= _MOMENT_MS:
        moment_s = number / 1000
    return None if now_s is None else max(0.0, moment_s - now_s)


def _rfc3339_s(text: str) -> float | None:
    try:
        moment = datetime.fromisoformat(text.strip())
        return None if moment.tzinfo is None else moment.timestamp()
    except (ValueError, OverflowError):
        return None


def seconds_of_text(text: str) -> float | None:
    """Return the seconds of a duration such as `34.07s`, `6m0s` or `20ms`; None for other text."""
    said = text.strip()
    match = _SPAN.fullmatch(said)
    return None if match is None else _sum_s(said)


def seconds_in_words(text: str) -> float | None:
    """Return the wait that a sentence names: "try again in 4.0s", "retry after 12 seconds"."""
    for again in _AGAIN.finditer(text):
        if span := _SPAN.match(text, again.end()):
            return _sum_s(span[0])
    return None


def _sum_s(span: str) -> float:
    return sum(float(number) * _UNITS_S[unit.lower()] for number, unit in _EACH.findall(span))


def _number(text: str | None) -> float | None:
    digits = (text or "").strip()
    whole, _, part = digits.partition(".")
    if len(digits) > 20 or not (whole.isascii() and whole.isdigit()):
        return None
    return float(digits) if not part or (part.isascii() and part.isdigit()) else None


def http_date_s(text: str | None) -> float | None:
    """Return the seconds since 1970 of `Sun, 06 Nov 1994 08:49:37 GMT`, the one form still sent."""
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
    except (ValueError, OverflowError):  # no such day, or a number no date holds
        return None
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()
