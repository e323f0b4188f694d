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
from clew.fronts.render.rows import (
    Line,
    Row,
    Span,
    clip_spans,
    count_cells,
    format_row,
    join_lines,
    wrap_spans,
)
from clew.fronts.render.theme import Theme
from clew.fronts.terminal.completion import match_names
from clew.fronts.terminal.prompt import lay_out

# The fewest rows of a long text, including the row that says how to scroll.
MIN_BODY, SMALL_BODY = 3, 2
# Shown instead of a choice that does not fit and so cannot be selected.
NO_ROOM = "  window too small: enlarge it or press Esc"
# Keys that only the session picker handles.
EVERYWHERE, TREE = "everywhere", "tree"


class _Shown(Struct):
    """A choice as drawn.

    `lines` contains all of its rows. `clip` is a one-row version, empty if it is not needed.
    """

    number: int
    lines: list[Line]
    clip: Line = ""
    cursor: int | None = None
    is_whole: bool = True


def no_body(_: int) -> Sequence[Line]:
    return ()


class Chooser:
    """A dialog. The future `answer` is set once; None means that the user dismissed the dialog.

    With `several`, Space marks choices; with `searches`, typed text filters the list. A choice can
    be selected only if it was fully visible when last drawn; the key of any other choice only moves
    to that choice. A choice that refuses can always be selected. With `follows`, the end of a
    growing text is shown until the user scrolls up. `escape` is the verb for Escape in the legend;
    if it is empty, there is no legend.
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
        escape: str = "cancel",
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
        self._escape = escape
        # What the legend says about keys that a dialog around this one handles.
        self.moves = ""
        self._is_at_end = follows
        self._marked: set[int] = set()
        self._at = at
        # Whether the text field of a choice with optional text is open.
        self._is_writing = False
        # The choices that were fully visible when last drawn.
        self._seen: set[int] = set()
        self._scrolled = 0
        self._page = 1

    # Whether the keys of the session picker are active, and those that go to other questions.
    is_of_sessions = has_tabs = False

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
        return self._searches or self._takes_words

    @property
    def _takes_words(self) -> bool:
        current = self._current
        return current is not None and (current.asks_words or self._is_writing)

    @property
    def selected(self) -> int:
        """The index of the selected choice among all choices; 0 if none matches the typed text."""
        return next(iter(self.found[self._at : self._at + 1]), 0)

    @property
    def _current(self) -> Choice | None:
        indices = self.found
        return self.choices[indices[self._at]] if self._at < len(indices) else None

    def press(self, key: str) -> None:
        """Handle a key, given by name or as a letter."""
        if self.answer.done():
            return
        match key:
            case "up" | "backtab":
                self._move(-1)
            case "down":
                self._move(1)
            case "tab":
                if not self._write():
                    self._move(1)
            case "pageup":
                self._scrolled = max(0, self._scrolled - self._page)
                self._is_at_end = False
            case "pagedown":
                self._scrolled += self._page
            case "escape" if self._is_writing:
                self._is_writing = False
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
        keys = {key for choice in self.choices for key in (choice.key, choice.words_key)}
        return is_number or letter.lower() in {key.lower() for key in keys}

    def typed(self) -> None:
        """Handle a change of the typed text."""
        if self._searches:
            self._at = 0

    def _move(self, steps: int) -> None:
        self._is_writing = False
        count = len(self.found)
        if count:
            self._at = (self._at + steps) % count

    def _mark(self) -> None:
        self._marked ^= {self.found[self._at]}

    def _write(self, key: str = "") -> bool:
        """Open the text field with this key, or the first text field if `key` is empty.

        Return whether there is such a field.
        """
        for number, choice in enumerate(self.choices):
            if choice.words_key and key in ("", choice.words_key):
                self._at = self.found.index(number)
                self._is_writing = True
                return True
        return False

    @property
    def marked(self) -> DialogAnswer | None:
        """The marked choices as an answer, or None if none is marked."""
        return DialogAnswer(chosen=tuple(sorted(self._marked))) if self._marked else None

    def point(self, letter: str) -> bool:
        """Move to the choice that a letter selects; return whether the letter can be the answer.

        It can't if the choice can't be selected now, or if letters only mark choices.
        """
        return self._goes_to(letter) and not self._several

    def _letter(self, key: str) -> None:
        if self._write(key) or not self._goes_to(key):
            return
        if self._several:
            self._mark()
        else:
            self._take(self.found[self._at])

    def _goes_to(self, key: str) -> bool:
        """Move to the choice that a key selects; return whether the choice can be selected now."""
        for number, choice in enumerate(self.choices):
            if key == choice.key or (key == str(number + 1) and not choice.key.isdecimal()):
                self._is_writing = False
                self._at = self.found.index(number)
                return self._is_seen(number) and not choice.asks_words
        return False

    def _enter(self) -> None:
        indices = self.found
        if self._at >= len(indices):
            return
        number = indices[self._at]
        if self._takes_words and not self._searches and not self.field.text.strip():
            return
        if self._is_seen(number):
            self._take(number)

    def _is_seen(self, number: int) -> bool:
        return self._searches or self.choices[number].refuses or number in self._seen

    def _take(self, number: int) -> None:
        words = self.field.text.strip() if self._takes_words else ""
        chosen = tuple(sorted(self._marked)) if self._several and not words else (number,)
        self.answer.set_result(DialogAnswer(chosen=chosen or (number,), words=words))

    # -- drawing

    def lines(
        self, width: int, rows: int, theme: Theme
    ) -> tuple[list[Line], tuple[int, int] | None]:
        """Return at most `rows` lines, and the cursor position if text is typed."""
        head = [format_row(row) for row in wrap_spans([Span(self.title, theme["person"])], width)]
        body = list(self._body(width))
        legend = self._legend(width, theme)
        search, cursor = self._search(width, theme)
        room = rows - len(head) - len(search)
        indices = self.found
        here = indices[self._at : self._at + 1]
        views, marker, legend, room = self._arrange(indices, room, body, legend, width, theme)
        if not all(view.is_whole for view in views if view.number in here):
            head = head[: max(1, rows - len(views) - 1)]
            body = [format_row(clip_spans([Span(NO_ROOM, theme["notice"])], width))]
            room = 1
        # A blank row between the text and the choices, if there is room for it.
        gap = [""] if body and len(body) < room else []
        lines = [*head, *self._window(body, room, width, theme), *gap, *search]
        cursor = None if cursor is None else (len(lines) - 1, cursor[1])
        self._seen = set()
        for view in views:
            if view.cursor is not None and cursor is None:
                cursor = (len(lines), view.cursor)
            lines += view.lines
            if view.is_whole and len(lines) <= rows:
                self._seen.add(view.number)
        return [*lines, *marker, *legend][:rows], cursor

    def _search(self, width: int, theme: Theme) -> tuple[list[Line], tuple[int, int] | None]:
        """Return the row with the text to search for, and the cursor's position in it."""
        if not self._searches:
            return [], None
        text, (row, column) = lay_out(self.field.text, self.field.cursor_position, width - 10)
        line = format_row([Span("  search: ", theme["quiet"]), Span(text[row])])
        return [line], (0, 10 + column)

    def _arrange(
        self,
        indices: list[int],
        room: int,
        body: list[Line],
        legend: list[Line],
        width: int,
        theme: Theme,
    ) -> tuple[list[_Shown], list[Line], list[Line], int]:
        """Distribute rows to the choices, the legend and the text.

        Return the choices to draw, the row that says how many are hidden, the legend if there is
        room for it, and the number of rows that are left for the text. If not everything fits, the
        legend is dropped first. Then all choices but the current one are shortened to a row each,
        and then the text gets fewer rows. Only then are choices hidden, except those that refuse.
        """
        least = min(len(body), MIN_BODY)
        for reserved, shown_legend, is_compact in (
            (least, legend, False),
            (least, [], False),
            (least, [], True),
            (min(len(body), SMALL_BODY), [], True),
            (0, [], True),
        ):
            rows = room - reserved - len(shown_legend)
            views = self._all(indices, rows, width, theme, is_compact=is_compact)
            if views is not None:
                left = room - len(shown_legend) - sum(len(view.lines) for view in views)
                return views, [], shown_legend, left
        if self._searches:
            room -= least + len(legend)
            return *self._some(indices, room, width, theme), legend, least
        return *self._some(indices, room, width, theme), [], 0

    def _all(
        self, indices: list[int], rows: int, width: int, theme: Theme, *, is_compact: bool
    ) -> list[_Shown] | None:
        """Return all choices, or None if they do not fit."""
        if len(indices) > rows:
            return None
        if not indices:
            return [_Shown(-1, [format_row([Span("  no matches", theme["quiet"])])])]
        views = [
            self._choice(number, width, theme, is_at=at == self._at, is_compact=is_compact)
            for at, number in enumerate(indices)
        ]
        return views if sum(len(view.lines) for view in views) <= rows else None

    def _some(
        self, indices: list[int], rows: int, width: int, theme: Theme
    ) -> tuple[list[_Shown], list[Line]]:
        """Return the choices around the current one, and a row that says how many are hidden."""
        if not indices:
            return [_Shown(-1, [format_row([Span("  no matches", theme["quiet"])])])], []
        visible = [
            at
            for at, number in enumerate(indices)
            if self.choices[number].refuses and at != self._at
        ]
        current = self._choice(indices[self._at], width, theme, is_at=True, is_compact=True)
        rows = max(1, rows)
        if len(current.lines) + len(visible) > rows:
            current = self._in_a_row(indices[self._at], width, theme, is_at=True)
            # One row is needed for the message that says why the choice is missing.
            rows = max(1, rows - 1)
        visible = visible[: rows - len(current.lines)]
        others = [at for at in range(len(indices)) if at not in visible]
        room = rows - len(current.lines) - len(visible)
        count = max(0, room if len(others) <= room + 1 else room - 1)
        place = others.index(self._at)
        first = max(0, min(place - count // 2, len(others) - 1 - count))
        places = others[first : first + count + 1]
        views = [
            current if at == self._at else self._in_a_row(indices[at], width, theme)
            for at in [*places, *visible]
        ]
        below = len(others) - first - len(places)
        hidden = [f"{sign} {many} more" for sign, many in (("↑", first), ("↓", below)) if many]
        words = f"  {' · '.join(hidden)}"
        has_marker = bool(hidden) and room > count
        return views, [format_row([Span(words, theme["quiet"])])] if has_marker else []

    def _window(self, body: list[Line], rows: int, width: int, theme: Theme) -> list[Line]:
        """Return the part of the text that fits and, if needed, a line that says how to scroll."""
        if len(body) <= rows or rows < 1:
            return body[: max(0, rows)]
        # In a single row, there is room only to say that there is text to scroll to.
        room = rows - 1
        self._page = max(1, room - 1)
        last = len(body) - room
        self._is_at_end = self._is_at_end or (self._follows and self._scrolled >= last)
        self._scrolled = last if self._is_at_end else min(self._scrolled, last)
        end = self._scrolled + room
        sides = (("↑", self._scrolled), ("↓", len(body) - end))
        more = " · ".join(f"{sign} {many} more" for sign, many in sides if many)
        words = f"  {more} · PageUp/PageDown to scroll"
        if len(words) > width:
            words = f"  {more} · PageUp/PageDown"
        return [
            *body[self._scrolled : end],
            format_row(clip_spans([Span(words, theme["quiet"])], width)),
        ]

    def _legend(self, width: int, theme: Theme) -> list[Line]:
        """Return the row that names the keys. If they do not fit, omit keys from the start."""
        if not self._escape:
            return []
        if self._is_writing:
            names = ["Enter send", "Esc to go back"]
        else:
            names = [
                "Type to search" if self._searches else "",
                "↑↓ select" if len(self.choices) > 1 else "",
                "Space mark" if self._several else "",
                self.moves,
                "Enter confirm",
                "Tab add instructions" if any(c.words_key for c in self.choices) else "",
                f"Esc to {self._escape}",
            ]
        names = [name for name in names if name]
        while len(names) > 1 and len(" · ".join(names)) + 2 > width:
            del names[0]
        return [format_row(clip_spans([Span(f"  {' · '.join(names)}", theme["quiet"])], width))]

    def _in_a_row(self, number: int, width: int, theme: Theme, *, is_at: bool = False) -> _Shown:
        """Return a choice shortened to one row."""
        view = self._choice(number, width, theme, is_at=is_at, is_compact=True)
        if len(view.lines) == 1:
            return view
        return _Shown(number, [view.clip], is_whole=False)

    def _choice(
        self, number: int, width: int, theme: Theme, *, is_at: bool, is_compact: bool
    ) -> _Shown:
        """Draw a choice.

        If `is_compact` is set, draw its shorter label, and draw it in one row unless it is the
        current choice.
        """
        choice = self.choices[number]
        style = theme["marker"] if is_at else ""
        mark = "> " if is_at else "  "
        if self._several and not choice.asks_words:
            mark += "[x] " if number in self._marked else "[ ] "
        is_alone = len(self.choices) == 1 and choice.asks_words
        head = mark if self._searches or is_alone else f"{mark}{number + 1}. "
        if is_at and self._takes_words:
            return self._written(number, head, width, style)
        label = choice.compact if is_compact and choice.compact else choice.label
        row: Row = [Span(join_lines(label), style)]
        if choice.hint:
            row.append(Span(f"  {join_lines(choice.hint)}", theme["quiet"]))
        first, *extra_rows = wrap_spans(row, width - len(head))
        clip = format_row(clip_spans([Span(head, style), *row], width)) if extra_rows else ""
        if clip and is_compact and not is_at:
            return _Shown(number, [clip], is_whole=False)
        below = [format_row([Span(" " * len(head)), *spans]) for spans in extra_rows]
        return _Shown(number, [format_row([Span(head, style), *first]), *below], clip=clip)

    def _written(self, number: int, head: str, width: int, style: str) -> _Shown:
        """Draw the choice whose text is being typed."""
        choice = self.choices[number]
        label = join_lines(choice.words_label if self._is_writing else choice.label)
        begin = count_cells(f"{head}{label}: ")
        text, (at_row, column) = lay_out(
            self.field.text, self.field.cursor_position, max(10, width - begin)
        )
        row = [Span(f"{head}{label}: ", style), Span(text[at_row])]
        return _Shown(number, [format_row(clip_spans(row, width))], cursor=begin + column)
