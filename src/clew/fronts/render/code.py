"""Render code as rows in the colors of a theme. Does no I/O."""

from typing import TYPE_CHECKING

from clew.core.markdown.highlighting import Highlighter, NamedLine
from clew.fronts.render.rows import Span, escape_controls
from clew.fronts.render.theme import Theme

if TYPE_CHECKING:
    from pygments.lexer import Lexer


class Colors:
    """The highlighter of one code block. Its methods return, as spans, the lines that are ready."""

    __slots__ = ("_highlighter", "_theme")

    def __init__(self, lexer: "Lexer | None", theme: Theme) -> None:
        self._highlighter = Highlighter(lexer)
        self._theme = theme

    def copy(self) -> "Colors":
        twin = Colors(None, self._theme)
        twin._highlighter = self._highlighter.copy()
        return twin

    def add(self, line: str) -> list[list[Span]]:
        return self._painted(self._highlighter.add(escape_controls(line.expandtabs(4))))

    def line(self, line: str) -> list[Span]:
        """Highlight a line and return it at once, without waiting for the next line."""
        rows = [*self.add(line), *self.end()]
        return rows[0] if rows else []

    def end(self) -> list[list[Span]]:
        return self._painted(self._highlighter.end())

    def _painted(self, lines: list[NamedLine]) -> list[list[Span]]:
        return [[Span(text, self._theme[name]) for name, text in line] for line in lines]
