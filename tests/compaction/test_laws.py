"""The laws of compaction over random conversations: what memory has is what the log gives back, no call
loses its result, every request is valid, each compaction has one boundary, and undoing is undoing."""

import asyncio
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from clew.compaction import boundary, micro, receipt
from clew.compaction.boundary import Selection
from clew.compaction.retelling import prompts
from clew.engine.story import Story
from clew.messages.history import History
from clew.normalize.for_api import for_api
from clew.normalize.repairs import ROUTINE
from clew.normalize.select import begun_at, is_boundary, visible
from clew.normalize.target import Target
from clew.rewind.blobs import Blobs
from clew.rewind.restore import START, carry_out, plan, plan_redo
from clew.testing.strict import complaint
from clew.transcript.load import load
from clew.transcript.siblings import block_ids
from tests.normalize.generator import history as hostile
from tests.requirements import requirement
from tests.transcript.session import Session, call, text, uuids

Json = dict[str, Any]
TARGET = Target()
QUICK = range(40)
DEEP = [range(start, start + 250) for start in range(1_000, 5_000, 250)]


class Life:
    """A conversation that is talked in, shortened, restored and gone on with, as a seed says."""

    def __init__(self, home: Path, random: Random) -> None:
        self.home = home
        self.random = random
        self.session = Session(home)
        self.story = Story(self.session.recorder)
        self.calls = 0
        self.boundaries = 0
        self.before: list[list[str]] = []

    def talk(self) -> None:
        self.story.add([self.session.user(f"prompt {self.random.random()} " + "word " * 40)])
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
                selection = boundary.up_to(entries, place)
            case 1:
                selection = boundary.since(entries, place)
            case _:
                selection = boundary.with_tail(entries, self.random.choice([0, 300, 900, 3000]))
        if selection.covered:
            self.before.append(uuids(entries))
            self.shorten(selection)

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
            receipt.summary_entry(["what was said"], uuid=summary_uuid, at=made.now()),
        ]
        entry = boundary.made(
            selection,
            uuid=uuid,
            summary_uuid=summary_uuid,
            at=made.now(),
            trigger="auto",
            pre_tokens=9,
            post_tokens=3,
            dropped_before=boundary.dropped_before(self.story.history),
            duration_ms=1,
            covers=receipt.covers(selection.covered, todos=[], by="model"),
        )
        self.story.compact(entry, told, selection.kept, kept_first=selection.is_before)
        self.boundaries += 1

    def free(self) -> None:
        old = micro.removable(list(self.story.history), recent=1, least_tokens=50)
        if old:
            references = {one.tool_use_id: micro.reference(one, "/x") for one in old}
            note = micro.made(
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
        later = uuids(list(history))[begun_at(history) :]
        assert not await self.story.uncompact()
        assert uuids(list(self.story.history)) == [*self.before.pop(), *later]
        self.boundaries -= 1

    def resume(self) -> None:
        """Another process goes on from the file."""
        loaded = self.session.load()
        self.session.close()
        self.session = Session(self.home)
        self.session.recorder.resume(loaded)
        self.story = Story(self.session.recorder, History(loaded.messages))

    def hold(self) -> None:
        """What must be so after every step."""
        here = uuids(list(self.story.history))
        loaded = self.session.load()
        assert uuids(loaded.messages) == here
        path = self.session.paths.place.transcript
        whole = load(path, whole=True)
        assert uuids(whole.messages) == here
        assert not [note for note in whole.report() if note.rule in FAULTS]
        made = for_api(loaded.messages, TARGET)
        assert made.violations == []
        assert [r for r in made.repairs if r.kind not in ROUTINE] == []
        body = {"model": "m", "max_tokens": 9, "messages": made.messages}
        assert complaint(body) is None


FAULTS = ("missing-parent", "cycle", "boundary-without-summary", "duplicate-uuid")


async def lived(home: Path, seed: int) -> None:
    random = Random(seed)
    life = Life(home, random)
    life.talk()
    for _ in range(14):
        match random.randrange(10):
            case 0 | 1 | 2:
                life.talk()
            case 3 | 4 | 5:
                life.compact()
            case 6:
                life.free()
            case 7:
                await life.undo()
            case _:
                life.resume()
        life.hold()
    life.session.close()


@requirement("R188", "R194", "R250", "R181", "R193")
@pytest.mark.parametrize("seed", QUICK)
def test_memory_and_log_agree_after_every_step(seed: int, tmp_path: Path) -> None:
    asyncio.run(lived(tmp_path, seed))


@pytest.mark.laws
@pytest.mark.parametrize("seeds", DEEP, ids=str)
def test_memory_and_log_agree_at_depth(seeds: range, tmp_path: Path) -> None:
    for seed in seeds:
        asyncio.run(lived(tmp_path / str(seed), seed))


class Wandering(Life):
    """A life that goes back too: to before any prompt of any branch, and there again."""

    def __init__(self, home: Path, random: Random) -> None:
        super().__init__(home, random)
        self.blobs = Blobs(home / "blobs")

    @property
    def path(self) -> Path:
        return self.session.paths.place.transcript

    def go_back(self) -> None:
        """Every way back is taken back once, which must be as if it never was; half are taken again."""
        here = uuids(list(self.story.history))
        self.session.close()
        lines = [json.loads(line) for line in self.path.read_bytes().splitlines()]
        to = self.random.choice([START, *(e["uuid"] for e in prompts(lines))])
        self.travel(to)
        there = self.reopened()
        assert to not in there
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


async def wandered(home: Path, seed: int) -> None:
    random = Random(seed)
    life = Wandering(home, random)
    life.talk()
    for _ in range(14):
        match random.randrange(8):
            case 0 | 1 | 2:
                life.talk()
            case 3 | 4:
                life.compact()
            case 5:
                life.free()
            case _:
                life.go_back()
        life.hold()
    life.session.close()


@requirement("R200")
@pytest.mark.parametrize("seed", QUICK)
def test_ways_back_among_summaries_lead_where_they_say(seed: int, tmp_path: Path) -> None:
    asyncio.run(wandered(tmp_path, seed))


@pytest.mark.laws
@pytest.mark.parametrize("seeds", DEEP, ids=str)
def test_the_same_for_very_many_ways_back(seeds: range, tmp_path: Path) -> None:
    for seed in seeds:
        asyncio.run(wandered(tmp_path / str(seed), seed))


def hostile_entries(seed: int) -> list[Json]:
    entries = hostile(Random(seed))
    return [e | {"uuid": f"{seed}-{n}"} for n, e in enumerate(entries) if isinstance(e, dict)]


@pytest.mark.parametrize("seed", range(1_500))
def test_no_cut_parts_a_call_from_its_result(seed: int) -> None:
    entries = hostile_entries(seed)
    for selection in (
        boundary.with_tail(entries, Random(seed).choice([0, 100, 1_000])),
        boundary.up_to(entries, len(entries) // 2),
        boundary.since(entries, len(entries) // 2),
    ):
        first, then = selection.covered, selection.kept
        if selection.is_before:
            first, then = then, first
        made = {c for e in then for c in block_ids(e, "tool_use", "id")}
        parted = {c for e in first for c in block_ids(e, "tool_use", "id")} - made
        answered = {c for e in then for c in block_ids(e, "tool_result", "tool_use_id")}
        assert not parted & answered
        request = for_api(selection.kept, TARGET)
        assert request.violations == []
        assert not visible(selection.kept) or selection.kept
