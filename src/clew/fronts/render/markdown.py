"""Render streaming Markdown as rows. Does no I/O.

Finished rows are returned once; the unfinished rest can be rendered as often as needed. It is
rendered as if the text ended there, by the same code on a copy of the open state. The final output
therefore matches what was visible before, no matter how the text was split.

Decision: docs/decisions/180-terminal-screen.md
"""

from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import assert_never

from clew.core.markdown import highlighting, inline
from clew.core.markdown.blocks import Blocks, Container, Leaf, Path, cells_of, replace_box
from clew.core.markdown.highlighting import find_lexer, read_language
from clew.fronts.render.code import Colors
from clew.fronts.render.inline import parse_spans
from clew.fronts.render.rows import (
    Row,
    Span,
    Wrap,
    chop_spans,
    count_cells,
    escape_controls,
    strip_row,
    take_cells,
    width_of,
    wrap_spans,
)
from clew.fronts.render.theme import Look, Theme

# A table with columns that fit the width.


# The number of rows that determine the column widths.
MEASURED_ROWS = 60
COLUMN_LEAST = 6
_BETWEEN = " │ "


class Table:
    __slots__ = ("_columns", "_head", "_links", "_rows", "_theme", "_width", "_widths")

    def __init__(self, leaf: Leaf, theme: Theme, width: int, *, links: bool) -> None:
        self._columns = leaf.columns
        self._theme = theme
        self._width = width
        self._links = links
        self._rows: list[list[Row]] = []
        # The column widths once they are fixed; empty if the columns do not fit.
        self._widths: list[int] | None = None
        self._head = self._read(leaf.info, theme["table_head"])

    def copy(self) -> "Table":
        twin = object.__new__(Table)
        for name in self.__slots__:
            setattr(twin, name, getattr(self, name))
        twin._rows = self._rows[:]
        return twin

    def add(self, row: str) -> Iterator[Row]:
        self._rows.append(self._read(row))
        if self._widths is not None or len(self._rows) >= MEASURED_ROWS:
            yield from self.end()

    def end(self, last: int | None = None) -> Iterator[Row]:
        """Yield the table rows that were held back to measure the columns.

        If `last` is given, yield only that many of the table's last rows.
        """
        if self._widths is None:
            self._widths = self._measured()
            if self._widths and (last is None or len(self._rows) < last):
                yield from self._set(self._head, self._widths)
                rule = "─┼─".join("─" * width for width in self._widths)
                yield [Span(rule, self._theme["rule"])]
        rows, self._rows = self._rows, []
        for row in rows if last is None else rows[-last:]:
            yield from self._set(row, self._widths) if self._widths else self._listed(row)

    def _read(self, row: str, style: str = "") -> list[Row]:
        """Parse a row into as many cells as the header has."""
        wide = len(self._columns)
        texts = (cells_of(row) + [""] * wide)[:wide]
        return [parse_spans(cell, self._theme, links=self._links, style=style) for cell in texts]

    def _measured(self) -> list[int]:
        """Return the column widths, with the widest columns narrowed until the table fits.

        Return an empty list if the columns cannot fit.
        """
        rows = [self._head, *self._rows]
        wants = [max(1, *(_widest(row[i]) for row in rows)) for i in range(len(self._columns))]
        room = self._width - len(_BETWEEN) * (len(wants) - 1)
        if room < sum(min(want, COLUMN_LEAST) for want in wants):
            return []
        most = max(wants)
        if sum(wants) > room:
            low, high = 1, most
            while low < high:
                most = (low + high + 1) // 2
                fits = sum(min(want, most) for want in wants) <= room
                low, high = (most, high) if fits else (low, most - 1)
            most = low
        return [min(want, most) for want in wants]

    def _set(self, row: list[Row], widths: list[int]) -> Iterator[Row]:
        columns = [list(wrap_spans(cell, width)) for cell, width in zip(row, widths, strict=True)]
        for i in range(max(map(len, columns))):
            line: Row = []
            for column, width, stand in zip(columns, widths, self._columns, strict=True):
                if line:
                    line.append(Span(_BETWEEN, self._theme["rule"]))
                line += _stood(column[i] if i < len(column) else [], width, stand)
            yield strip_row(line)

    def _listed(self, row: list[Row]) -> Iterator[Row]:
        for head, cell in zip(self._head, row, strict=True):
            yield from wrap_spans([*head, Span(": "), *cell], self._width)
        yield [Span("─" * min(8, self._width), self._theme["rule"])]


def _widest(cell: Row) -> int:
    text = "".join(span.text for span in cell)
    return max(map(count_cells, text.split("\n")))


def _stood(cell: Row, width: int, stand: str) -> Row:
    room = width - width_of(cell)
    before = {"right": room, "center": room // 2}.get(stand, 0)
    return [Span(" " * before), *cell, Span(" " * (room - before))]


CODE_INDENT = "  "
RULE_CELLS = 40
# Leaves that may use the whole width, unlike prose.
_WIDE = frozenset({"code", "table", "html"})
# The minimum width for text in deeply nested quotes and lists.
WIDTH_LEAST = 12
_BULLETS = "•◦▪"
_BOXES = ("☐ ", "☑ ")


def get_ready() -> None:
    """Load the Markdown parser and the lexers.

    Loading takes 0.1 seconds, a delay that would be visible during a response.
    """
    inline.get_ready()
    highlighting.get_ready()


class Markdown:
    """The Markdown renderer. `feed` takes text as it arrives and returns the finished rows."""

    def __init__(
        self, theme: Theme, width: int, *, links: bool = False, prose_cells: int = 0
    ) -> None:
        """Create a renderer; `prose_cells` limits the width of prose if it is not 0."""
        self._painter = _Painter(theme, width, prose_cells, links=links)
        self._blocks = Blocks(self._painter)
        # The last rendered tail, with its width and number of rows, until more text arrives.
        self._peeked: tuple[int, int, list[Row]] | None = None

    def feed(self, text: str) -> list[Row]:
        self._peeked = None
        self._blocks.feed(text)
        return self._painter.taken()

    def finish(self) -> list[Row]:
        self._peeked = None
        self._blocks.finish()
        return self._painter.taken()

    def tail(self, width: int, rows: int) -> list[Row]:
        """Return the last rows of the unfinished part, rendered as if the text ended here."""
        if self._peeked is None or self._peeked[:2] != (width, rows):
            painter = self._painter.copy(width, rows)
            self._blocks.copy(painter).finish()
            self._peeked = width, rows, painter.taken()[-rows:] if rows > 0 else []
        return self._peeked[2]

    def resize(self, width: int) -> None:
        """Use a new width for later rows."""
        self._painter.resize(width)


def make_markdown(look: Look, width: int | None = None) -> Markdown:
    """Return a renderer for a look; `width`, if given, overrides the look's width."""
    return Markdown(
        look.theme,
        look.width if width is None else width,
        links=look.abilities.links,
        prose_cells=look.prose_cells,
    )


class _Painter:
    """Receives the output of the block parser and paints one leaf block at a time.

    The rows of a leaf start with the marks of its containers, such as list bullets.
    """

    def __init__(self, theme: Theme, width: int, prose_cells: int, *, links: bool) -> None:
        self._theme = theme
        self._width = width
        self._prose_cells = prose_cells
        self._links = links
        self._rows: list[Row] = []
        # Whether a row has been painted, and the serial number of the newest container whose mark
        # has been painted.
        self._has_begun = False
        self._shown = 0
        self._before: Leaf | None = None
        self._leaf: Leaf | None = None
        self._is_first = True
        # The box of a task, until it is painted.
        self._box = ""
        # The painter that the current leaf needs.
        self._wrap = Wrap(width)
        self._colors: Colors | None = None
        self._table: Table | None = None
        # The incomplete row of a very long code line.
        self._open: Row = []
        # The number of last rows wanted; None for all.
        self._last: int | None = None

    def copy(self, width: int, last: int) -> "_Painter":
        """Return a painter that continues from this state; only its last rows will be used."""
        twin = _Painter(self._theme, self._width, self._prose_cells, links=self._links)
        for name in ("_has_begun", "_shown", "_before", "_leaf", "_is_first", "_box"):
            setattr(twin, name, getattr(self, name))
        twin._wrap = self._wrap.copy()
        twin._colors = self._colors.copy() if self._colors else None
        twin._table = self._table.copy() if self._table else None
        twin._open, twin._last = self._open, last
        if width != self._width:
            twin.resize(width)
        return twin

    def resize(self, width: int) -> None:
        self._width = width
        if self._leaf is not None:
            self._wrap.width = self._room

    def taken(self) -> list[Row]:
        rows, self._rows = self._rows, []
        return rows

    # -- events of the block parser

    def begin(self, leaf: Leaf) -> None:
        if self._has_begun and self._is_apart(leaf):
            self._rows.append(strip_row(self._margin(_shared(self._before, leaf))))
        self._has_begun = True
        self._leaf, self._is_first, self._box = leaf, True, ""
        self._wrap = Wrap(self._room)
        match leaf.kind:
            case "code":
                name = read_language(leaf.info)
                self._colors = Colors(find_lexer(name) if name else None, self._theme)
            case "table":
                self._table = Table(leaf, self._theme, self._room, links=self._links)
            case "rule":
                cells = min(RULE_CELLS, self._room)
                self._put([[Span("─" * cells, self._theme["rule"])]])
            case "empty":
                self._put([[]])
            case "paragraph" | "heading" | "html":
                pass
            case _:
                assert_never(leaf.kind)

    def text(self, text: str, *, ends: bool) -> None:
        leaf = self._leaf
        assert leaf is not None
        match leaf.kind:
            case "paragraph":
                self._words(leaf, text)
            case "heading":
                style = self._theme["title" if leaf.level == 1 else "heading"]
                self._put(self._wrap.add(self._spans(text, style)))
            case "html":
                self._put(
                    chop_spans([Span(escape_controls(text), self._theme["quiet"])], self._room)
                )
            case "code":
                assert self._colors is not None
                self._code_line(self._colors, text, ends=ends)
            case _:
                assert self._table is not None
                self._put(self._table.add(text))

    def stand(self) -> None:
        assert self._leaf is not None
        if self._leaf.kind in ("paragraph", "heading"):
            self._put(self._wrap.end())
        if self._colors is not None:
            self._code(self._colors.end())
            self._put(self._code_rows(self._open) if self._open else ())
        if self._table is not None:
            self._put(self._table.end(self._last))
        self._before, self._leaf, self._open = self._leaf, None, []
        self._colors = self._table = None

    # -- painting leaves

    def _words(self, leaf: Leaf, text: str) -> None:
        if self._is_first and not self._wrap.row and leaf.path and leaf.path[-1].is_item:
            text = replace_box(text)
            if text.startswith(_BOXES) and leaf.path[-1].number is None:
                # The box of a task takes the place of the bullet.
                self._box, text = text[:1], text[2:]
        self._put(self._wrap.add(self._spans(text)))

    def _code_line(self, colors: Colors, text: str, *, ends: bool) -> None:
        if ends and not self._open:
            self._code(colors.add(text))
            return
        self._code(colors.end())
        *rows, last = self._code_rows([*self._open, Span(escape_controls(text.expandtabs(4)))])
        # A line that continues is cut where a row is full, not at the end of its part.
        self._open = [] if ends else last[1:]
        self._put([*rows, last] if ends else rows)

    def _code(self, lines: Iterable[list[Span]]) -> None:
        for line in lines:
            self._put(self._code_rows(line))

    def _code_rows(self, line: Row) -> Iterator[Row]:
        indent = CODE_INDENT if self._room > WIDTH_LEAST - len(CODE_INDENT) else ""
        for row in chop_spans(line, self._room - len(indent)):
            yield [Span(indent), *row]

    def _spans(self, text: str, style: str = "") -> list[Span]:
        return parse_spans(text, self._theme, links=self._links, style=style)

    # -- margins

    def _is_apart(self, leaf: Leaf) -> bool:
        """Return whether a blank row separates the leaf from the previous one."""
        if leaf.has_gap:
            return True
        before = self._before
        if before is None or before.path or leaf.path:
            return False
        return leaf.kind in ("heading", "code", "table") or before.kind in ("code", "table")

    def _put(self, rows: Iterable[Row]) -> None:
        leaf = self._leaf
        assert leaf is not None
        for row in rows:
            margin = self._margin(leaf.path, marks=True)
            self._rows.append(strip_row([*margin, *row]))
            self._is_first = False

    @property
    def _room(self) -> int:
        leaf = self._leaf
        assert leaf is not None
        is_prose = self._prose_cells and leaf.kind not in _WIDE
        width = min(self._width, self._prose_cells) if is_prose else self._width
        return max(min(WIDTH_LEAST, width), width - sum(map(_indent, leaf.path)))

    def _margin(self, path: Path, *, marks: bool = False) -> Row:
        """Return the margin to the left of a row; `marks` adds the marks of new list items."""
        margin: Row = []
        depth = 0
        for container in path:
            if not container.is_item:
                margin.append(Span("▎ ", self._theme["quote"]))
                continue
            is_new = marks and container.serial > self._shown
            if is_new:
                self._shown = container.serial
            mark = _mark(container, depth) if is_new else ""
            if is_new and self._box and container is path[-1]:
                mark, self._box = self._box, ""
            margin.append(Span(mark.ljust(_indent(container)), self._theme["marker"]))
            depth += 1
        return take_cells(margin, self._width - WIDTH_LEAST)


def _indent(container: Container) -> int:
    if container.number is None:
        return 2
    return len(str(container.number)) + 2


def _mark(container: Container, depth: int) -> str:
    if container.number is None:
        return _BULLETS[depth % len(_BULLETS)]
    return f"{container.number}{container.mark}"


def _shared(before: Leaf | None, leaf: Leaf) -> Path:
    """Return the containers that both leaves have in common."""
    pairs = zip(before.path if before is not None else (), leaf.path, strict=False)
    return tuple(theirs for theirs, ours in takewhile(lambda pair: pair[0] is pair[1], pairs))
