"""Everything that stands at the bottom of the terminal, from top to bottom, and what fits of it.

Owns which dialog is open. The prompt is always there but for a dialog; what a turn shows gets the room
that is left, so that the whole is never taller than the terminal.

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
from clew.fronts.terminal.choosing import Chooser
from clew.fronts.terminal.completion import Completion
from clew.fronts.terminal.prompt import PromptEditor, Queue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from prompt_toolkit.key_binding.key_processor import KeyPress

    from clew.fronts.render.transcript import Transcript
    from clew.fronts.terminal.status import Status, Working


# The lines at the bottom of the terminal that change, and the characters that change them.


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
        """Everything anew, further down."""
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


# What a turn shows of itself, at most and at least.
TAIL_ROWS, MIN_TAIL_ROWS = 16, 3
# A question has so many before what was said has any.
DIALOG_ROWS = 8
HINT_S = 4.0
# A dialog that opens while somebody types does not take the letters meant for the prompt.
PAUSE_S = 0.7
# Who writes a word has its next letter there by then; who answers hardly sees that it was waited for.
HOLD_S = 0.4
# A paste, and what is pressed with Alt: never an answer.
WRITES = frozenset({Keys.BracketedPaste, Keys.Escape})
# What only somebody presses who has written something.
EDITS = frozenset(
    {Keys.ControlH, Keys.Delete, Keys.Left, Keys.Right, Keys.ControlW, Keys.ControlU, Keys.ControlK}
)
WAITS = "Typing goes to your prompt; pause to answer the question"


def is_letter(key: KeyPress) -> bool:
    """Whether a key is a letter, a number or a sign, as words are made of."""
    return len(key.data) == 1 and key.data.isprintable()


class Stage:
    """`theme` may change; `transcript` and `status` come with the session, behind the prompt.

    `changed` is called when something looks different; whoever draws puts itself there. `catch_up` is
    called before it is looked at; whoever gathers what came puts itself there.
    """

    def __init__(
        self, theme: Theme, prompt: PromptEditor, completion: Completion, queue: Queue
    ) -> None:
        self.theme = theme
        self.prompt = prompt
        self.completion = completion
        self.queue = queue
        self.transcript: Transcript | None = None
        self.status: Status | None = None
        self.changed: Callable[[], object] = lambda: None
        self.catch_up: Callable[[], object] = lambda: None
        # Told of a dialog that nobody called for.
        self.on_question: Callable[[str], object] = lambda _: None
        self.working: Working | None = None
        # The dialog that is open, and those behind it; the one whose keys are its own.
        self._behind: list[Chooser] = []
        # Of those, the ones that nobody called for.
        self._sudden: list[Chooser] = []
        self._at: Chooser | None = None
        # A letter that answers unless another follows it, and what waits for that.
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
        """Whether keys are for the dialog that is open."""
        return self.dialog is not None and self._at is self.dialog

    def touched(self) -> None:
        """A person is writing."""
        self._typed_s = time.monotonic()

    @property
    def typed_s(self) -> float:
        """When a person wrote last."""
        return self._typed_s

    async def ask(self, dialog: Chooser) -> DialogAnswer | None:
        """A dialog that nobody called for: it does not take letters that were meant for the prompt."""
        self.on_question(dialog.title)
        return await self.answered(self.show(dialog, is_sudden=True))

    def show(self, dialog: Chooser, *, is_sudden: bool = False) -> Chooser:
        """From now on keys are the dialog's; one that waits behind it comes back when it is answered."""
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
        """Gives keys to the dialog, once nobody is in the middle of a word for something else."""
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
            if self._at is dialog:
                self._focus()
            self.changed()

    def press(self, key: str) -> None:
        """A key that is the dialog's by its name."""
        self._let_go()
        if self.dialog is not None:
            self.dialog.press(key)

    def pressed(self, key: KeyPress) -> list[KeyPress]:
        """Any other key, for the dialog. What is of somebody who writes while a question stands is given
        back: it is the prompt's, and so is what follows it before a pause.

        A letter that answers does so when no other follows it at once, for then it begins a word.
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
        """The letter that was about to answer, and does not."""
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

    # -- words for a moment

    def hint(self, words: str) -> None:
        self._hint, self._hint_until_s = words, time.monotonic() + HINT_S
        # Nothing else may happen until then, and it would stand where the mode is to be read.
        asyncio.get_running_loop().call_later(HINT_S + 0.1, self.changed)
        self.changed()

    # -- what is seen

    def look(self, columns: int, rows: int) -> Scene:
        width = max(10, columns)
        if self.transcript is not None:
            self.transcript.resize(width)
        foot = self._foot(width)
        head = self._head(width)
        room = max(1, rows - len(foot) - len(head) - 1)
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
        if self.transcript is None or rows < 1:
            return []
        return self.transcript.tail(width, rows)

    def _head(self, width: int) -> list[Line]:
        """Between what is said and the prompt."""
        lines = []
        if self.working is not None and self.dialog is None:
            lines.append(self.working.line(time.monotonic(), width, self.theme))
        lines += self.queue.lines(width, self.theme)
        return [*lines, format_row([Span("─" * width, self.theme["rule"])])]

    def _prompt(self, width: int, rows: int) -> tuple[list[Line], tuple[int, int] | None]:
        text, (row, column) = self.prompt.lines(width - 2, rows)
        mark = Span("! " if self.prompt.text.startswith("!") else "> ", self.theme["marker"])
        lines = [
            format_row([mark if at == 0 else Span("  "), Span(part)])
            for at, part in enumerate(text)
        ]
        offers = self.completion.lines(width, rows - len(lines), self.theme)
        return [*lines, *offers], (row, column + 2)

    def _foot(self, width: int) -> list[Line]:
        rule = format_row([Span("─" * width, self.theme["rule"])])
        if self.dialog is not None and not self.takes_keys:
            return [rule, format_row(clip_spans([Span(f"  {WAITS}", self.theme["notice"])], width))]
        if self._hint and time.monotonic() < self._hint_until_s:
            return [
                rule,
                format_row(clip_spans([Span(f"  {self._hint}", self.theme["notice"])], width)),
            ]
        if self.status is None and self.dialog is not None:
            return [rule]
        if self.status is None:
            return [
                rule,
                format_row(clip_spans([Span("  Loading session…", self.theme["quiet"])], width)),
            ]
        return [rule, *self.status.lines(width, self.theme)]
