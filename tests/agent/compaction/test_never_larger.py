"""No compaction makes the request larger, whatever the history, the summary and the facts are."""

import asyncio
from itertools import count
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from clew.agent.compaction.budget import Room, divide_window
from clew.agent.compaction.compactor import CompactionContext, Compactor
from clew.agent.compaction.summary import NO_SUMMARY, Summaries, SummaryResult
from clew.agent.context.facts import Fact
from clew.agent.deps import TurnClock
from clew.agent.events import Compacted, NotCompacted
from clew.core.messages.history import History
from clew.core.normalize.for_api import for_api
from clew.core.normalize.select import NO_EDITS, select_visible
from clew.core.normalize.target import Target
from clew.core.normalize.tokens import estimate_message_tokens
from clew.providers.base import ModelRequest
from tests.agent.compaction.build import AT
from tests.agent.world import NoHooks
from tests.core.normalize.generator import history as hostile
from tests.requirements import requirement

Json = dict[str, Any]
DEEP = [range(start, start + 1_000) for start in range(10_000, 20_000, 1_000)]


class ShortStory:
    """A conversation in memory, with the members of a story that a compaction uses."""

    edits = NO_EDITS
    recorder = SimpleNamespace(transcript=Path("/s.jsonl"), news=lambda: ())

    def __init__(self, entries: list[Json]) -> None:
        self.history = History(entries)

    @property
    def sent(self) -> list[Json]:
        return list(select_visible(list(self.history)))

    def compact(
        self, boundary: Json, entries: list[Json], kept_entries: list[Json], *, kept_first: bool
    ) -> None:
        parts = (kept_entries, entries) if kept_first else (entries, kept_entries)
        self.history = History([boundary, *parts[0], *parts[1]])

    async def durable(self) -> None:
        return None


class Wordy(Summaries):
    """Writes summaries of any length."""

    def __init__(self, random: Random) -> None:
        self._random = random

    async def ask(self, *_: Any, **__: Any) -> SummaryResult | str:
        if self._random.random() < 0.2:
            return NO_SUMMARY
        return SummaryResult(words="said " * self._random.choice([5, 100, 1_000]), by="model")


def compactor_of(random: Random, room: Room) -> Compactor:
    async def facts(*_: Any) -> list[Fact]:
        return [
            Fact(payload={"type": kind}, rendered=("word " * random.choice([1, 50, 2_000]),))
            for kind in random.sample(["instructions", "file", "date", "todo"], random.randrange(5))
        ]

    return Compactor(
        CompactionContext(
            room=lambda *_: room,
            is_on=lambda: True,
            estimate=lambda *_: 1 << 20,
            summaries=Wordy(random),
            facts=facts,
            todos=list,
            keep=lambda _: random.choice(["/kept.txt", None]),
            idle_s=lambda: 0.0,
        )
    )


async def compact(seed: int) -> tuple[int, int, list[Any]]:
    """Compact a random history; return the size of the request before and after, and the events."""
    random = Random(seed)
    entries = [
        e | {"uuid": f"{seed}-{n}"} for n, e in enumerate(hostile(random)) if type(e) is dict
    ]
    story = ShortStory(entries)
    numbers = count()
    clock = TurnClock(now=lambda: AT, new_id=lambda: f"new-{next(numbers)}", monotonic_s=lambda: 0)
    deps: Any = SimpleNamespace(story=story, clock=clock, hooks=NoHooks())
    events: list[Any] = []

    async def emit(event: Any) -> None:
        events.append(event)

    request = ModelRequest(model="m", messages=[], max_tokens=9)
    compactor = compactor_of(random, divide_window(random.choice([4_000, 20_000, 200_000])))
    before = size_of(story)
    for _ in range(random.randrange(1, 4)):
        if random.random() < 0.5:
            await compactor.make_room(deps, request, emit)
        else:
            await compactor.after_overflow(deps, request, None, random.randrange(1, 4), emit)
    return before, size_of(story), events


def size_of(story: ShortStory) -> int:
    return estimate_message_tokens(for_api(list(story.history), Target()).messages)


def hold(seeds: range) -> None:
    done = refused = 0
    for seed in seeds:
        before, after, events = asyncio.run(compact(seed))
        kinds = {type(event) for event in events}
        done += Compacted in kinds
        refused += NotCompacted in kinds
        assert after <= before, (seed, before, after)
        assert Compacted not in kinds or after < before, (seed, before, after)
    assert min(done, refused) > len(seeds) // 20


@pytest.mark.no_cover
@requirement("R192")
def test_no_compaction_makes_a_request_larger() -> None:
    hold(range(200))


@pytest.mark.laws
@pytest.mark.parametrize("seeds", DEEP, ids=str)
def test_no_compaction_of_ten_thousand_makes_a_request_larger(seeds: range) -> None:
    hold(seeds)
