"""Plain tables and bars for a terminal: the first column to the left, numbers to the right."""

from collections.abc import Iterator, Sequence
from decimal import Decimal

_EIGHTHS = " ▏▎▍▌▋▊▉"


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows of equal length as lines; the first and the last column stand to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    last = len(widths) - 1
    for row in rows:
        cells = (
            cell.ljust(width) if place in (0, last) else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()


def bar(amount: Decimal | int, most: Decimal | int, width: int) -> str:
    """A bar of at most `width` characters; anything above nothing is seen."""
    if not most or amount <= 0:
        return ""
    eighths = max(1, round(amount * width * 8 / most))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
