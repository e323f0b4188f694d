"""A dialog on the screen: a question with choices.

A dialog tracks the selection, the typed text and the scroll position. It takes keys, returns lines
to draw, and is answered once. Nothing is cut off: text that does not fit can be scrolled to.

Decision: docs/decisions/180-terminal-screen.md
"""

import asyncio
from collections.abc import Sequence

from msgspec import Struct
from prompt_toolkit.buffer import Buffer

from clew.fronts.dialog import Body, Choice, DialogAnswer
from clew.fronts.render.rows import Line, Row, Span, clip_spans, format_row, join_lines, wrap_spans
from clew.fronts.render.theme import Theme
from clew.fronts.terminal.completion import match_names
from clew.fronts.terminal.prompt import lay_out

MIN_BODY = 3
# Shown instead of a choice that does not fit and so cannot be selected.
NO_ROOM = "  too small: enlarge it or press Esc"
# Keys that only the session picker handles.
EVERYWHERE, TREE = "everywhere", "tree"


class _Shown(Struct):
    """A choice as drawn: all of its lines, or `clip`, a shortened version that fits into one row."""

    number: int
    lines: list[Line]
    clip: Line = ""
    cursor: int | None = None
    is_whole: bool = True

    @property
    def in_a_row(self) -> "_Shown":
        return self if len(self.lines) == 1 else _Shown(self.number, [self.clip], is_whole=False)


def no_body(_: int) -> Sequence[Line]:
    return ()


class Chooser:
    """A dialog. `answer` is set once; None means that the user dismissed the dialog.

    With `several`, Space marks choices; with `searches`, typed text filters the list. A choice can be
    selected only if it was fully visible when last drawn; the key of any other choice only moves to
    that choice. With `follows`, text that grows shows its end until the user scrolls up.
    """

    def __init__(
        self,
        title: str,
        choices: Sequence[Choice],
        *,
        body: Body = no_body,
        several: bool = False,
        searches: bool = False,
        follows: bool = False,
        at: int = 0,
    ) -> None:
        self.title = title
        self.choices = list(choices)
        self.answer: asyncio.Future[DialogAnswer | None] = (
            asyncio.get_running_loop().create_future()
        )
        self.field = Buffer(multiline=False)
        self._body = body
        self._several = several
        self._searches = searches
        self._follows = follows
        self._is_at_end = follows
        self._marked: set[int] = set()
        self._at = at
        # The choices that were fully visible when last drawn.
        self._seen: set[int] = set()
        self._ends: dict[int, int] = {}
        self._scrolled = 0
        self._page = 1

    # Whether the keys of the session picker are active.
    is_of_sessions = False

    # -- the selection

    @property
    def found(self) -> list[int]:
        """The indices of the choices that match the typed text."""
        if not self._searches or not self.field.text.strip():
            return list(range(len(self.choices)))
        labels: dict[str, list[int]] = {}
        for number, choice in enumerate(self.choices):
            labels.setdefault(f"{choice.label} {choice.hint}", []).append(number)
        words = self.field.text.strip()
        return [number for label in match_names(words, labels) for number in labels[label]]

    @property
    def is_typing(self) -> bool:
        """True if typed letters are text and do not select choices."""
        return self._searches or (self._current is not None and self._current.asks_words)

    @property
    def _current(self) -> Choice | None:
        indices = self.found
        return self.choices[indices[self._at]] if self._at < len(indices) else None

    def press(self, key: str) -> None:
        """Handle a key, given by name or as a letter."""
        if self.answer.done():
            return
        match key:
            case "up":
                self._move(-1)
            case "down":
                self._move(1)
            case "pageup":
                self._scrolled = max(0, self._scrolled - self._page)
                self._is_at_end = False
            case "pagedown":
                self._scrolled += self._page
            case "escape":
                self.answer.set_result(None)
            case "enter":
                self._enter()
            case " " if self._several:
                self._mark()
            case _:
                self._letter(key)

    def knows(self, letter: str) -> bool:
        """Return whether a letter (in either case), a number or Space selects a choice."""
        if letter == " ":
            return self._several
        is_number = letter.isdecimal() and 0 < int(letter) <= len(self.choices)
        return is_number or any(choice.key.lower() == letter.lower() for choice in self.choices)

    def typed(self) -> None:
        """Handle a change of the typed text."""
        if self._searches:
            self._at = 0

    def _move(self, steps: int) -> None:
        count = len(self.found)
        if count:
            self._at = (self._at + steps) % count

    def _mark(self) -> None:
        self._marked ^= {self.found[self._at]}

    def point(self, letter: str) -> bool:
        """Move to the choice that a letter selects; return whether the letter would answer at once."""
        return self._goes_to(letter) and not self._several

    def _letter(self, key: str) -> None:
        if not self._goes_to(key):
            return
        if self._several:
            self._mark()
        else:
            self._take(self.found[self._at])

    def _goes_to(self, key: str) -> bool:
        """Move to the choice that a key selects; return whether the choice can be selected now."""
        for number, choice in enumerate(self.choices):
            if key == choice.key or (key == str(number + 1) and not choice.key.isdecimal()):
                self._at = self.found.index(number)
                return self._is_seen(number) and not choice.asks_words
        return False

    def _enter(self) -> None:
        indices = self.found
        if self._at >= len(indices):
            return
        number = indices[self._at]
        choice = self.choices[number]
        if choice.asks_words and not self.field.text.strip():
            return
        if self._is_seen(number):
            self._take(number)

    def _is_seen(self, number: int) -> bool:
        return self._searches or number in self._seen

    def _take(self, number: int) -> None:
        choice = self.choices[number]
        words = self.field.text.strip() if choice.asks_words else ""
        chosen = tuple(sorted(self._marked)) if self._several and not words else (number,)
        self.answer.set_result(DialogAnswer(chosen=chosen or (number,), words=words))

    # -- drawing

    def lines(
        self, width: int, rows: int, theme: Theme
    ) -> tuple[list[Line], tuple[int, int] | None]:
        """Return at most `rows` lines, and the cursor position if text is typed."""
        head = [format_row(row) for row in wrap_spans([Span(self.title, theme["person"])], width)]
        foot, cursor = self._list(width, max(1, rows - len(head) - MIN_BODY), theme)
        if self._fits(rows - len(head) - MIN_BODY):
            room = rows - len(head) - len(foot)
            body = self._window(list(self._body(width)), room, width, theme)
        else:
            # There is no room for the text; it can be read next to a shorter choice.
            foot, cursor = self._list(width, max(1, rows - len(head)), theme)
            body = []
            if not self._fits(rows - len(head)):
                head = head[: max(1, rows - 2)]
                body = [format_row(clip_spans([Span(NO_ROOM, theme["notice"])], width))]
        above = [*head, *body]
        placed = None if cursor is None else (cursor[0] + len(above), cursor[1])
        self._seen = {number for number, end in self._ends.items() if len(above) + end <= rows}
        return [*above, *foot][:rows], placed

    def _fits(self, rows: int) -> bool:
        """Return whether the current choice, as last laid out, fits into this number of rows."""
        indices = self.found
        if self._searches or self._at >= len(indices):
            return True
        return self._ends[indices[self._at]] <= max(1, rows)

    def _window(self, body: list[Line], rows: int, width: int, theme: Theme) -> list[Line]:
        """Return the part of the text that fits, followed by a line on how to scroll if needed."""
        if len(body) <= rows:
            return body
        room = max(1, rows - 1)
        self._page = max(1, room - 1)
        last = len(body) - room
        self._is_at_end = self._is_at_end or (self._follows and self._scrolled >= last)
        self._scrolled = last if self._is_at_end else min(self._scrolled, last)
        end = self._scrolled + room
        words = f"  lines {self._scrolled + 1}-{end} of {len(body)} · PageUp/PageDown to scroll"
        if len(words) > width:
            words = f"  {self._scrolled + 1}-{end} of {len(body)} · PageUp/PageDown"
        return [
            *body[self._scrolled : end],
            format_row(clip_spans([Span(words, theme["quiet"])], width)),
        ]

    def _list(
        self, width: int, rows: int, theme: Theme
    ) -> tuple[list[Line], tuple[int, int] | None]:
        indices = self.found
        lines: list[Line] = []
        cursor = None
        if self._searches:
            text, (row, column) = lay_out(self.field.text, self.field.cursor_position, width - 10)
            lines.append(format_row([Span("  search: ", theme["quiet"]), Span(text[row])]))
            cursor = (0, 10 + column)
            rows -= 1
        self._ends = {}
        for view in self._shown(indices, rows, width, theme):
            if view.cursor is not None and not self._searches:
                cursor = (len(lines), view.cursor)
            lines += view.lines
            if view.is_whole:
                self._ends[view.number] = len(lines)
        if not indices:
            lines.append(format_row([Span("  no matches", theme["quiet"])]))
        return lines, cursor

    def _shown(self, indices: list[int], rows: int, width: int, theme: Theme) -> list[_Shown]:
        """Return the choices around the current one.

        If they do not all fit, only the current choice is complete, and the others get one row each.
        """

        def around(rows: int) -> range:
            first = max(0, min(self._at - rows // 2, len(indices) - rows))
            return range(first, min(first + rows, len(indices)))

        views = {at: self._choice(indices[at], at, width, theme) for at in around(rows)}
        if sum(len(view.lines) for view in views.values()) <= rows:
            return list(views.values())
        rows = max(1, rows - len(views[self._at].lines) + 1)
        return [views[at] if at == self._at else views[at].in_a_row for at in around(rows)]

    def _choice(self, number: int, at: int, width: int, theme: Theme) -> _Shown:
        choice, is_at = self.choices[number], at == self._at
        style = theme["marker"] if is_at else ""
        mark = "> " if is_at else "  "
        if self._several and not choice.asks_words:
            mark += "[x] " if number in self._marked else "[ ] "
        is_alone = len(self.choices) == 1 and choice.asks_words
        prefix = "" if self._searches or is_alone else f"{number + 1} "
        name = f"{choice.key} " if choice.key else prefix
        head = f"{mark}{name}"
        row: Row = [Span(join_lines(choice.label), style)]
        if choice.asks_words and is_at:
            begin = len(head) + len(row[0].text) + 2
            text, (at_row, column) = lay_out(
                self.field.text, self.field.cursor_position, max(10, width - begin)
            )
            row = [Span(head, style), *row, Span(": ", style), Span(text[at_row])]
            return _Shown(number, [format_row(clip_spans(row, width))], cursor=begin + column)
        if choice.hint:
            row.append(Span(f"  {join_lines(choice.hint)}", theme["quiet"]))
        first, *extra_rows = wrap_spans(row, width - len(head))
        below = [format_row([Span(" " * len(head)), *spans]) for spans in extra_rows]
        clip = format_row(clip_spans([Span(head, style), *row], width))
        return _Shown(number, [format_row([Span(head, style), *first]), *below], clip=clip)
