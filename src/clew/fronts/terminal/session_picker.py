"""Finds the session that a person goes on with: reads the list beside the typing, looks into what is
chosen, searches what was said, shows the tree of one, and makes the copy that goes on from a branch.

Titles come from the ends of the files (ten thousand in about two seconds, 8 ms a keystroke), because the
index may be older than they are; the index answers only for content. Owns what is read when. Nothing read for one list, word or session reaches another.
"""

import asyncio
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from clew.core.messages.errors import ClewError
from clew.core.messages.factories import written
from clew.fronts.render.rows import one_line
from clew.fronts.render.theme import Look
from clew.fronts.terminal.choosing import Choice, Chooser, DialogAnswer
from clew.fronts.terminal.session_chooser import SessionChooser, glimpse
from clew.fronts.terminal.stage import Stage
from clew.record.library.branches import live_leaf, prompt_line, tree
from clew.record.library.copies import fork as fork_of
from clew.record.library.listing import newest_first
from clew.record.library.places import worktrees
from clew.record.library.search import Scope, folders_of, search
from clew.record.library.words import query_of
from clew.record.transcript.light import Outline

TITLE = "Go on with"
# The first rows are there at once; the rest comes in portions, so that keys are heard in between.
FIRST, PORTION = 40, 200
# What is typed within so long is one word, and one search.
TYPING_S = 0.12
MOST_HITS = 300
SHOWN_CHARACTERS = 60


class SessionPicker:
    """`without` is a session that is open already."""

    def __init__(self, stage: Stage, home: Path, cwd: str, *, without: str = "") -> None:
        self._stage = stage
        self._home = home
        self._cwd = cwd
        self._without = without
        # What a branch was chosen from makes the answer: a copy, or another session.
        self._branched: Path | None = None

    async def pick(self, *, everywhere: bool = False) -> Path | None:
        """The file of the session; None if none was chosen."""
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
        """The list, and another one when another is wanted."""
        while True:
            number = dialog.list_number
            listed = newest_first(self._home, self._cwd, everywhere=dialog.everywhere)
            portion = FIRST
            while number == dialog.list_number and not dialog.is_whole:
                found = await asyncio.to_thread(next_of, listed, portion)
                if number != dialog.list_number:
                    break
                dialog.add([one for one in found if one.session_id != self._without])
                dialog.is_whole = len(found) < portion
                portion = PORTION
                self._stage.changed()
            while number == dialog.list_number:
                await other.wait()
                other.clear()

    async def _search(self, dialog: SessionChooser, other: asyncio.Event) -> None:
        """The sessions in which the words that were typed were said."""
        while True:
            await other.wait()
            other.clear()
            await asyncio.sleep(TYPING_S)
            words, number = dialog.words, dialog.list_number
            query = query_of(f"{words}*")
            if words == dialog.searched or query.is_empty:
                continue
            folders = None if dialog.everywhere else folders_of(self._home, worktrees(self._cwd))
            found = await asyncio.to_thread(
                search,
                self._home,
                query,
                Scope(folders=folders, agents=False),
                limit=MOST_HITS,
                reads_files=False,
            )
            if number == dialog.list_number:
                snippets: dict[str, str] = {}
                for hit in found.hits:
                    snippets.setdefault(hit.path, hit.snippet)
                dialog.stands_in(words, snippets)
                self._stage.changed()

    async def _look_into(self, dialog: SessionChooser, other: asyncio.Event) -> None:
        while True:
            await other.wait()
            other.clear()
            one, width = dialog.chosen, dialog.width
            if one is None or not width or dialog.is_looked_into(one):
                continue
            look = Look(width, self._stage.theme)
            dialog.show(one, width, await asyncio.to_thread(glimpse, one, look))
            self._stage.changed()

    async def _show_trees(self, dialog: SessionChooser, other: asyncio.Event) -> None:
        """A session's prompts on all its branches; the one that is chosen is gone on from, in a copy."""
        while True:
            await other.wait()
            other.clear()
            one, dialog.wants_tree = dialog.wants_tree, None
            if one is None:
                continue
            try:
                path = await self._of_tree(one)
            except (ClewError, OSError) as error:
                self._stage.hint(f"{one.session_id}: {error}")
                continue
            if path is not None and not dialog.answer.done():
                self._branched = path
                dialog.answer.set_result(DialogAnswer(chosen=(0,)))

    async def _of_tree(self, one: Outline) -> Path | None:
        found = await asyncio.to_thread(tree, one.path)
        choices = [Choice(label=one_line(prompt_line(prompt))) for prompt in found.prompts]
        choices += [
            Choice(label=f"forked at {fork['messageUuid'][:8]}: {one_line(fork['sessionId'])}")
            for fork in found.forks
        ]
        title = f"Branches of “{one_line(one.title[:SHOWN_CHARACTERS])}”: go on behind"
        answer = await self._stage.answered(
            self._stage.show(Chooser(title, choices, searches=True, at=live_leaf(found)))
        )
        if answer is None:
            return None
        number = answer.chosen[0]
        if number >= len(found.prompts):
            fork = found.forks[number - len(found.prompts)]
            return one.path.with_name(f"{fork['sessionId']}.jsonl")
        prompt = found.prompts[number]
        if prompt.live and prompt.is_leaf:
            return one.path
        at = written(time.time_ns() // 1_000_000)
        made = await asyncio.to_thread(lambda: fork_of(one.path, prompt.end, title="", at=at))
        return made.path


def told(dialog: SessionChooser) -> asyncio.Event:
    """Set when the dialog wants something else read."""
    event = asyncio.Event()
    dialog.told.append(event.set)
    return event


def next_of(listed: Iterator[Outline], many: int) -> list[Outline]:
    return list(islice(listed, many))
