"""The schedules of a session: each a background task that says its prompt when its time has come.

Owns when each comes next and when it ends. A schedule lives as long as its session and no longer. What
came while nobody had heard the last time is not said twice: a slow answer never piles up prompts.

Decision: docs/decisions/116-background-tasks.md
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from clew.messages.errors import UserError
from clew.process.output import Output
from clew.schedules.cron import Cron
from clew.schedules.spans import span
from clew.tasks.notice import SCHEDULE as KIND
from clew.tasks.registry import Ending, Task, Tasks

# So long at most is slept in one go: a clock may be set, and a machine may sleep.
LOOK_S = 20.0
MOST = 20
LEAST_EVERY_S = 60
# What nobody gave an end comes no longer than this.
USUAL_DAYS = 3


class Wish(Struct, frozen=True, kw_only=True):
    """What is to be said and when: by an expression, every so many seconds, or once at a moment."""

    prompt: str
    cron: Cron | None = None
    # The expression as it was written.
    expression: str = ""
    every_s: int = 0
    at: datetime | None = None
    # Whether it comes a first time now.
    at_once: bool = False
    # The end: after so many times, at a moment, after so much was spent.
    times: int | None = None
    until: datetime | None = None
    budget_usd: float | None = None

    def first(self, now: datetime) -> datetime | None:
        if self.at is not None or self.at_once:
            return self.at or now
        return self.after(now)

    def after(self, moment: datetime) -> datetime | None:
        """When it comes next; None if it does not."""
        if self.cron is not None:
            return self.cron.after(moment)
        return moment + timedelta(seconds=self.every_s) if self.every_s else None

    @property
    def is_of_every_hour(self) -> bool:
        return bool(self.every_s) if self.cron is None else len(self.cron.hours) == 24

    def rhythm(self) -> str:
        if self.cron is not None:
            return self.expression
        return f"every {span(self.every_s)}" if self.every_s else f"once at {self.at:%H:%M}"


class Item:
    """One schedule and how far it has come."""

    def __init__(self, wish: Wish, task_id: str, until: datetime, spent: float) -> None:
        self.wish = wish
        self.id = task_id
        self.until = until
        self.came = 0
        self.next_at: datetime | None = None
        self.spent_before = spent
        self.end_words = ""


class Board:
    """`now` is the local time, `spent` what the session has cost; `prepared` makes of a prompt what the
    model reads."""

    def __init__(
        self,
        tasks: Tasks,
        *,
        now: Callable[[], datetime],
        spent: Callable[[], float],
        prepared: Callable[[str], Awaitable[str]],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._tasks = tasks
        self._now = now
        self._spent = spent
        self._prepared = prepared
        self._sleep = sleep
        self._items: dict[str, Item] = {}

    def running(self) -> list[Item]:
        return [one for one in self._items.values() if (t := self._task(one)) and t.ending is None]

    def rows(self) -> list[dict[str, Any]]:
        """What runs, as hooks are told."""
        return [
            {
                "id": one.id,
                "schedule": one.wish.rhythm(),
                "recurring": one.wish.times != 1,
                "prompt": one.wish.prompt,
            }
            for one in self.running()
        ]

    def spent_since(self, one: Item) -> float:
        # The session's, since the schedule began: charging single turns would need the loop to know why
        # each of them began.
        return self._spent() - one.spent_before

    def add(self, wish: Wish) -> Item:
        """Begins a schedule. Raises UserError for one that never comes."""
        now = self._now()
        if len(self.running()) >= MOST:
            raise UserError(f"{MOST} schedules are running; stop one")
        is_span = wish.cron is None and wish.at is None
        if is_span and wish.every_s < LEAST_EVERY_S:
            raise UserError(f"every {span(wish.every_s)} is too often; at least {LEAST_EVERY_S} s")
        until = wish.until or now + timedelta(days=USUAL_DAYS)
        first = wish.first(now)
        if wish.at is not None:
            until = max(until, wish.at)
        if first is None or first < now or first > until:
            raise UserError(f"{wish.rhythm()} does not come before {until:%Y-%m-%d %H:%M}")
        one = Item(wish, self._tasks.new_id(KIND), until, self._spent())
        one.next_at = first
        self._items[one.id] = one
        self._tasks.begin(
            lambda task: self._keep(one, task),
            task_id=one.id,
            kind=KIND,
            title=wish.prompt.split("\n")[0][:80],
            output=Output(keep_bytes=0),
        )
        return one

    async def stop(self, one: Item) -> None:
        task = self._task(one)
        if task is not None:
            # Who stops it knows.
            task.is_told = True
            await self._tasks.stop(task)

    def find(self, task_id: str) -> Item | None:
        return next((one for one in self.running() if one.id == task_id), None)

    def _task(self, one: Item) -> Task | None:
        """Its task; one that ended long ago is not remembered."""
        return self._tasks.get(one.id)

    async def _keep(self, one: Item, task: Task) -> Ending:
        while one.next_at is not None:
            await self._wait_for(one)
            why = self._over(one)
            if why:
                break
            if not task.has_news:
                one.came += 1
                self._tasks.say(task, await self._words(one))
            one.next_at = self._following(one)
        task.is_told = True
        return Ending(status="completed", words=self._over(one) or "it has come")

    async def _wait_for(self, one: Item) -> None:
        """Until it comes. What comes all day long does not wait until a clock that was set back is again
        where it was; what has its hour goes by the clock."""
        seen = self._now()
        while one.next_at is not None and (left := (one.next_at - seen).total_seconds()) > 0:
            await self._sleep(min(left, LOOK_S))
            before, seen = seen, self._now()
            if seen < before and one.wish.is_of_every_hour:
                sooner = one.wish.after(seen)
                one.next_at = min(filter(None, (one.next_at, sooner)))

    def _following(self, one: Item) -> datetime | None:
        if one.wish.times is not None and one.came >= one.wish.times:
            return None
        found = one.wish.after(self._now())
        return found if found is not None and found <= one.until else None

    def _over(self, one: Item) -> str:
        """Why it comes no more; empty if it does."""
        budget = one.wish.budget_usd
        if budget is not None and self.spent_since(one) >= budget:
            return f"${budget:.2f} were spent since it began"
        return f"its time was over at {one.until:%H:%M}" if self._now() > one.until else ""

    async def _words(self, one: Item) -> str:
        of = f" of {one.wish.times}" if one.wish.times else ""
        head = (
            f"[Schedule {one.id}, {one.wish.rhythm()}, time {one.came}{of}; "
            f"${self.spent_since(one):.4f} spent since it began]"
        )
        return f"{head}\n{await self._prepared(one.wish.prompt)}"


def line(one: Item, spent: float) -> str:
    """One schedule for a person."""
    when = f"next {one.next_at:%H:%M}" if one.next_at else "ending"
    times = f"{one.came} of {one.wish.times}" if one.wish.times else str(one.came)
    budget = f" of ${one.wish.budget_usd:.2f}" if one.wish.budget_usd is not None else ""
    return (
        f"{one.id}  {one.wish.rhythm()}, {when}, came {times}, ends {one.until:%m-%d %H:%M}; "
        f"${spent:.4f}{budget} spent since it began: {one.wish.prompt.splitlines()[0][:60]}"
    )
