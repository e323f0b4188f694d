"""The laws of compaction over random conversations.

Memory and log agree, no call loses its result, every request is valid, each compaction has one
boundary, and an undo restores the previous state.
"""

import asyncio
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from clew.agent.compaction import boundary, micro
from clew.agent.compaction import boundary as receipt
from clew.agent.compaction.boundary import Selection
from clew.agent.compaction.retelling import list_prompts
from clew.agent.story import Story
from clew.core.messages.history import History
from clew.core.normalize.for_api import for_api
from clew.core.normalize.repairs import ROUTINE
from clew.core.normalize.select import is_boundary, select_visible
from clew.core.normalize.target import Target
from clew.record.rewind.disk import Blobs
from clew.record.rewind.restore import START, carry_out, plan, plan_redo
from clew.record.transcript.load import load
from clew.record.transcript.policy import find_block_ids
from clew.testing.strict import find_complaint
from tests.core.normalize.generator import history as hostile
from tests.record.transcript.session import Session, call, text, uuids
from tests.requirements import requirement

Json = dict[str, Any]
TARGET = Target()
QUICK = range(40)
DEEP = [range(start, start + 250) for start in range(1_000, 5_000, 250)]


class Life:
    """A random conversation: turns, compactions, undos and resumes, as a seed says."""

    def __init__(self, home: Path, random: Random) -> None:
        self.home = home
        self.random = random
        self.session = Session(home)
        self.story = Story(self.session.recorder)
        self.calls = 0
        self.blobs = Blobs(home / "blobs")
        # By its boundary, what each compaction found.
        self.before: dict[str, list[str]] = {}
        # How many entries it began with, and which were taken back.
        self.begun: dict[str, int] = {}
        self.undone: set[str] = set()
        # What each prompt was said to.
        self.said_to: dict[str, list[str]] = {}

    def talk(self) -> None:
        prompt = self.session.user(f"prompt {self.random.random()} " + "word " * 40)
        self.said_to[prompt["uuid"]] = uuids(list(self.story.history))
        self.story.add([prompt])
        for _ in range(self.random.randrange(3)):
            self.round(self.random.randrange(1, 4))
        self.story.add(self.session.answer(text("an answer " * 30)))

    def round(self, count: int) -> None:
        ids = [f"toolu_{self.calls + n}" for n in range(count)]
        self.calls += count
        self.story.add(self.session.answer(text("I look"), *map(call, ids)))
        self.random.shuffle(ids)
        self.story.add([self.session.result(one, "a line of output\n" * 50) for one in ids])

    def compact(self) -> None:
        entries = list(self.story.history)
        place = self.random.randrange(max(1, len(entries)))
        match self.random.randrange(4):
            case 0:
                selection = boundary.select_up_to(entries, place)
            case 1:
                selection = boundary.select_since(entries, place)
            case _:
                selection = boundary.with_tail(entries, self.random.choice([0, 300, 900, 3000]))
        if selection.covered:
            self.shorten(selection)
            own = self.story.history[0]["uuid"]
            self.before[own], self.begun[own] = uuids(entries), len(self.story.history)

    def as_now(self, entries: list[str]) -> list[str]:
        """Return an earlier conversation as it is now, after undone compactions."""
        while entries and entries[0] in self.undone:
            entries = [*self.before[entries[0]], *entries[self.begun[entries[0]] :]]
        return entries

    def shorten(self, selection: Selection) -> None:
        made = self.session
        uuid, summary_uuid = made.new_id(), made.new_id()
        fact = {"type": "date", "date": "2026-01-02"}
        told = [
            {
                "type": "attachment",
                "attachment": fact,
                "uuid": made.new_id(),
                "timestamp": made.now(),
            },
            receipt.make_summary_entry(["what was said"], uuid=summary_uuid, at=made.now()),
        ]
        entry = boundary.make_boundary(
            selection,
            uuid=uuid,
            summary_uuid=summary_uuid,
            at=made.now(),
            trigger="auto",
            pre_tokens=9,
            post_tokens=3,
            dropped_before=boundary.count_dropped_tokens(self.story.history),
            duration_ms=1,
            covers=receipt.covers(selection.covered, todos=[], by="model"),
        )
        self.story.compact(entry, told, selection.kept, kept_first=selection.is_before)

    def free(self) -> None:
        old = micro.removable(list(self.story.history), recent=1, least_tokens=50)
        if old:
            references = {one.tool_use_id: micro.describe_reference(one, "/x") for one in old}
            note = micro.make_entry(
                references,
                uuid=self.session.new_id(),
                at=self.session.now(),
                trigger="auto",
                pre_tokens=9,
                saved=3,
            )
            self.story.add([note])

    async def undo(self) -> None:
        history = self.story.history
        if not len(history) or not is_boundary(history[0]):
            assert await self.story.uncompact()
            return
        here = uuids(list(history))
        assert not await self.story.uncompact()
        self.undone.add(here[0])
        assert uuids(list(self.story.history)) == self.as_now(here)

    def resume(self) -> None:
        """Continue from the file in another process."""
        loaded = self.session.load()
        self.session.close()
        self.session = Session(self.home)
        self.session.recorder.resume(loaded)
        self.story = Story(self.session.recorder, History(loaded.messages))

    @property
    def path(self) -> Path:
        return self.session.paths.place.transcript

    def go_back(self) -> None:
        """Undo each compaction that can be undone and check the result; redo half of them."""
        here = uuids(list(self.story.history))
        self.session.close()
        lines = [json.loads(line) for line in self.path.read_bytes().splitlines()]
        to = self.random.choice([START, *(e["uuid"] for e in list_prompts(lines))])
        self.travel(to)
        there = self.reopened()
        assert there == ([] if to == START else self.as_now(self.said_to[to]))
        self.hold()
        self.session.close()
        carry_out(plan_redo(self.path, self.blobs), self.blobs)
        assert self.reopened() == here
        self.hold()
        if self.random.random() < 0.5:
            self.session.close()
            self.travel(to)
            assert self.reopened() == there

    def travel(self, to: str) -> None:
        carry_out(plan(self.path, to, self.blobs, files=False, conversation=True), self.blobs)

    def reopened(self) -> list[str]:
        self.session = Session(self.home)
        loaded = self.session.load()
        self.session.recorder.resume(loaded)
        self.story = Story(self.session.recorder, History(loaded.messages))
        return uuids(loaded.messages)

    def hold(self) -> None:
        """Check the invariants after every step."""
        here = uuids(list(self.story.history))
        loaded = self.session.load()
        assert uuids(loaded.messages) == here
        path = self.session.paths.place.transcript
        whole = load(path, reads_all=True)
        assert uuids(whole.messages) == here
        assert not [note for note in whole.report() if note.rule in FAULTS]
        made = for_api(loaded.messages, TARGET)
        assert made.violations == []
        assert [r for r in made.repairs if r.kind not in ROUTINE] == []
        body = {"model": "m", "max_tokens": 9, "messages": made.messages}
        assert find_complaint(body) is None


FAULTS = ("missing-parent", "cycle", "boundary-without-summary", "duplicate-uuid")


async def lived(life: Life, chances: str) -> None:
    """Take random steps; each is as likely as its letter is frequent in `chances`."""
    life.talk()
    for _ in range(14):
        match life.random.choice(chances):
            case "t":
                life.talk()
            case "c":
                life.compact()
            case "f":
                life.free()
            case "u":
                await life.undo()
            case "r":
                life.resume()
            case "b":
                life.go_back()
        life.hold()
    life.session.close()


# Talk, compact, free, undo, resume, go back.
CHANCES = {
    "summaries taken back": "tttcccfurr",
    "ways back": "tttccfbb",
    "all of it": "ttcccufbbr",
}


@pytest.mark.no_cover
@requirement("R188", "R194", "R250", "R181", "R193", "R200")
@pytest.mark.parametrize("chances", CHANCES)
@pytest.mark.parametrize("seed", QUICK)
def test_memory_and_log_agree_after_every_step(seed: int, chances: str, tmp_path: Path) -> None:
    asyncio.run(lived(Life(tmp_path, Random(seed)), CHANCES[chances]))


@pytest.mark.laws
@pytest.mark.parametrize("chances", CHANCES)
@pytest.mark.parametrize("seeds", DEEP, ids=str)
def test_memory_and_log_agree_at_depth(seeds: range, chances: str, tmp_path: Path) -> None:
    for seed in seeds:
        asyncio.run(lived(Life(tmp_path / str(seed), Random(seed)), CHANCES[chances]))


def hostile_entries(seed: int) -> list[Json]:
    entries = hostile(Random(seed))
    return [e | {"uuid": f"{seed}-{n}"} for n, e in enumerate(entries) if isinstance(e, dict)]


# One item a seed would cost more than the seeds do.
@pytest.mark.parametrize("start", range(0, 1_500, 100))
def test_no_cut_parts_a_call_from_its_result(start: int) -> None:
    for seed in range(start, start + 100):
        check_cuts(seed)


def check_cuts(seed: int) -> None:
    entries = hostile_entries(seed)
    for selection in (
        boundary.with_tail(entries, Random(seed).choice([0, 100, 1_000])),
        boundary.select_up_to(entries, len(entries) // 2),
        boundary.select_since(entries, len(entries) // 2),
    ):
        first, then = selection.covered, selection.kept
        if selection.is_before:
            first, then = then, first
        made = {c for e in then for c in find_block_ids(e, "tool_use", "id")}
        parted = {c for e in first for c in find_block_ids(e, "tool_use", "id")} - made
        answered = {c for e in then for c in find_block_ids(e, "tool_result", "tool_use_id")}
        assert not parted & answered
        request = for_api(selection.kept, TARGET)
        assert request.violations == []
        assert not select_visible(selection.kept) or selection.kept
