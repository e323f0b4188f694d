"""Spans of time as people write them: `90s`, `5m`, `2h`, `1d`, `1h30m`. Pure."""

import re

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
SPAN = re.compile(r"(?:\d{1,6}[smhd])+", re.I)
PIECE = re.compile(r"(\d+)([smhd])", re.I)


def seconds(text: str) -> int | None:
    """The seconds of a span; None for what is none."""
    if not SPAN.fullmatch(text):
        return None
    return sum(int(count) * SECONDS[unit.lower()] for count, unit in PIECE.findall(text))


def span(count: int) -> str:
    """Seconds as a span."""
    said = ""
    for unit, length in reversed(SECONDS.items()):
        whole, count = divmod(count, length)
        said += f"{whole}{unit}" if whole else ""
    return said or "0s"
