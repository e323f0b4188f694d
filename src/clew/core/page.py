"""Pages: the common layout of commands that report figures, such as `/context` and `/cost`.

A page has a title, groups of rows with right-aligned figures and bars, and a line of keys. The
terminal paints the parts of each line in its theme; all other output uses `format_page`. This
module does not depend on either: it returns pieces of text with the names of their styles. It does
no I/O.
"""

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import TypeAlias

from msgspec import Struct

# A piece of a line, and the part of a theme that styles it.
Piece: TypeAlias = tuple[str, str]

WIDTH = 100
BAR_CELLS = 20
LABEL_CELLS = 40
INDENT = "  "
_EIGHTHS = " ▏▎▍▌▋▊▉"


class PageRow(Struct, frozen=True, kw_only=True):
    """One row: a label, figures, a bar that is filled to `share` (0 to 1), and a note."""

    label: str
    cells: tuple[str, ...] = ()
    share: float | None = None
    note: str = ""


class PageGroup(Struct, frozen=True, kw_only=True):
    """Rows under a heading; `columns` names the figures."""

    rows: tuple[PageRow, ...]
    title: str = ""
    columns: tuple[str, ...] = ()


class ReportPage(Struct, frozen=True, kw_only=True):
    """The content of a page. `summary` follows the title; `hints` list the next steps."""

    title: str
    groups: tuple[PageGroup, ...] = ()
    summary: str = ""
    hints: tuple[str, ...] = ()


def draw_bar(amount: Decimal | float, most: Decimal | float, cells: int) -> str:
    """Return a bar of at most `cells` characters. Even a small positive amount is visible."""
    if not most or amount <= 0:
        return ""
    eighths = max(1, min(cells * 8, round(float(amount) * cells * 8 / float(most))))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def format_share(amount: float, total: float) -> str:
    """Return a percentage; a positive amount is never shown as 0 %."""
    percent = amount * 100 / total if total else 0.0
    return "<0.1%" if 0 < percent < 0.05 else f"{percent:.1f}%"


def pairs(rows: Iterable[tuple[str, str]], title: str = "") -> PageGroup:
    """Return a group in which each row has a label and a note."""
    return PageGroup(title=title, rows=tuple(PageRow(label=name, note=text) for name, text in rows))


def format_page(page: ReportPage, *, has_bars: bool = False) -> str:
    """Return the page as plain text, by default without bars, because the figures say the same."""
    lines = lay_out(page, WIDTH, has_bars=has_bars)
    return "\n".join("".join(text for text, _ in line).rstrip() for line in lines)


def lay_out(page: ReportPage, width: int, *, has_bars: bool = True) -> Iterator[list[Piece]]:
    """Yield the lines of a page.

    The last piece of a line may be too long; the caller must then wrap it.
    """
    yield [(page.title, "heading"), (f"  {page.summary}" if page.summary else "", "quiet")]
    rows = [row for group in page.groups if not group.columns for row in group.rows]
    common = max((_cells(row.label) for row in rows if row.note or row.cells), default=0)
    for group in page.groups:
        yield []
        if group.title and not group.columns:
            yield [(group.title, "strong")]
        yield from _group(group, common, width, has_bars=has_bars)
    if page.hints:
        yield []
        yield [(" · ".join(page.hints), "quiet")]


def _group(group: PageGroup, common: int, width: int, *, has_bars: bool) -> Iterator[list[Piece]]:
    """Yield the lines of a group. In groups without figures, labels are `common` cells wide."""
    rows = [*group.rows, PageRow(label=group.title, cells=group.columns)]
    own = max([len(group.title) - len(INDENT), *(_cells(row.label) for row in group.rows)])
    label_cells = min(own if group.columns else common, LABEL_CELLS, max(8, width // 2))
    sizes = [
        max(_cells(row.cells[place]) for row in rows if place < len(row.cells))
        for place in range(max(len(row.cells) for row in rows))
    ]
    used = len(INDENT) + label_cells + sum(size + 2 for size in sizes)
    has_bars = has_bars and used + 2 + BAR_CELLS <= width
    if group.columns:
        title = _padded(group.title, label_cells + len(INDENT))
        yield [(title, "strong"), (_figures(group.columns, sizes), "quiet")]
    for row in group.rows:
        label = f"{INDENT}{_padded(row.label, label_cells)}"
        if _cells(row.label) > label_cells and (row.cells or row.note):
            yield [(f"{INDENT}{row.label}", "")]
            label = " " * (len(INDENT) + label_cells)
        line = [(label, ""), (_figures(row.cells, sizes), "")]
        if has_bars and row.share is not None:
            bar = draw_bar(row.share, 1, BAR_CELLS)
            line += [(f"  {bar}", "marker"), ("░" * (BAR_CELLS - len(bar)), "rule")]
        gap = "  " if row.note else ""
        yield [*line, (gap, ""), (row.note, "quiet" if row.cells else "")]


def _figures(cells: Sequence[str], sizes: Sequence[int]) -> str:
    return "".join(
        f"  {' ' * (size - _cells(cell))}{cell}" for cell, size in zip(cells, sizes, strict=False)
    )


def _padded(text: str, cells: int) -> str:
    return f"{text}{' ' * max(0, cells - _cells(text))}"


def _cells(text: str) -> int:
    if text.isascii():
        return len(text)
    from wcwidth import wcswidth

    return max(0, wcswidth(text))
