"""A page that replaces the prompt. It can be scrolled and searched, and closes with Escape.

The rows are read from an iterator in portions, so that output of any size opens at once. Only the
visible rows are drawn.
"""

import asyncio
from collections.abc import Iterable
from itertools import islice

from clew.core.page import ReportPage, pairs
from clew.fronts.dialog import DialogAnswer
from clew.fronts.render.rows import Line, Span, clip_spans, format_row, join_lines
from clew.fronts.render.theme import Theme
from clew.fronts.terminal.choosing import Chooser
from clew.fronts.terminal.keys import ACTIONS, CONTEXTS, Bindings, Context
from clew.fronts.terminal.prompt import lay_out
from clew.fronts.terminal.stage import UNSEEN, Stage

PORTION = 500
LEGEND = "↑↓ PgUp PgDn g G scroll · / search · n N next · Esc close"
EDITS = " · v open in $EDITOR"
# For narrow windows.
SHORT_LEGEND, CLOSE = "↑↓ scroll · / search · Esc close", "Esc close"
TOP, BOTTOM = ("g", "\x1b[H", "\x1b[1~", "\x1bOH"), ("G", "\x1b[F", "\x1b[4~", "\x1bOF")
REVERSE = "7"


class Viewer(Chooser):
    """A scrollable page, which gives an answer only if the user opens the text in an editor."""

    def __init__(
        self, title: str, rows: Iterable[Line], *, edits: bool = False, at_end: bool = False
    ) -> None:
        """Create a page of these rows.

        With `edits`, the user can open the text in an editor. With `at_end`, the last rows are
        shown first.
        """
        super().__init__(title, [])
        self._source = iter(rows)
        self._lines: list[Line] = []
        self._is_whole = False
        self._edits = edits
        self._top = 0
        self._room = 1
        # Whether the words to search for are being typed.
        self._is_asking = False
        self._words = ""
        self._note = ""
        # The direction of a search whose match was not read yet.
        self._seeks = 0
        self._goes_to_end = at_end
        self.load()

    @property
    def text(self) -> str:
        """The text of the entire page, without colors."""
        while self.load():
            pass
        return "\n".join(strip_styles(line) for line in self._lines)

    def load(self) -> bool:
        """Read the next portion; return whether there may be more."""
        portion = list(islice(self._source, PORTION))
        self._lines += portion
        self._is_whole = len(portion) < PORTION
        if self._seeks:
            self._seek(self._seeks)
        if self._goes_to_end:
            self._scroll_to(len(self._lines))
        return not self._is_whole

    # -- keys

    @property
    def is_typing(self) -> bool:
        return self._is_asking

    def press(self, key: str) -> None:
        if self.answer.done():
            return
        self._note, self._goes_to_end = "", False
        steps = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -self._room, "b": -self._room}
        steps |= {"pagedown": self._room, " ": self._room, "enter": 1}
        if self._is_asking:
            self._press_while_asking(key)
        elif key in ("escape", "q"):
            self.answer.set_result(None)
        elif key in steps:
            self._scroll_to(self._top + steps[key])
        elif key in TOP:
            self._scroll_to(0)
        elif key in BOTTOM:
            self._goes_to_end = not self._is_whole
            self._scroll_to(len(self._lines))
        elif key == "/":
            self._is_asking = True
            self.field.text = ""
        elif key in ("n", "N") and self._words:
            self._seek(1 if key == "n" else -1)
        elif key == "v" and self._edits:
            self.answer.set_result(DialogAnswer(chosen=(0,)))

    def _press_while_asking(self, key: str) -> None:
        if key in ("escape", "enter"):
            self._is_asking = False
        if key == "enter":
            self._words = self.field.text.casefold()
            if self._words:
                self._seek(0)

    def _scroll_to(self, top: int) -> None:
        self._top = max(0, min(top, len(self._lines) - self._room))

    def _seek(self, step: int) -> None:
        """Scroll to the next match in a direction; 0 starts with the first visible row.

        After the last match comes the first one, once all rows are read.
        """
        at, count = self._top + step, len(self._lines)
        rows = [*range(at, -1, -1)] if step < 0 else [*range(at, count)]
        if self._is_whole:
            rows += range(count - 1, self._top, -1) if step < 0 else range(self._top)
        place = next((row for row in rows if self._words in self._plain(row)), None)
        self._seeks = 0
        if place is not None:
            self._top = place
        elif self._is_whole or step < 0:
            self._note = f"No more matches for {join_lines(self._words)}"
        else:
            self._seeks, self._note = step or 1, "Searching…"

    def _plain(self, row: int) -> str:
        return strip_styles(self._lines[row]).casefold()

    # -- drawing

    def lines(
        self, width: int, rows: int, theme: Theme
    ) -> tuple[list[Line], tuple[int, int] | None]:
        self._room = max(1, rows - 2)
        if self._goes_to_end:
            self._scroll_to(len(self._lines))
        end = min(self._top + self._room, len(self._lines))
        more = "" if self._is_whole else "+"
        where = f"  {min(self._top + 1, end)}-{end} of {len(self._lines):,}{more}"
        head = [Span(join_lines(self.title), theme["heading"]), Span(where, theme["quiet"])]
        body = [self._painted(row) for row in range(self._top, end)]
        if self._is_asking:
            text, (row, column) = lay_out(self.field.text, self.field.cursor_position, width - 1)
            foot, cursor = (
                [Span("/", theme["marker"]), Span(text[row])],
                (len(body) + 1, column + 1),
            )
        else:
            legends = (f"{LEGEND}{EDITS if self._edits else ''}", LEGEND, SHORT_LEGEND)
            legend = next((words for words in legends if len(words) <= width), CLOSE)
            style = theme["notice" if self._note else "quiet"]
            foot, cursor = [Span(self._note or legend, style)], None
        drawn = [format_row(clip_spans(head, width)), *body, format_row(clip_spans(foot, width))]
        return drawn, cursor

    def _painted(self, row: int) -> Line:
        """Return a row with the matches of the search in reverse video."""
        line = self._lines[row]
        if not self._words or self._words not in self._plain(row):
            return line
        plain, low, spans, at = strip_styles(line), self._plain(row), [], 0
        if len(plain) != len(low):
            return format_row([Span(plain, REVERSE)])
        while (place := low.find(self._words, at)) >= 0:
            stop = place + len(self._words)
            spans += [Span(plain[at:place]), Span(plain[place:stop], REVERSE)]
            at = stop
        return format_row([*spans, Span(plain[at:])])


def strip_styles(line: Line) -> str:
    return UNSEEN.sub("", line).replace("\x1b[K", "")


async def view(stage: Stage, viewer: Viewer) -> bool:
    """Show a page until the user closes it; return whether it is to be opened in an editor."""
    async with asyncio.TaskGroup() as group:
        loading = group.create_task(_load(stage, viewer))
        answer = await stage.answered(stage.show(viewer))
        loading.cancel()
    return answer is not None


async def _load(stage: Stage, viewer: Viewer) -> None:
    while viewer.load():
        stage.changed()
        # Typed keys are handled between two portions.
        await asyncio.sleep(0)
    stage.changed()


TITLES: dict[Context, str] = {
    "Global": "Everywhere",
    "Chat": "At the prompt",
    "Autocomplete": "With suggestions",
    "Select": "In lists and questions",
    "Sessions": "In the list of sessions",
}
SIGNS = [
    ("/", "Commands"),
    ("@", "Attach a file or folder"),
    ("!", "Run a shell command"),
    ("#", "Add a note to the memory file"),
    ("\\ Enter", "Insert a line break (works in every terminal)"),
    ("esc esc", "Clear the prompt; if it is empty, rewind"),
]


def make_keys_page(bindings: Bindings, *hints: str) -> ReportPage:
    """Return the page of all keys by context, with the lines bound to keys and the errors."""
    groups = [pairs(SIGNS, "Begin a prompt with")]
    for context in CONTEXTS:
        rows = [
            (", ".join(bindings.keys_of(action.name)) or "(no key)", action.words)
            for action in ACTIONS
            if action.context == context
        ]
        rows += [
            (binding.spelled, binding.target)
            for binding in bindings.bound
            if binding.context == context and binding.target.startswith("/")
        ]
        groups.append(pairs(rows, TITLES[context]))
    if bindings.faults:
        groups.append(pairs([(fault, "") for fault in bindings.faults], "Errors"))
    return ReportPage(title="Keys", groups=tuple(groups), hints=hints)
