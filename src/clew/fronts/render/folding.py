"""Collapsed output: part of a long output is shown, and all of it is kept under a number.

Only the first and last lines of a long output are painted and shown. Does no I/O.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeAlias

from clew.core.messages.text import format_count
from clew.fronts.render.rows import Row, Span, chop_spans, escape_controls, join_lines, wrap_spans
from clew.fronts.render.theme import Look

HEAD_LINES, TAIL_LINES = 5, 4
# The most rows that one line of collapsed output takes.
LINE_ROWS = 3
# The number of collapsed outputs to keep; the transcript contains older ones in full.
KEPT = 200

# The most rows of a diff or a plan, which have their own colors.
CUT_ROWS = 40

# The rows beyond a cut that are counted.
COUNTED_ROWS = 500

# Paints something in full, in rows of the given width.
Whole: TypeAlias = Callable[[int], Iterable[Row]]


class Folds:
    """The collapsed outputs, oldest first, each with a number and a title."""

    def __init__(self, hint: str) -> None:
        self._hint = hint
        self._number = 0
        self._kept: dict[int, tuple[str, Whole]] = {}

    @property
    def names(self) -> list[str]:
        return [f"{number} {title}" for number, (title, _) in self._kept.items()]

    def get(self, name: str) -> Whole | None:
        number = name.split(" ", 1)[0]
        fold = self._kept.get(int(number)) if number.isdecimal() else None
        return None if fold is None else fold[1]

    def keep(self, title: str, render: Whole) -> str:
        """Store a collapsed output; return a hint on how to expand it.

        The hint is empty if the user has no way to expand output.
        """
        self._number += 1
        self._kept[self._number] = join_lines(title), render
        if len(self._kept) > KEPT:
            del self._kept[next(iter(self._kept))]
        if not self._hint:
            return ""
        is_command = self._hint.startswith("/")
        hint = f"{self._hint} {self._number}" if is_command else self._hint
        return f" ({hint} to expand)"


# Escape sequences that programs print for a terminal: colors, cursor movement, titles.
_SEQUENCES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")


def lines_of(text: str) -> list[str]:
    """Return the lines as a terminal would finally show them.

    Escape sequences and overwritten text are removed.
    """
    if not text:
        return []
    if "\x1b" in text:
        text = _SEQUENCES.sub("", text)
    lines = text.removesuffix("\n").split("\n")
    return (
        [line.removesuffix("\r").rpartition("\r")[2] for line in lines] if "\r" in text else lines
    )


def fold_text(
    text: str,
    title: str,
    look: Look,
    folds: Folds,
    *,
    part: str = "quiet",
    ends: tuple[int, int] = (HEAD_LINES, TAIL_LINES),
) -> Iterator[Row]:
    """Yield the rows of an output.

    A short output is shown in full. If an output is long, only its first and last lines are shown,
    with the number of lines between them. `ends` is the number of first and of last lines.
    """
    head, tail = ends
    lines = lines_of(text)
    style, width = look.theme[part], look.width

    def whole(width: int) -> Iterator[Row]:
        for line in lines:
            yield from _rows(line, width, style)

    if look.is_verbose:
        yield from whole(width)
        return
    between = len(lines) - head - tail
    if between <= 1:
        rows_by_line = [_rows(line, width, style, LINE_ROWS + 1) for line in lines]
        yield from (row for line_rows in rows_by_line for row in line_rows[:LINE_ROWS])
        what = (
            "long lines cut"
            if any(len(line_rows) > LINE_ROWS for line_rows in rows_by_line)
            else ""
        )
    else:
        yield from (r for line in lines[:head] for r in _rows(line, width, style, LINE_ROWS))
        what = format_count(between, "more line")
    if what:
        yield from wrap_spans(
            [Span(f"… {what}{folds.keep(title, whole)}", look.theme["quiet"])], width
        )
    if between > 1:
        yield from (r for line in lines[-tail:] for r in _rows(line, width, style, LINE_ROWS))


def cut(
    rows: Iterable[Row],
    title: str,
    render: Whole,
    look: Look,
    folds: Folds,
    most: int = CUT_ROWS,
) -> Iterator[Row]:
    """Yield the first of the given rows, which are painted on demand, and a hint if more follow.

    The hint says how many rows follow, up to a number that can be painted quickly.
    """
    rows = iter(rows)
    yield from rows if look.is_verbose else islice(rows, most)
    left = sum(1 for _ in islice(rows, COUNTED_ROWS))
    if left:
        count = f"+{left}" if left < COUNTED_ROWS else f"more than {left}"
        words = f"… {count} {'line' if left == 1 else 'lines'}"
        note = Span(f"{words}{folds.keep(title, render)}", look.theme["quiet"])
        yield from wrap_spans([note], look.width)


def _rows(text: str, width: int, style: str, most: int = 0) -> list[Row]:
    """Return the rows of one output line; with `most`, paint at most that many rows."""
    if most:
        text = text[: most * width + 1]
    rows = list(chop_spans([Span(escape_controls(text.expandtabs(8)), style)], width))
    return rows[:most] if most else rows
