"""The session picker: an interactive list with search and preview, or a numbered list.

Like every dialog, `SessionChooser` is a state machine: sessions, search results and previews are
passed to it as they arrive, and it reports what to read next. `SessionPicker` reads the data.
Titles are read from the ends of the files, because the index may be older than the files (this
takes about two seconds for ten thousand sessions, and 8 ms per keystroke). The index is used only
to search the content. Data that was read for one list, query or session is never used for another.
`pick_session` asks in line mode.
"""

import asyncio
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from msgspec.structs import replace

from clew.agent.options import Options
from clew.core.json_object import Json
from clew.core.messages.encoding import decode
from clew.core.messages.errors import ClewError, CommandLineError
from clew.core.messages.text import format_count, format_size, replace_unprintable
from clew.fronts.dialog import Choice, DialogAnswer
from clew.fronts.render.folders import Folders
from clew.fronts.render.folding import Folds
from clew.fronts.render.recalled import render_recalled
from clew.fronts.render.rows import Line, Row, Span, clip_spans, format_row, join_lines, wrap_spans
from clew.fronts.render.theme import Look, Theme
from clew.fronts.terminal.choosing import EVERYWHERE, TREE, Chooser
from clew.fronts.terminal.prompt import lay_out
from clew.fronts.terminal.stage import Stage
from clew.record.library.branches import find_live_leaf, format_prompt, read_tree
from clew.record.library.copies import fork as fork_of
from clew.record.library.listing import list_newest_first
from clew.record.library.places import list_worktrees
from clew.record.library.search import Scope, folders_of, search
from clew.record.library.words import query_of
from clew.record.transcript.light import Outline, read_ends
from clew.system.clock import format_local, get_timestamp
from clew.system.config.paths import find_config_home

# The preview of a session: its folder and its last messages. Reads only the end of the file.


SHOWN_ROWS = 200
SAID = ("user", "assistant", "system")


def format_age(outline: Outline) -> str:
    return format_local(outline.modified_at)


def render_glimpse(outline: Outline, look: Look) -> list[Line]:
    """Return the preview of a session: a line about the session, and its last messages."""
    branch = "" if outline.git_branch == "HEAD" else outline.git_branch
    facts = (below_home(outline.cwd or ""), branch, outline.tag, format_size(outline.size_bytes))
    about = join_lines(" · ".join(filter(None, [*facts, outline.session_id[:8]])))
    folders = Folders(cwd=outline.cwd or "", home=str(Path("~").expanduser()))
    rows = render_recalled(ending(outline), SHOWN_ROWS, replace(look, folders=folders), Folds(""))
    return [format_row(clip_spans([Span(about, look.theme["quiet"])], look.width)), *rows]


def below_home(folder: str) -> str:
    """Return a folder's path, with `~` in place of the home folder."""
    home = str(Path("~").expanduser())
    return f"~{folder[len(home) :]}" if f"{folder}/".startswith(f"{home}/") else folder


def ending(outline: Outline) -> list[Json]:
    """Return the messages at the end of the session's file, without incomplete ones."""
    ends = read_ends(outline.path)
    entries = []
    for text in (ends.tail if ends is not None else b"").split(b"\n"):
        try:
            entry = decode(text)
        except ValueError:
            continue  # the first line, which may be cut, or a damaged one
        if type(entry) is dict and entry.get("type") in SAID and not entry.get("isSidechain"):
            entries.append(entry)
    return entries


Cursor: TypeAlias = tuple[int, int] | None
# The preview takes its space from the list, but only if both get a minimum.
MIN_LIST_ROWS, MIN_LOOK_ROWS = 4, 4
SHOWN_CHARACTERS = 200


class SessionChooser(Chooser):
    """The dialog with the list of sessions.

    The callbacks in `told` are called when the list, the query, the selected session or the width
    changes.
    """

    is_of_sessions = True

    def __init__(self, title: str, *, everywhere: bool) -> None:
        super().__init__(title, (), searches=True)
        self.everywhere = everywhere
        self.is_whole = False
        self.wants_tree: Outline | None = None
        self.told: list[Callable[[], object]] = []
        # The number of the current list; results for an earlier list are dropped.
        self.list_number = 0
        self.width = 0
        self.sessions: list[Outline] = []
        # The searchable text of each session, in lower case.
        self._haystack: list[str] = []
        self._at_path: dict[str, int] = {}
        # Sessions whose content matches the query, with snippets.
        self._snippets: Mapping[str, str] = {}
        # The query whose content matches are shown.
        self.searched = ""
        # Enter was pressed before there was a session; it selects the first one that arrives.
        self._is_ahead = False
        self._by_phrase: list[int] = []
        self._by_words: list[int] = []
        self._found: list[int] = []
        self._looks: dict[tuple[str, int], Sequence[Line]] = {}

    # -- data

    def add(self, sessions: Sequence[Outline]) -> None:
        """Add sessions. All of them must be older than those in the list."""
        first = len(self.sessions)
        self.sessions += sessions
        for number, outline in enumerate(sessions, first):
            prompt = outline.first_prompt if outline.first_prompt != outline.title else None
            parts = (
                outline.title,
                prompt,
                outline.cwd,
                outline.git_branch,
                outline.tag,
                outline.session_id,
            )
            self._haystack.append(" ".join(filter(None, parts)).lower())
            self._at_path[str(outline.path)] = number
        self._find(first)
        self._tell()

    def forget(self) -> None:
        """Clear the list before a list of other sessions is read."""
        self.sessions, self._haystack, self._at_path = [], [], {}
        self._by_phrase, self._by_words, self._found = [], [], []
        self._snippets, self.searched, self._at, self.is_whole = {}, "", 0, False
        self.list_number += 1

    def stands_in(self, words: str, snippets: Mapping[str, str]) -> None:
        """Set the search results for a query: a snippet for each file whose content matches."""
        if words == self.words:
            self._snippets, self.searched = snippets, words
            self._put_together()
            self._tell()

    def show(self, outline: Outline, width: int, lines: Sequence[Line]) -> None:
        self._looks[str(outline.path), width] = lines

    # -- what to read next

    @property
    def words(self) -> str:
        return self.field.text.strip()

    @property
    def chosen(self) -> Outline | None:
        return self.sessions[self._found[self._at]] if self._at < len(self._found) else None

    def is_looked_into(self, outline: Outline) -> bool:
        return (str(outline.path), self.width) in self._looks

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
        for callback in self.told:
            callback()

    def _find(self, first: int) -> None:
        """Find the sessions that match the query, starting at index `first`.

        Sessions that contain the entire phrase come first, then those that contain every word.
        """
        if first == 0:
            self._by_phrase, self._by_words = [], []
        phrase = " ".join(self.words.lower().split())
        matches = list(range(first, len(self._haystack)))
        # The longest word excludes the most sessions.
        for word in sorted(phrase.split(), key=len, reverse=True):
            matches = [number for number in matches if word in self._haystack[number]]
        self._by_phrase += [number for number in matches if phrase in self._haystack[number]]
        known_numbers = set(self._by_phrase)
        self._by_words += [number for number in matches if number not in known_numbers]
        self._put_together()

    def _put_together(self) -> None:
        """List the sessions that match by title or details, then those that match by content.

        The selected session stays selected if it is still listed.
        """
        at = self._found[self._at] if 0 < self._at < len(self._found) else None
        called = [*self._by_phrase, *self._by_words]
        known_numbers = set(called) if self._snippets else set()
        phrase_numbers = (self._at_path[path] for path in self._snippets if path in self._at_path)
        self._found = [
            *called,
            *(number for number in phrase_numbers if number not in known_numbers),
        ]
        self._at = self._found.index(at) if at in self._found else 0
        if self._is_ahead and self._found and not self.answer.done():
            self._enter()

    def _enter(self) -> None:
        if self._at < len(self._found):
            self.answer.set_result(DialogAnswer(chosen=(self._found[self._at],)))
        else:
            self._is_ahead = not self.is_whole

    # -- drawing

    def lines(self, width: int, rows: int, theme: Theme) -> tuple[list[Line], Cursor]:
        if width != self.width:
            self.width = width
            self._tell()
        text, (row, column) = lay_out(self.field.text, self.field.cursor_position, width - 10)
        head = [
            *map(format_row, wrap_spans(self._title(theme), width)),
            format_row([Span("  search: ", theme["quiet"]), Span(text[row])]),
        ]
        room = rows - len(head)
        row_count = min(max(len(self._found), 1), room)
        if room >= MIN_LIST_ROWS + MIN_LOOK_ROWS:
            row_count = min(row_count, max(MIN_LIST_ROWS, room // 2))
        listed = self._listed(row_count, width, theme)
        below = self._look(room - len(listed), width, theme)
        return [*head, *listed, *below], (len(head) - 1, 10 + column)

    def _title(self, theme: Theme) -> Row:
        many = format_count(len(self.sessions), "session")
        of = f"{len(self._found):,} of " if self.words else ""
        note = "" if self.is_whole else " (loading)"
        where = "in all folders" if self.everywhere else "in this folder"
        other = "this folder" if self.everywhere else "all folders"
        words = f"  {of}{many} {where}{note} · ctrl+a {other} · ctrl+t branches"
        return [Span(self.title, theme["person"]), Span(words, theme["quiet"])]

    def _listed(self, rows: int, width: int, theme: Theme) -> list[Line]:
        if not self._found:
            words = "  no matches" if self.is_whole else "  loading"
            return [format_row([Span(words, theme["quiet"])])]
        first = max(0, min(self._at - rows // 2, len(self._found) - rows))
        return [
            format_row(clip_spans(self._row(place, theme), width))
            for place in range(first, min(first + rows, len(self._found)))
        ]

    def _row(self, place: int, theme: Theme) -> Row:
        outline = self.sessions[self._found[place]]
        is_at = place == self._at
        folder = (
            f"{outline.cwd.rstrip('/').rpartition('/')[2]}: "
            if self.everywhere and outline.cwd
            else ""
        )
        label = f"{folder}{outline.title[:SHOWN_CHARACTERS]}"
        row: Row = [
            Span("> " if is_at else "  ", theme["marker"] if is_at else ""),
            Span(f"{format_age(outline)}  ", theme["quiet"]),
            Span(join_lines(label), theme["marker"] if is_at else ""),
        ]
        snippet = self._snippets.get(str(outline.path))
        if snippet and join_lines(snippet) not in label:
            row.append(Span(f"  {join_lines(snippet)}", theme["quiet"]))
        return row

    def _look(self, rows: int, width: int, theme: Theme) -> list[Line]:
        """Return the preview: its last rows, or earlier ones after PageUp."""
        outline = self.chosen
        looked = self._looks.get((str(outline.path), width)) if outline is not None else None
        if rows < MIN_LOOK_ROWS or not looked:
            return []
        rule = format_row([Span("─" * width, theme["rule"])])
        about, lines = looked[0], list(looked[1:])
        room = rows - 2
        self._page = max(1, room - 1)
        # Counted from the end: PageUp shows earlier rows.
        self._scrolled = max(0, min(self._scrolled, len(lines) - room))
        end = len(lines) - self._scrolled
        return [rule, about, *lines[max(0, end - room) : end]]


# Reading for the list, in the background.


TITLE = "Resume session"
# The first rows appear at once; the rest arrive in portions, so that keys are handled in between.
FIRST, PORTION = 40, 200
# Keys typed within this time form one query.
TYPING_S = 0.12
MOST_HITS = 300
TREE_TITLE_CHARACTERS = 60


class SessionPicker:
    """Lets the user pick a session.

    The session that is already open (ID `without`) is not listed.
    """

    def __init__(self, stage: Stage, home: Path, cwd: str, *, without: str = "") -> None:
        self._stage = stage
        self._home = home
        self._cwd = cwd
        self._without = without
        # The copy or other session that the user selected in the branch view.
        self._branched: Path | None = None

    async def pick(self, *, everywhere: bool = False) -> Path | None:
        """Let the user pick a session; return its file, or None."""
        dialog = SessionChooser(TITLE, everywhere=everywhere)
        async with asyncio.TaskGroup() as group:
            beside = [
                group.create_task(work(dialog, told(dialog)))
                for work in (self._read, self._search, self._look_into, self._show_trees)
            ]
            answer = await self._stage.answered(self._stage.show(dialog))
            for task in beside:
                task.cancel()
        if answer is None:
            return None
        return self._branched or dialog.sessions[answer.chosen[0]].path

    async def _read(self, dialog: SessionChooser, other: asyncio.Event) -> None:
        """Read the list of sessions, and read it again when the user changes its scope."""
        while True:
            number = dialog.list_number
            listed = list_newest_first(self._home, self._cwd, everywhere=dialog.everywhere)
            portion = FIRST
            while number == dialog.list_number and not dialog.is_whole:
                outlines = await asyncio.to_thread(next_of, listed, portion)
                if number != dialog.list_number:
                    break
                dialog.add([outline for outline in outlines if outline.session_id != self._without])
                dialog.is_whole = len(outlines) < portion
                portion = PORTION
                self._stage.changed()
            while number == dialog.list_number:
                await other.wait()
                other.clear()

    async def _search(self, dialog: SessionChooser, other: asyncio.Event) -> None:
        """Search the content of the sessions for the typed words."""
        while True:
            await other.wait()
            other.clear()
            await asyncio.sleep(TYPING_S)
            words, number = dialog.words, dialog.list_number
            query = query_of(f"{words}*")
            if words == dialog.searched or query.is_empty:
                continue
            folders = (
                None if dialog.everywhere else folders_of(self._home, list_worktrees(self._cwd))
            )
            result = await asyncio.to_thread(
                search,
                self._home,
                query,
                Scope(folders=folders, agents=False),
                limit=MOST_HITS,
                reads_files=False,
            )
            if number == dialog.list_number:
                snippets: dict[str, str] = {}
                for hit in result.hits:
                    snippets.setdefault(hit.path, hit.snippet)
                dialog.stands_in(words, snippets)
                self._stage.changed()

    async def _look_into(self, dialog: SessionChooser, other: asyncio.Event) -> None:
        while True:
            await other.wait()
            other.clear()
            outline, width = dialog.chosen, dialog.width
            if outline is None or not width or dialog.is_looked_into(outline):
                continue
            look = Look(width, self._stage.theme)
            dialog.show(outline, width, await asyncio.to_thread(render_glimpse, outline, look))
            self._stage.changed()

    async def _show_trees(self, dialog: SessionChooser, other: asyncio.Event) -> None:
        """Show the prompts on all branches of a session when the user asks for them.

        If the user selects a prompt, the session is resumed from there: in a copy or, if the prompt
        is the last one on the current branch, in the session itself.
        """
        while True:
            await other.wait()
            other.clear()
            outline, dialog.wants_tree = dialog.wants_tree, None
            if outline is None:
                continue
            try:
                path = await self._of_tree(outline)
            except (ClewError, OSError) as error:
                self._stage.hint(f"{outline.session_id}: {error}")
                continue
            if path is not None and not dialog.answer.done():
                self._branched = path
                dialog.answer.set_result(DialogAnswer(chosen=(0,)))

    async def _of_tree(self, outline: Outline) -> Path | None:
        session_tree = await asyncio.to_thread(read_tree, outline.path)
        choices = [
            Choice(label=join_lines(format_prompt(prompt))) for prompt in session_tree.prompts
        ]
        choices += [
            Choice(label=join_lines(f"Fork: {fork['title']}")) for fork in session_tree.forks
        ]
        name = join_lines(outline.title[:TREE_TITLE_CHARACTERS])
        title = f"Branches of “{name}”: select where to continue"
        answer = await self._stage.answered(
            self._stage.show(
                Chooser(title, choices, searches=True, at=find_live_leaf(session_tree))
            )
        )
        if answer is None:
            return None
        number = answer.chosen[0]
        if number >= len(session_tree.prompts):
            fork = session_tree.forks[number - len(session_tree.prompts)]
            return outline.path.with_name(f"{fork['sessionId']}.jsonl")
        prompt = session_tree.prompts[number]
        if prompt.live and prompt.is_leaf:
            return outline.path
        at = get_timestamp()
        copy = await asyncio.to_thread(lambda: fork_of(outline.path, prompt.end, title="", at=at))
        return copy.path


def told(dialog: SessionChooser) -> asyncio.Event:
    """Return an event that is set when the dialog may need other data."""
    event = asyncio.Event()
    dialog.told.append(event.set)
    return event


def next_of(listed: Iterator[Outline], many: int) -> list[Outline]:
    return list(islice(listed, many))


# Line mode: for `--resume` without a session where nothing can be drawn. Without a terminal, the
# list is the error message.


NUMBERED = 20


def pick_session(options: Options) -> Options:
    """Return the options, changed to resume the session that the user picks.

    Raise `CommandLineError` if no session is picked.
    """
    outlines = recent()
    lines = [_row(number, outline) for number, outline in enumerate(outlines, 1)]
    if options.is_print or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CommandLineError("--resume: choose one of these sessions:\n" + "\n".join(lines))
    print("\n".join(lines))
    answer = _asked(outlines)
    return replace(options, resume=answer)


def recent(most: int = NUMBERED) -> list[Outline]:
    """Return the newest sessions of this folder; raise `CommandLineError` if there are none."""
    home, cwd = find_config_home(os.environ, Path.cwd()), str(Path.cwd())
    outlines = list(islice(list_newest_first(home, cwd, everywhere=False), most))
    if not outlines:
        raise CommandLineError(
            "--resume: no sessions in this folder; list others with `clew sessions list --all`"
        )
    return outlines


def _asked(outlines: list[Outline]) -> str:
    try:
        answer = input("Session (number, ID or title; Enter for the first): ").strip()
    except EOFError:
        raise CommandLineError("--resume: no session selected") from None
    if not answer:
        return str(outlines[0].path)
    if answer.isdecimal() and 1 <= int(answer) <= len(outlines):
        return str(outlines[int(answer) - 1].path)
    return answer


def _row(number: int, outline: Outline) -> str:
    return f"{number:>3}  {format_age(outline)}  {outline.session_id}  {title(outline)}"


def title(outline: Outline) -> str:
    return replace_unprintable(outline.title[:70])
