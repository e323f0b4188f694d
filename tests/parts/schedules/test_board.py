"""Schedules are due when they should be, end when they must, and never accumulate.

Tests own the clock.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from clew.agent.tasks.registry import Tasks
from clew.core.messages.errors import UserError
from clew.parts.schedules.board import MOST, Board, ScheduleRequest, format_schedule
from clew.parts.schedules.cron import read

BEGAN = datetime(2026, 11, 20, 12, 0)


class Clock:
    """A clock that advances only by `go`, which lets everything run meanwhile."""

    def __init__(self) -> None:
        self.now = BEGAN
        self._asleep: list[tuple[datetime, asyncio.Event]] = []

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.Event()
        self._asleep.append((self.now + timedelta(seconds=seconds), woken))
        await woken.wait()

    async def go(self, minutes: float) -> None:
        for _ in range(round(minutes * 6)):
            await self._settle()
            self.now += timedelta(seconds=10)
            for end, woken in self._asleep:
                if end <= self.now:
                    woken.set()
        await self._settle()

    def set_back(self, hours: int) -> None:
        """Set the clock back; sleepers sleep as long as before."""
        by = timedelta(hours=hours)
        self.now -= by
        self._asleep = [(end - by, woken) for end, woken in self._asleep]

    async def _settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)


async def as_it_is(prompt: str) -> str:
    return prompt


def board_of(tasks: Tasks, clock: Clock, spent: Callable[[], float] = lambda: 0.0) -> Board:
    return Board(tasks, now=lambda: clock.now, spent=spent, prepared=as_it_is, sleep=clock.sleep)


def heard(tasks: Tasks) -> list[str]:
    return [words for notice in tasks.news() for words in notice.lines]


async def test_a_loop_comes_at_once_and_again_and_has_an_end() -> None:
    tasks, clock = Tasks(), Clock()
    board = board_of(tasks, clock)
    one = board.add(ScheduleRequest(prompt="look", every_s=300, at_once=True, times=3))
    came = []
    for _ in range(5):
        await clock.go(5)
        came += heard(tasks)
    assert [words.split("\n")[1] for words in came] == ["look"] * 3
    assert came[0].startswith(f"[Schedule {one.id}, every 5m, time 1 of 3; $0.0000 spent")
    assert board.running() == []
    assert tasks.news() == []
    await tasks.aclose()


async def test_what_nobody_heard_is_not_said_again() -> None:
    tasks, clock = Tasks(), Clock()
    board = board_of(tasks, clock)
    one = board.add(ScheduleRequest(prompt="look", every_s=60, at_once=True))
    await clock.go(10)
    assert len(heard(tasks)) == 1
    assert one.came == 1
    await clock.go(2)
    assert len(heard(tasks)) == 1
    await tasks.aclose()


async def test_a_single_one_comes_once_and_a_cron_expression_when_it_fits() -> None:
    tasks, clock = Tasks(), Clock()
    board = board_of(tasks, clock)
    board.add(ScheduleRequest(prompt="once", at=BEGAN + timedelta(minutes=2), times=1))
    board.add(ScheduleRequest(prompt="cron", cron=read("*/30 * * * *"), expression="*/30 * * * *"))
    await clock.go(1)
    assert heard(tasks) == []
    await clock.go(2)
    assert [words.split("\n")[1] for words in heard(tasks)] == ["once"]
    await clock.go(28)
    assert [words.split("\n")[1] for words in heard(tasks)] == ["cron"]
    assert [one.wish.prompt for one in board.running()] == ["cron"]
    await tasks.aclose()


async def test_money_and_time_end_a_schedule() -> None:
    tasks, clock, cost = Tasks(), Clock(), [1.0]
    board = board_of(tasks, clock, lambda: cost[0])
    dear = board.add(ScheduleRequest(prompt="dear", every_s=60, at_once=True, budget_usd=0.5))
    short = board.add(
        ScheduleRequest(prompt="short", every_s=600, until=BEGAN + timedelta(minutes=15))
    )
    await clock.go(0.5)
    assert len(heard(tasks)) == 1
    cost[0] = 1.6
    assert "$0.6000 of $0.50 spent since it started: dear" in format_schedule(
        dear, board.spent_since(dear)
    )
    await clock.go(30)
    assert [words.split("\n")[1] for words in heard(tasks)] == ["short"]
    assert board.running() == []
    assert board.find(short.id) is None
    await tasks.aclose()


async def test_a_schedule_can_be_stopped_and_is_then_no_news() -> None:
    tasks, clock = Tasks(), Clock()
    board = board_of(tasks, clock)
    one = board.add(ScheduleRequest(prompt="look", every_s=60))
    await clock.go(0.5)
    await board.stop(one)
    assert board.running() == []
    assert not tasks.has_news()
    await tasks.aclose()


@pytest.mark.parametrize(
    "wish",
    [
        ScheduleRequest(prompt="x", every_s=10),
        ScheduleRequest(prompt="x", every_s=0, at_once=True),
        ScheduleRequest(prompt="x", at=BEGAN - timedelta(minutes=1)),
        ScheduleRequest(prompt="x", cron=read("0 0 31 2 *"), expression="0 0 31 2 *"),
        ScheduleRequest(prompt="x", cron=read("0 0 1 1 *"), expression="0 0 1 1 *"),
    ],
)
async def test_what_never_comes_or_too_often_is_refused(wish: ScheduleRequest) -> None:
    with pytest.raises(UserError):
        board_of(Tasks(), Clock()).add(wish)


async def test_one_that_ended_so_long_ago_that_it_is_forgotten_is_no_trouble(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("clew.agent.tasks.registry.MOST_ENDED", 1)
    tasks = Tasks()
    board = board_of(tasks, Clock())
    one, other = (board.add(ScheduleRequest(prompt="look", every_s=60)) for _ in range(2))
    await board.stop(one)
    await board.stop(other)
    assert tasks.get(one.id) is None
    assert (board.running(), board.rows()) == ([], [])
    await board.stop(one)
    await tasks.aclose()


async def test_there_are_only_so_many() -> None:
    tasks = Tasks()
    board = board_of(tasks, Clock())
    for _ in range(MOST):
        board.add(ScheduleRequest(prompt="x", every_s=600))
    with pytest.raises(UserError, match="stop one"):
        board.add(ScheduleRequest(prompt="x", every_s=600))
    await tasks.aclose()


@pytest.mark.parametrize(
    ("wish", "came"),
    [
        (ScheduleRequest(prompt="look", every_s=300), 2),
        (ScheduleRequest(prompt="look", cron=read("*/5 * * * *"), expression="*/5 * * * *"), 2),
        # What has its hour comes at that hour of the clock, and not twice.
        (ScheduleRequest(prompt="look", cron=read("5 12 * * *"), expression="5 12 * * *"), 1),
        (ScheduleRequest(prompt="look", at=BEGAN + timedelta(minutes=5)), 1),
    ],
)
async def test_a_clock_that_is_set_back_stops_nothing_that_comes_all_day(
    wish: ScheduleRequest, came: int
) -> None:
    tasks, clock = Tasks(), Clock()
    board_of(tasks, clock).add(wish)
    await clock.go(6)
    first = heard(tasks)
    clock.set_back(3)
    await clock.go(6)
    assert len(first + heard(tasks)) == came
    await tasks.aclose()
