"""How long a service asks to be left alone, from its headers: seconds, milliseconds or a date."""

from collections.abc import Mapping
from datetime import UTC, datetime

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def retry_after_s(headers: Mapping[str, str], *, wall_s: float) -> float | None:
    """Seconds to wait, at least 0; None where nothing readable is said.

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
        return None
    their_now = http_date_s(headers.get("date"))
    return max(0.0, until - (wall_s if their_now is None else their_now))


def _number(text: str | None) -> float | None:
    digits = (text or "").strip()
    whole, _, part = digits.partition(".")
    if len(digits) > 12 or not (whole.isascii() and whole.isdigit()):
        return None
    return float(digits) if not part or (part.isascii() and part.isdigit()) else None


def http_date_s(text: str | None) -> float | None:
    """Seconds since 1970 of `Sun, 06 Nov 1994 08:49:37 GMT`, the one form still sent."""
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
