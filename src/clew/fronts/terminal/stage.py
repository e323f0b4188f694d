"""The content of the live area, from top to bottom, fitted to the terminal.

This module keeps the open dialogs. The prompt is always visible, except while a dialog takes its
place. The output of the running turn gets the remaining rows, so that the live area is never taller
than the terminal.

Decision: docs/decisions/180-terminal-screen.md
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from functools import partial

from msgspec import Struct
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import BufferControl, HSplit, Layout, Window

from clew.fronts.dialog import DialogAnswer
from clew.fronts.render.rows import RESET, Line, Span, clip_spans, count_cells, format_row
from clew.fronts.render.theme import Theme
from clew.fronts.terminal.agents import AgentTree
from clew.fronts.terminal.choosing import Chooser
from clew.fronts.terminal.completion import Completion
from clew.fronts.terminal.prompt import PROMPT_INDENT, PromptEditor, Queue
from clew.fronts.terminal.todos import PinnedTodos

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from prompt_toolkit.key_binding.key_processor import KeyPress

    from clew.fronts.render.transcript import Transcript
    from clew.fronts.terminal.status import Status, Working


# The lines of the live area, and the escape sequences that update them.


BEGIN_UPDATE, END_UPDATE = "\x1b[?2026h", "\x1b[?2026l"
HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"
# A line that is too wide is cut at the edge. Wrapping would shift all lines below it.
NO_WRAP, WRAP = "\x1b[?7l", "\x1b[?7h"
# Colors, filled lines and hyperlinks, which take no cells.
UNSEEN = re.compile(r"\x1b\[[0-9;:]*[mK]|\x1b\]8;[^\x1b\x07]*(?:\x1b\\|\x07)")


class Scene(Struct, frozen=True, kw_only=True):
    """The content of the live area.

    `cursor` is the cursor's row and column; None hides the cursor.
    """

    lines: Sequence[str]
    cursor: tuple[int, int] | None = None


EMPTY = Scene(lines=())


class Painter:
    """Draws scenes. `is_synchronised` means that the terminal supports synchronized updates."""

    def __init__(self) -> None:
        self.is_synchronised = False
        self._now: Scene = EMPTY
        self._row = 0

    @property
    def height(self) -> int:
        return len(self._now.lines)

    def paint(self, scene: Scene, above: Sequence[str] = ()) -> str:
        """Return the output that replaces the current scene and writes finished lines above it."""
        if not above and scene == self._now:
            return ""
        parts = [self._whole(scene, above)] if above else self._changes(scene)
        parts += self._place(scene.cursor)
        self._now = scene
        text = "".join(parts)
        return f"{BEGIN_UPDATE}{text}{END_UPDATE}" if self.is_synchronised else text

    def erase(self) -> str:
        """Return the output that clears the live area and moves the cursor to its start."""
        text = f"{self._to_row(0)}{_wiped(self.height)}{SHOW}"
        self.forget()
        return text

    def forget(self) -> None:
        """Forget the current scene, because the terminal no longer shows it."""
        self._now, self._row = EMPTY, 0

    def rewrapped(self, columns: int) -> str:
        """Return the output that clears the scene after the terminal has become narrower.

        The terminal has wrapped lines of the scene, so they occupy more rows.
        """
        heights = [
            max(1, -(-count_cells(UNSEEN.sub("", line)) // columns)) for line in self._now.lines
        ]
        self._row = sum(heights[: self._row])
        if self._now.cursor is not None:
            self._row += self._now.cursor[1] // columns
        text = f"{self._to_row(0)}{_wiped(sum(heights))}{SHOW}"
        self.forget()
        return text

    def _whole(self, scene: Scene, above: Sequence[str]) -> str:
        """Return the output that writes the finished lines and redraws the scene below them."""
        begin = f"{HIDE}{self._to_row(0)}\r"
        text = "".join(f"\x1b[K{_closed(line)}\r\n" for line in above)
        drawn = "\r\n".join(f"\x1b[K{_closed(line)}" for line in scene.lines)
        left = self.height - len(above) - len(scene.lines)
        rest = _wiped(left)
        if scene.lines and left > 0:
            rest = f"\x1b[1B{rest}\x1b[1A"
        self._row = max(0, len(scene.lines) - 1)
        return f"{begin}{text}{NO_WRAP}{drawn}{rest}{WRAP}"

    def _changes(self, scene: Scene) -> list[str]:
        """Return the output that redraws only the changed lines."""
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
            # In the first column, the cursor's row is known even after the terminal wraps lines.
            return [HIDE, "\r"]
        row, column = cursor
        aside = f"\x1b[{column}C" if column else ""
        return [f"{self._to_row(row)}\r{aside}{SHOW}"]

    def _to_row(self, row: int) -> str:
        rows, self._row = row - self._row, row
        if not rows:
            return ""
        return f"\x1b[{rows}B" if rows > 0 else f"\x1b[{-rows}A"


def _wiped(rows: int) -> str:
    """Return the output that clears a number of rows from the cursor down.

    The rows are cleared one by one, because some terminals move the screen into their scrollback
    when they erase everything from the top row down.
    """
    return "\r\x1b7\x1b[K" + "\x1b[1B\x1b[K" * (rows - 1) + "\x1b8" if rows > 0 else "\r"


def _closed(line: str) -> str:
    return f"{line}{RESET}" if "\x1b" in line else line


# The rows for a turn's live output, at most and at least.
TAIL_ROWS, MIN_TAIL_ROWS = 16, 3
# A dialog gets this many rows before the turn's output gets any. In a terminal with at most as many
# rows as SMALL_ROWS, it also gets the rows of the rule below it and of the output above it.
DIALOG_ROWS, SMALL_ROWS = 8, 12
HINT_S = 4.0
# A dialog that opens while the user types does not receive keys until the user pauses.
PAUSE_S = 0.7
# When the user types a word, its next letter arrives within this time. As a delay before an answer
# takes effect, the time is hardly noticeable.
HOLD_S = 0.4
# A paste or an Alt key, which never answer a dialog.
WRITES = frozenset({Keys.BracketedPaste, Keys.Escape})
# Keys that are only pressed to edit a prompt.
EDITS = frozenset(
    {Keys.ControlH, Keys.Delete, Keys.Left, Keys.Right, Keys.ControlW, Keys.ControlU, Keys.ControlK}
)
WAITS = "Your typing goes to the prompt; pause to answer the question"


def is_letter(key: KeyPress) -> bool:
    """Return whether a key is a printable character."""
    return len(key.data) == 1 and key.data.isprintable()


class Stage:
    """The state of the live area.

    `theme` can change; `transcript` and `status` are set when a session opens. `changed`, which the
    screen sets, is called when the content changes. `catch_up` is called before drawing, so that
    output that was collected since the last frame can be added.
    """

    def __init__(
        self, theme: Theme, prompt: PromptEditor, completion: Completion, queue: Queue
    ) -> None:
        self.theme = theme
        self.prompt = prompt
        self.completion = completion
        self.queue = queue
        self.todos = PinnedTodos()
        self.agents = AgentTree()
        self.transcript: Transcript | None = None
        self.status: Status | None = None
        self.changed: Callable[[], object] = lambda: None
        self.catch_up: Callable[[], object] = lambda: None
        # Called with a dialog that opens without a key press, and when no such dialog is left.
        self.on_question: Callable[[Chooser], object] = lambda _: None
        self.on_answer: Callable[[], object] = lambda: None
        self.working: Working | None = None
        # The mode of vim, for the status line; empty without vim keys. The screen sets it.
        self.editing: Callable[[], str] = str
        # The open dialogs, the last one on top; and the dialog that receives the keys.
        self._behind: list[Chooser] = []
        # The dialogs among them that opened without a key press.
        self._sudden: list[Chooser] = []
        self._at: Chooser | None = None
        # A letter that answers unless another one follows, and its timer.
        self._held: tuple[KeyPress, asyncio.TimerHandle] | None = None
        self._hint = ""
        self._hint_until_s = 0.0
        self._typed_s = 0.0
        self._control = BufferControl(prompt.buffer)
        self._field = BufferControl()
        self.layout = Layout(HSplit([Window(self._control), Window(self._field)]), self._control)

    # -- dialogs

    @property
    def dialog(self) -> Chooser | None:
        return self._behind[-1] if self._behind else None

    @property
    def takes_keys(self) -> bool:
        """True if key presses go to the open dialog."""
        return self.dialog is not None and self._at is self.dialog

    def touched(self) -> None:
        """Record that the user is typing."""
        self._typed_s = time.monotonic()

    @property
    def typed_s(self) -> float:
        """The time of the user's last key press."""
        return self._typed_s

    async def ask(self, dialog: Chooser) -> DialogAnswer | None:
        """Show a dialog that the user did not open; return the answer, or None if there is none.

        Keys typed for the prompt do not answer it.
        """
        self.on_question(dialog)
        return await self.answered(self.show(dialog, is_sudden=True))

    def show(self, dialog: Chooser, *, is_sudden: bool = False) -> Chooser:
        """Open a dialog on top of any other, and direct keys to it.

        With `is_sudden`, keys continue to go to the prompt until the user pauses typing. A dialog
        below this one reappears when this one is answered.
        """
        self._behind.append(dialog)
        if is_sudden:
            self._sudden.append(dialog)

        def typed(_: object) -> None:
            dialog.typed()
            self.touched()

        dialog.field.on_text_changed += typed
        self._hand_over(is_sudden=is_sudden)
        return dialog

    def _hand_over(self, *, is_sudden: bool) -> None:
        """Direct keys to the dialog, at once or, if `is_sudden`, when the user pauses typing."""
        left_s = PAUSE_S - (time.monotonic() - self._typed_s)
        written = self.layout.current_buffer
        if is_sudden and left_s > 0 and written is not None and written.text:
            later = partial(self._hand_over, is_sudden=True)
            asyncio.get_running_loop().call_later(left_s, later)
        else:
            self._focus()
        self.changed()

    def _focus(self) -> None:
        self._at = self.dialog
        if self._at is None:
            self.layout.focus(self._control)
        else:
            self._field.buffer = self._at.field
            self.layout.focus(self._field)

    async def answered(self, dialog: Chooser) -> DialogAnswer | None:
        try:
            return await dialog.answer
        finally:
            self._behind.remove(dialog)
            if dialog in self._sudden:
                self._sudden.remove(dialog)
                if not self._sudden:
                    self.on_answer()
            if self._at is dialog:
                self._focus()
            self.changed()

    def dismiss(self) -> bool:
        """Close a dialog that the user opened; return whether there was one."""
        dialog = self.dialog
        if dialog is None or dialog in self._sudden or dialog.answer.done():
            return False
        dialog.answer.set_result(None)
        return True

    def press(self, key: str) -> None:
        """Pass a key, given by name, to the dialog."""
        self._let_go()
        if self.dialog is not None:
            self.dialog.press(key)

    def pressed(self, key: KeyPress) -> list[KeyPress]:
        """Pass a key without a binding to the dialog, or return the keys that belong to the prompt.

        If a question appeared while the user was typing, keys go to the prompt until the user
        pauses. A letter that answers the question takes effect only if no other letter follows at
        once, because two letters are treated as the beginning of a word.
        """
        dialog = self.dialog
        if dialog is None or dialog not in self._sudden:
            self.press(key.data)
            return []
        presses = self._let_go()
        if self._is_written(key, dialog) or (presses and is_letter(key)):
            self._at = None
            self.layout.focus(self._control)
            asyncio.get_running_loop().call_later(PAUSE_S, partial(self._hand_over, is_sudden=True))
            self.changed()
            return [*presses, key]
        if is_letter(key) and dialog.point(key.data):
            answers = partial(self._answers, dialog, key.data)
            self._held = (key, asyncio.get_running_loop().call_later(HOLD_S, answers))
        else:
            dialog.press(key.data)
        return []

    def _let_go(self) -> list[KeyPress]:
        """Cancel the letter that was about to answer a question, and return it."""
        if self._held is None:
            return []
        (key, timer), self._held = self._held, None
        timer.cancel()
        return [key]

    def _answers(self, dialog: Chooser, letter: str) -> None:
        self._held = None
        dialog.press(letter)

    def _is_written(self, key: KeyPress, dialog: Chooser) -> bool:
        if key.key in EDITS:
            return bool(self.prompt.text)
        return key.key in WRITES or (is_letter(key) and not dialog.knows(key.data))

    # -- hints

    def hint(self, words: str) -> None:
        self._hint, self._hint_until_s = words, time.monotonic() + HINT_S
        # Redraws when the hint ends, because nothing else may do so by then.
        asyncio.get_running_loop().call_later(HINT_S + 0.1, self.changed)
        self.changed()

    # -- drawing

    def look(self, columns: int, rows: int) -> Scene:
        width = max(10, columns)
        if self.transcript is not None:
            self.transcript.resize(width)
        foot = self._foot(width)
        head = self._head(width, rows)
        is_cramped = self.dialog is not None and rows <= SMALL_ROWS
        if is_cramped:
            foot = foot[1:]
        room = max(1, rows - len(foot) - len(head) - (0 if is_cramped else 1))
        if self.dialog is not None:
            most = max(4, min(room, DIALOG_ROWS), room - MIN_TAIL_ROWS)
            body, cursor = self.dialog.lines(width, most, self.theme)
        else:
            body, cursor = self._prompt(width, max(1, min(room, rows // 2)))
        tail = self._tail(width, min(TAIL_ROWS, room - len(body)))
        above = [*tail, *head]
        placed = None if cursor is None else (cursor[0] + len(above), cursor[1])
        lines = [*above, *body, *foot]
        return Scene(lines=tuple(lines[:rows]), cursor=placed)

    def _tail(self, width: int, rows: int) -> list[Line]:
        """Return the output that still changes: running calls, and below them the subagents."""
        if self.transcript is None or rows < 1:
            return []
        agents = self.agents.lines(width, rows, self.theme)
        tail = self.transcript.tail(width, rows - len(agents))
        is_apart = bool(agents) and not tail and len(agents) < rows
        return ["", *agents] if is_apart else [*tail, *agents]

    def _head(self, width: int, rows: int) -> list[Line]:
        """Return the rows between output and prompt: progress, todo list and queued messages."""
        lines = []
        if self.working is not None and self.dialog is None:
            lines.append(self.working.line(time.monotonic(), width, self.theme))
        todos = self.todos.lines(width, rows, self.theme, is_open=self.dialog is None)
        lines += ["", *todos] if todos and not lines else todos
        lines += self.queue.lines(width, self.theme)
        return [*lines, format_row([Span("─" * width, self.theme["rule"])])]

    def _prompt(self, width: int, rows: int) -> tuple[list[Line], tuple[int, int] | None]:
        text, (row, column) = self.prompt.lines(width - PROMPT_INDENT, rows)
        mark = Span("! " if self.prompt.text.startswith("!") else "> ", self.theme["marker"])
        lines = [
            format_row([mark if at == 0 else Span("  "), Span(part)])
            for at, part in enumerate(text)
        ]
        offers = self.completion.lines(width, rows - len(lines), self.theme)
        return [*lines, *offers], (row, column + PROMPT_INDENT)

    def _foot(self, width: int) -> list[Line]:
        rule = format_row([Span("─" * width, self.theme["rule"])])
        notice = self._notice()
        if self.status is not None:
            editing = self.editing() if self.dialog is None else ""
            return [rule, *self.status.lines(width, self.theme, notice=notice, editing=editing)]
        if notice or self.dialog is None:
            span = Span(f"  {notice}", self.theme["notice"])
            loading = Span("  Loading session…", self.theme["quiet"])
            return [rule, format_row(clip_spans([span if notice else loading], width))]
        return [rule]

    def _notice(self) -> str:
        """Return the notice to show next to the status line, or an empty string."""
        if self.dialog is not None and not self.takes_keys:
            return WAITS
        return self._hint if time.monotonic() < self._hint_until_s else ""
