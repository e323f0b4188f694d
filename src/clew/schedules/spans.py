"""Spans of time as people write them: `90s`, `5m`, `2h`, `1d`, `1h30m`. Pure."""

import re

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
SPAN = re.compile(r"(?:[0-9]+[smhd])+", re.I)
# Longer than anything lasts here; what is added to a moment stays a moment.
MOST_S = 3650 * 86400
MOST_DIGITS = 12
PIECE = re.compile(r"([0-9]+)([smhd])", re.I)


def seconds(text: str) -> int | None:
    """The seconds of a span; None for what is none."""
    if not SPAN.fullmatch(text):
        return None
    pieces = PIECE.findall(text)
    if any(len(count) > MOST_DIGITS for count, _ in pieces):
        return MOST_S
    return min(sum(int(count) * SECONDS[unit.lower()] for count, unit in pieces), MOST_S)


def span(count: int) -> str:
    """Seconds as a span."""
    said = ""
    for unit, length in reversed(SECONDS.items()):
        whole, count = divmod(count, length)
        said += f"{whole}{unit}" if whole else ""
    return said or "0s"
