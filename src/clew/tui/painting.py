"""The lines at the bottom of the terminal that change, and the characters that change them.

Owns what stands there now. Everything above is the terminal's own scrollback: what goes up there is
written once and never touched again, so nothing is drawn twice and nothing is lost. Writes nothing
itself; lines are text with colours, none wider than the terminal.

Decision: docs/decisions/180-terminal-screen.md
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from clew.tui.render.rows import RESET, cells

BEGIN_UPDATE, END_UPDATE = "\x1b[?2026h", "\x1b[?2026l"
HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"
# A line that is wider after all is cut at the edge: wrapped, it would shift all that follows.
NO_WRAP, WRAP = "\x1b[?7l", "\x1b[?7h"
# Colours, and links with their addresses.
UNSEEN = re.compile(r"\x1b\[[0-9;:]*m|\x1b\]8;[^\x1b\x07]*(?:\x1b\\|\x07)")


class Scene(Struct, frozen=True, kw_only=True):
    """What should stand at the bottom. `cursor`: its line and column there; None hides it."""

    lines: Sequence[str]
    cursor: tuple[int, int] | None = None


EMPTY = Scene(lines=())


class Painter:
    """`is_synchronised`: whether the terminal shows an update as a whole, once told where it ends."""

    def __init__(self) -> None:
        self.is_synchronised = False
        self._now: Scene = EMPTY
        self._row = 0

    @property
    def height(self) -> int:
        return len(self._now.lines)

    def paint(self, scene: Scene, above: Sequence[str] = ()) -> str:
        """The characters that lead to `scene`, with finished lines put above it; none, if it stands."""
        if not above and scene == self._now:
            return ""
        parts = [self._whole(scene, above)] if above else self._changes(scene)
        parts += self._place(scene.cursor)
        self._now = scene
        text = "".join(parts)
        return f"{BEGIN_UPDATE}{text}{END_UPDATE}" if self.is_synchronised else text

    def erase(self) -> str:
        """Leaves the place empty, the cursor where it began."""
        text = f"{self._to_row(0)}{_wiped(self.height)}{SHOW}"
        self.forget()
        return text

    def forget(self) -> None:
        """Somebody else wrote on the terminal: nothing of what stood there can be counted on."""
        self._now, self._row = EMPTY, 0

    def rewrapped(self, columns: int) -> str:
        """Erases what stood there after the terminal became narrower and broke its lines anew."""
        heights = [max(1, -(-cells(UNSEEN.sub("", one)) // columns)) for one in self._now.lines]
        self._row = sum(heights[: self._row])
        if self._now.cursor is not None:
            self._row += self._now.cursor[1] // columns
        text = f"{self._to_row(0)}{_wiped(sum(heights))}{SHOW}"
        self.forget()
        return text

    def _whole(self, scene: Scene, above: Sequence[str]) -> str:
        """Everything anew, further down."""
        begin = f"{HIDE}{self._to_row(0)}\r"
        said = "".join(f"\x1b[K{_closed(line)}\r\n" for line in above)
        drawn = "\r\n".join(f"\x1b[K{_closed(line)}" for line in scene.lines)
        left = self.height - len(above) - len(scene.lines)
        rest = _wiped(left)
        if scene.lines and left > 0:
            rest = f"\x1b[1B{rest}\x1b[1A"
        self._row = max(0, len(scene.lines) - 1)
        return f"{begin}{said}{NO_WRAP}{drawn}{rest}{WRAP}"

    def _changes(self, scene: Scene) -> list[str]:
        """The lines that are different, one by one."""
        before, parts = self._now.lines, []
        for row, line in enumerate(scene.lines):
            if row < len(before) and before[row] == line:
                continue
            if row >= len(before) and row:
                parts.append(self._to_row(row - 1) + "\r\n")
                self._row = row
            parts.append(f"{self._to_row(row)}\r\x1b[K{_closed(line)}")
        if len(scene.lines) < len(before):
            parts.append(self._to_row(len(scene.lines)))
            parts.append(_wiped(len(before) - len(scene.lines)))
        return [HIDE, NO_WRAP, *parts, WRAP] if parts else []

    def _place(self, cursor: tuple[int, int] | None) -> list[str]:
        if cursor is None:
            return [HIDE]
        row, column = cursor
        aside = f"\x1b[{column}C" if column else ""
        return [f"{self._to_row(row)}\r{aside}{SHOW}"]

    def _to_row(self, row: int) -> str:
        rows, self._row = row - self._row, row
        if not rows:
            return ""
        return f"\x1b[{rows}B" if rows > 0 else f"\x1b[{-rows}A"


def _wiped(rows: int) -> str:
    """Empties so many rows from the cursor on. Row by row: told to erase all that is below the top of
    the screen, some terminals keep it in their scrollback first."""
    return "\r\x1b7\x1b[K" + "\x1b[1B\x1b[K" * (rows - 1) + "\x1b8" if rows > 0 else "\r"


def _closed(line: str) -> str:
    return f"{line}{RESET}" if "\x1b" in line else line
