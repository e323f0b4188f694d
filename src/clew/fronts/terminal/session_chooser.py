"""Which session to go on with: the list, what was typed to find one, a look into the one that is chosen.

A machine, as every dialog is one: sessions, the words found in them and looks into them are given to it
as they come, and it says what it wants next. Nothing is read here.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from clew.core.json_object import Json
from clew.core.messages.encoding import decode
from clew.core.messages.text import count_of, size_of
from clew.fronts.render.folding import Folds
from clew.fronts.render.recalled import recalled
from clew.fronts.render.rows import Line, Row, Span, as_line, clipped, one_line, wrapped
from clew.fronts.render.theme import Look, Theme
from clew.fronts.terminal.choosing import EVERYWHERE, TREE, Chooser, DialogAnswer
from clew.fronts.terminal.prompt import laid_out
from clew.record.transcript.light import Outline, read_ends
from clew.system.clock import here

# What a session is about, before it is gone on with: where it was, and how it ended. Reads the file's end alone.


SHOWN_ROWS = 200
SAID = ("user", "assistant", "system")


def when(one: Outline) -> str:
    return here(one.modified_at)


def glimpse(one: Outline, look: Look) -> list[Line]:
    """A line about the session, and the end of what was said in it."""
    branch = "" if one.git_branch == "HEAD" else one.git_branch
    facts = (below_home(one.cwd or ""), branch, one.tag, size_of(one.size_bytes))
    about = one_line(" · ".join(filter(None, [*facts, one.session_id[:8]])))
    said = recalled(ending(one), SHOWN_ROWS, look, Folds(""))
    return [as_line(clipped([Span(about, look.theme["quiet"])], look.width)), *said]


def below_home(folder: str) -> str:
    """A folder as a person names it."""
    home = str(Path("~").expanduser())
    return f"~{folder[len(home) :]}" if f"{folder}/".startswith(f"{home}/") else folder


def ending(one: Outline) -> list[Json]:
    """The last messages of the file, as far as its end holds them whole."""
    ends = read_ends(one.path)
    found = []
    for text in (ends.tail if ends is not None else b"").split(b"\n"):
        try:
            entry = decode(text)
        except ValueError:
            continue  # the line that the cut went through, or a damaged one
        if type(entry) is dict and entry.get("type") in SAID and not entry.get("isSidechain"):
            found.append(entry)
    return found


Cursor: TypeAlias = tuple[int, int] | None
# A look into a session takes its room from the list, and only where both have some.
MIN_LIST_ROWS, MIN_LOOK_ROWS = 4, 4
SHOWN_CHARACTERS = 200


class SessionChooser(Chooser):
    """`told` are called when something else is to be read: other words, another session, another width."""

    is_of_sessions = True

    def __init__(self, title: str, *, everywhere: bool) -> None:
        super().__init__(title, (), searches=True)
        self.everywhere = everywhere
        self.is_whole = False
        self.wants_tree: Outline | None = None
        self.told: list[Callable[[], object]] = []
        # Counts the lists there were: what is read for an older one is not added to a newer.
        self.list_number = 0
        self.width = 0
        self.sessions: list[Outline] = []
        # What each can be found by, as it was typed to find it.
        self._haystack: list[str] = []
        self._at_path: dict[str, int] = {}
        # Sessions in which the words stand, with what is around them.
        self._snippets: Mapping[str, str] = {}
        # The words that were looked for in what was said.
        self.searched = ""
        # Enter was pressed before there was anything: it means the first that comes.
        self._is_ahead = False
        self._by_phrase: list[int] = []
        self._by_words: list[int] = []
        self._found: list[int] = []
        self._looks: dict[tuple[str, int], Sequence[Line]] = {}

    # -- what is given

    def add(self, sessions: Sequence[Outline]) -> None:
        """More of them, each older than what is there."""
        first = len(self.sessions)
        self.sessions += sessions
        for number, one in enumerate(sessions, first):
            prompt = one.first_prompt if one.first_prompt != one.title else None
            parts = (one.title, prompt, one.cwd, one.git_branch, one.tag, one.session_id)
            self._haystack.append(" ".join(filter(None, parts)).lower())
            self._at_path[str(one.path)] = number
        self._find(first)
        self._tell()

    def forget(self) -> None:
        """Others are listed from now on."""
        self.sessions, self._haystack, self._at_path = [], [], {}
        self._by_phrase, self._by_words, self._found = [], [], []
        self._snippets, self.searched, self._at, self.is_whole = {}, "", 0, False
        self.list_number += 1

    def stands_in(self, words: str, snippets: Mapping[str, str]) -> None:
        """The sessions, by their files, in which these words were said."""
        if words == self.words:
            self._snippets, self.searched = snippets, words
            self._put_together()
            self._tell()

    def show(self, one: Outline, width: int, lines: Sequence[Line]) -> None:
        self._looks[str(one.path), width] = lines

    # -- what is wanted

    @property
    def words(self) -> str:
        return self.field.text.strip()

    @property
    def chosen(self) -> Outline | None:
        return self.sessions[self._found[self._at]] if self._at < len(self._found) else None

    def is_looked_into(self, one: Outline) -> bool:
        return (str(one.path), self.width) in self._looks

    # -- keys

    @property
    def found(self) -> list[int]:
        return self._found

    def press(self, key: str) -> None:
        self._is_ahead = False
        if key == EVERYWHERE:
            self.forget()
            self.everywhere = not self.everywhere
        elif key == TREE:
            self.wants_tree = self.chosen
        elif key == "pageup":
            self._scrolled += self._page
        elif key == "pagedown":
            self._scrolled = max(0, self._scrolled - self._page)
        else:
            super().press(key)
            self._scrolled = 0
        self._tell()

    def typed(self) -> None:
        self._snippets, self.searched, self._scrolled, self._at = {}, "", 0, 0
        self._is_ahead = False
        self._find(0)
        self._tell()

    def _tell(self) -> None:
        for told in self.told:
            told()

    def _find(self, first: int) -> None:
        """Among those from a number on: what was typed in one piece, then every word of it somewhere."""
        if first == 0:
            self._by_phrase, self._by_words = [], []
        phrase = " ".join(self.words.lower().split())
        found = list(range(first, len(self._haystack)))
        # The longest word leaves the fewest.
        for word in sorted(phrase.split(), key=len, reverse=True):
            found = [number for number in found if word in self._haystack[number]]
        self._by_phrase += [number for number in found if phrase in self._haystack[number]]
        known = set(self._by_phrase)
        self._by_words += [number for number in found if number not in known]
        self._put_together()

    def _put_together(self) -> None:
        """Those that are called so, then those in which it was said; who chose one stays at it."""
        at = self._found[self._at] if 0 < self._at < len(self._found) else None
        called = [*self._by_phrase, *self._by_words]
        known = set(called) if self._snippets else set()
        said = (self._at_path[path] for path in self._snippets if path in self._at_path)
        self._found = [*called, *(number for number in said if number not in known)]
        self._at = self._found.index(at) if at in self._found else 0
        if self._is_ahead and self._found and not self.answer.done():
            self._enter()

    def _enter(self) -> None:
        if self._at < len(self._found):
            self.answer.set_result(DialogAnswer(chosen=(self._found[self._at],)))
        else:
            self._is_ahead = not self.is_whole

    # -- how it looks

    def lines(self, width: int, rows: int, theme: Theme) -> tuple[list[Line], Cursor]:
        if width != self.width:
            self.width = width
            self._tell()
        text, (row, column) = laid_out(self.field.text, self.field.cursor_position, width - 10)
        head = [
            *map(as_line, wrapped(self._title(theme), width)),
            as_line([Span("  search: ", theme["quiet"]), Span(text[row])]),
        ]
        room = rows - len(head)
        shown = min(max(len(self._found), 1), room)
        if room >= MIN_LIST_ROWS + MIN_LOOK_ROWS:
            shown = min(shown, max(MIN_LIST_ROWS, room // 2))
        listed = self._listed(shown, width, theme)
        below = self._look(room - len(listed), width, theme)
        return [*head, *listed, *below], (len(head) - 1, 10 + column)

    def _title(self, theme: Theme) -> Row:
        many = count_of(len(self.sessions), "session")
        of = f"{len(self._found):,} of " if self.words else ""
        more = "" if self.is_whole else ", reading on"
        where = "everywhere" if self.everywhere else "in this folder"
        other = "this folder" if self.everywhere else "everywhere"
        words = f"  {of}{many} {where}{more}; Ctrl-A {other}, Ctrl-T branches"
        return [Span(self.title, theme["person"]), Span(words, theme["quiet"])]

    def _listed(self, rows: int, width: int, theme: Theme) -> list[Line]:
        if not self._found:
            words = "  nothing matches" if self.is_whole else "  reading"
            return [as_line([Span(words, theme["quiet"])])]
        first = max(0, min(self._at - rows // 2, len(self._found) - rows))
        return [
            as_line(clipped(self._row(place, theme), width))
            for place in range(first, min(first + rows, len(self._found)))
        ]

    def _row(self, place: int, theme: Theme) -> Row:
        one = self.sessions[self._found[place]]
        is_at = place == self._at
        folder = (
            f"{one.cwd.rstrip('/').rpartition('/')[2]}: " if self.everywhere and one.cwd else ""
        )
        label = f"{folder}{one.title[:SHOWN_CHARACTERS]}"
        row: Row = [
            Span("> " if is_at else "  ", theme["marker"] if is_at else ""),
            Span(f"{when(one)}  ", theme["quiet"]),
            Span(one_line(label), theme["marker"] if is_at else ""),
        ]
        snippet = self._snippets.get(str(one.path))
        if snippet and one_line(snippet) not in label:
            row.append(Span(f"  {one_line(snippet)}", theme["quiet"]))
        return row

    def _look(self, rows: int, width: int, theme: Theme) -> list[Line]:
        """The end of the conversation, from its last row up; PageUp goes back in it."""
        one = self.chosen
        looked = self._looks.get((str(one.path), width)) if one is not None else None
        if rows < MIN_LOOK_ROWS or not looked:
            return []
        rule = as_line([Span("─" * width, theme["rule"])])
        about, said = looked[0], list(looked[1:])
        room = rows - 2
        self._page = max(1, room - 1)
        # From the end: PageUp shows what was before.
        self._scrolled = max(0, min(self._scrolled, len(said) - room))
        end = len(said) - self._scrolled
        return [rule, about, *said[max(0, end - room) : end]]
