"""Several questions in one dialog: a page for each, navigation, and a review of the answers.

Each page is a separate dialog. This module decides which page is shown and keeps the answers.
"""

import asyncio
from collections.abc import Sequence

from clew.fronts.dialog import Choice, Dialog, DialogAnswer
from clew.fronts.questions import describe_answer
from clew.fronts.render.rows import Line, Row, Span, clip_spans, format_row, join_lines, wrap_spans
from clew.fronts.render.theme import Theme
from clew.fronts.terminal.choosing import Chooser

MOVES = "←→ other questions"


class Form(Chooser):
    """A dialog with a page for each question, and a last page to review the answers.

    `answers` contains the answers to all questions after the user has sent them; before that, None.
    """

    has_tabs = True

    def __init__(self, dialogs: Sequence[Dialog], pages: Sequence[Chooser]) -> None:
        super().__init__(dialogs[0].title, ())
        self._dialogs = dialogs
        send = Choice(label="Send these answers")
        self._review = Chooser("Send these answers?", [send], body=self._summary)
        self._pages = [*pages, self._review]
        self._answers: dict[int, DialogAnswer] = {}
        # The typed text of each page; the field shows that of the current one.
        self._texts = [""] * len(self._pages)
        self._page_at = 0
        self._theme: Theme | None = None
        self.answers: list[DialogAnswer] | None = None
        for page in self._pages:
            page.field = self.field
            page.moves = MOVES

    @property
    def _shown_page(self) -> Chooser:
        return self._pages[self._page_at]

    @property
    def is_typing(self) -> bool:
        return self._shown_page.is_typing

    def press(self, key: str) -> None:
        if self.answer.done():
            return
        match key:
            case "left" | "backtab":
                self._turn(-1)
            case "right" | "tab":
                self._turn(1)
            case "escape":
                self.answer.set_result(None)
            case _:
                self._shown_page.press(key)
                self._collect()

    def knows(self, letter: str) -> bool:
        return self._shown_page.knows(letter)

    def point(self, letter: str) -> bool:
        return self._shown_page.point(letter)

    def typed(self) -> None:
        self._shown_page.typed()

    def _turn(self, steps: int) -> None:
        """Move to another page. The choices marked on the current page become its answer."""
        marked, before = self._shown_page.marked, self._answers.get(self._page_at)
        if marked is not None and (before is None or not before.words):
            self._answers[self._page_at] = marked
        self._texts[self._page_at] = self.field.text
        self._page_at = max(0, min(self._page_at + steps, len(self._pages) - 1))
        self.field.text = self._texts[self._page_at]

    def _collect(self) -> None:
        """Save the answer to the current question, and continue with the next page."""
        page = self._shown_page
        if not page.answer.done():
            return
        answer = page.answer.result()
        page.answer = asyncio.get_running_loop().create_future()
        if page is not self._review:
            assert answer is not None
            self._answers[self._page_at] = answer
            self._turn(1)
            return
        missing = [at for at in range(len(self._dialogs)) if at not in self._answers]
        if missing:
            self._turn(missing[0] - self._page_at)
        else:
            self.answers = [self._answers[at] for at in range(len(self._dialogs))]
            self.answer.set_result(DialogAnswer(chosen=()))

    # -- drawing

    def lines(
        self, width: int, rows: int, theme: Theme
    ) -> tuple[list[Line], tuple[int, int] | None]:
        self._theme = theme
        head = format_row(clip_spans(self._tabs(theme), width))
        lines, cursor = self._shown_page.lines(width, max(1, rows - 1), theme)
        return [head, *lines], None if cursor is None else (cursor[0] + 1, cursor[1])

    def _tabs(self, theme: Theme) -> Row:
        """Return the row of page names: the current one in brackets, answered ones marked."""
        row: Row = [Span("  ")]
        for at in range(len(self._pages)):
            is_at = at == self._page_at
            name = self._name(at)
            text = f"[{name}]" if is_at else f" {name} "
            row.append(Span(text, theme["marker"] if is_at else theme["quiet"]))
        return row

    def _name(self, at: int) -> str:
        if self._pages[at] is self._review:
            return "Review"
        mark = "✓" if at in self._answers else "·"
        return f"{mark} {self._dialogs[at].header or f'Question {at + 1}'}"

    def _summary(self, width: int) -> list[Line]:
        """Return the questions with their answers."""
        assert self._theme is not None
        lines: list[Line] = []
        for at, dialog in enumerate(self._dialogs):
            answer = self._answers.get(at)
            text = "no answer yet" if answer is None else describe_answer(dialog, answer)
            style = "notice" if answer is None else ""
            title = Span(f"  {dialog.title} ", self._theme["quiet"])
            row = [title, Span(join_lines(text), self._theme[style])]
            lines += [format_row(part) for part in wrap_spans(row, width)]
        return lines
