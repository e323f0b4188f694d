"""A table in columns that fit. Pure.

The widths are those of the first rows; a table that goes on keeps them, so that what was shown can
stay. Where columns would be too narrow to read, each row is a list of its cells by name.
"""

from collections.abc import Iterator

from clew.tui.render.blocks import Leaf, cells_of
from clew.tui.render.inline import spans
from clew.tui.render.rows import Row, Span, bare, cells, width_of, wrapped
from clew.tui.render.theme import Theme

# So many rows say how wide the columns are.
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
        # Of the columns, once they are fixed; nothing where they do not fit.
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
        """The rows that are still held; of many only the last ones, where that is enough."""
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
        """The cells of a row, as many as the head has."""
        wide = len(self._columns)
        said = (cells_of(row) + [""] * wide)[:wide]
        return [spans(cell, self._theme, links=self._links, style=style) for cell in said]

    def _measured(self) -> list[int]:
        """Each column as wide as it wants to be, the widest narrowed until all of them fit."""
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
        columns = [list(wrapped(cell, width)) for cell, width in zip(row, widths, strict=True)]
        for i in range(max(map(len, columns))):
            line: Row = []
            for column, width, stand in zip(columns, widths, self._columns, strict=True):
                if line:
                    line.append(Span(_BETWEEN, self._theme["rule"]))
                line += _stood(column[i] if i < len(column) else [], width, stand)
            yield bare(line)

    def _listed(self, row: list[Row]) -> Iterator[Row]:
        for head, cell in zip(self._head, row, strict=True):
            yield from wrapped([*head, Span(": "), *cell], self._width)
        yield [Span("─" * min(8, self._width), self._theme["rule"])]


def _widest(cell: Row) -> int:
    text = "".join(span.text for span in cell)
    return max(map(cells, text.split("\n")))


def _stood(cell: Row, width: int, stand: str) -> Row:
    room = width - width_of(cell)
    before = {"right": room, "center": room // 2}.get(stand, 0)
    return [Span(" " * before), *cell, Span(" " * (room - before))]
