"""Words as a terminal is told them on which nothing is drawn: lines end between words. Pure.

Of a stream each word is told as soon as it is whole. One that is longer than a line is left to the
terminal, which knows when it is copied that it is one.
"""

from clew.tui.render.rows import Row, Span, Wrap, cells, hanging


def at_words(text: str, columns: int) -> str:
    """The lines of a text, those that are too long in several; `columns`: 0 of what has no width."""
    if not columns:
        return text
    rows: list[str] = []
    for each in text.split("\n"):
        if cells(each) <= columns:
            rows.append(each)
            continue
        for row in hanging(each, "", columns, breaks=False):
            rows.append("".join(span.text for span in row))
    return "\n".join(rows)


class Flow:
    """`feed` says what may be written of what came, `close` what was still waited with."""

    def __init__(self, columns: int) -> None:
        """`columns`: 0 of what has no width; nothing is waited with there."""
        self._columns = columns
        self._wrap = Wrap(columns, breaks=False)
        self._written = 0

    def feed(self, text: str) -> str:
        if not self._columns:
            return text
        full = [f"{self._rest(row, 0)}\n" for row in self._wrap.add([Span(text)])]
        now = self._wrap.row
        return "".join(full) + self._rest(now, sum(len(span.text) for span in now))

    def close(self) -> str:
        return "\n".join(self._rest(row, 0) for row in self._wrap.end()) if self._columns else ""

    def _rest(self, row: Row, written: int) -> str:
        """What of a row was not written yet; `written` is how much was, of the next that is asked about."""
        text = "".join(span.text for span in row)[self._written :]
        self._written = written
        return text
