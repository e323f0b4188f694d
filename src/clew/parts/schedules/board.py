"""The schedules of a session: each a background task that says its prompt when its time has come.

Owns when each comes next and when it ends. A schedule lives as long as its session and no longer. What
came while nobody had heard the last time is not said twice: a slow answer never piles up prompts.

Decision: docs/decisions/116-background-tasks.md
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Annotated, Any

from msgspec import Meta, Struct

from clew.agent.tasks.notice import SCHEDULE as KIND
from clew.agent.tasks.registry import BackgroundTask, TaskEnding, Tasks
from clew.agent.tools.base import Tool, ToolContext, ToolError, ToolOutcome
from clew.core.messages.errors import UserError
from clew.parts.schedules import cron
from clew.parts.schedules.cron import Cron, span
from clew.system.process.output import ProcessOutput

# So long at most is slept in one go: a clock may be set, and a machine may sleep.
LOOK_S = 20.0
MOST = 20
LEAST_EVERY_S = 60
# What nobody gave an end comes no longer than this.
USUAL_DAYS = 3


class ScheduleRequest(Struct, frozen=True, kw_only=True):
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


class ScheduledItem:
    """One schedule and how far it has come."""

    def __init__(self, wish: ScheduleRequest, task_id: str, until: datetime, spent: float) -> None:
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
        self._items: dict[str, ScheduledItem] = {}

    def running(self) -> list[ScheduledItem]:
        return [
            item for item in self._items.values() if (t := self._task(item)) and t.ending is None
        ]

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

    def spent_since(self, one: ScheduledItem) -> float:
        # The session's, since the schedule began: charging single turns would need the loop to know why
        # each of them began.
        return self._spent() - one.spent_before

    def add(self, wish: ScheduleRequest) -> ScheduledItem:
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
        one = ScheduledItem(wish, self._tasks.new_id(KIND), until, self._spent())
        one.next_at = first
        self._items[one.id] = one
        self._tasks.begin(
            lambda task: self._keep(one, task),
            task_id=one.id,
            kind=KIND,
            title=wish.prompt.split("\n")[0][:80],
            output=ProcessOutput(keep_bytes=0),
        )
        return one

    async def stop(self, one: ScheduledItem) -> None:
        task = self._task(one)
        if task is not None:
            # Who stops it knows.
            task.is_told = True
            await self._tasks.stop(task)

    def find(self, task_id: str) -> ScheduledItem | None:
        return next((one for one in self.running() if one.id == task_id), None)

    def _task(self, one: ScheduledItem) -> BackgroundTask | None:
        """Its task; one that ended long ago is not remembered."""
        return self._tasks.get(one.id)

    async def _keep(self, one: ScheduledItem, task: BackgroundTask) -> TaskEnding:
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
        return TaskEnding(status="completed", words=self._over(one) or "it has come")

    async def _wait_for(self, one: ScheduledItem) -> None:
        """Until it comes. What comes all day long does not wait until a clock that was set back is again
        where it was; what has its hour goes by the clock."""
        seen = self._now()
        while one.next_at is not None and (left := (one.next_at - seen).total_seconds()) > 0:
            await self._sleep(min(left, LOOK_S))
            before, seen = seen, self._now()
            if seen < before and one.wish.is_of_every_hour:
                sooner = one.wish.after(seen)
                one.next_at = min(filter(None, (one.next_at, sooner)))

    def _following(self, one: ScheduledItem) -> datetime | None:
        if one.wish.times is not None and one.came >= one.wish.times:
            return None
        found = one.wish.after(self._now())
        return found if found is not None and found <= one.until else None

    def _over(self, one: ScheduledItem) -> str:
        """Why it comes no more; empty if it does."""
        budget = one.wish.budget_usd
        if budget is not None and self.spent_since(one) >= budget:
            return f"${budget:.2f} were spent since it began"
        return f"its time was over at {one.until:%H:%M}" if self._now() > one.until else ""

    async def _words(self, one: ScheduledItem) -> str:
        of = f" of {one.wish.times}" if one.wish.times else ""
        head = (
            f"[Schedule {one.id}, {one.wish.rhythm()}, time {one.came}{of}; "
            f"${self.spent_since(one):.4f} spent since it began]"
        )
        return f"{head}\n{await self._prepared(one.wish.prompt)}"


def line(one: ScheduledItem, spent: float) -> str:
    """One schedule for a person."""
    when = f"next {one.next_at:%H:%M}" if one.next_at else "ending"
    times = f"{one.came} of {one.wish.times}" if one.wish.times else str(one.came)
    budget = f" of ${one.wish.budget_usd:.2f}" if one.wish.budget_usd is not None else ""
    return (
        f"{one.id}  {one.wish.rhythm()}, {when}, came {times}, ends {one.until:%m-%d %H:%M}; "
        f"${spent:.4f}{budget} spent since it began: {one.wish.prompt.splitlines()[0][:60]}"
    )


# ScheduleCron, ScheduleList and ScheduleDelete: the model wakes itself, once or again and again.


class ScheduleCronInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    prompt: Annotated[str, Meta(min_length=1, description="What you are told when the time comes")]
    cron: Annotated[
        str, Meta(description="minute hour day month weekday, in local time, as */10 9-17 * * 1-5")
    ] = ""
    after_s: Annotated[
        int, Meta(ge=1, le=86_400, description="Instead of cron: once, after so many seconds")
    ] = 0
    recurring: Annotated[bool, Meta(description="With cron: again and again, not only once")] = True
    times: Annotated[int, Meta(ge=1, le=1000, description="At most so often")] | None = None


class ScheduleCron(Tool[ScheduleCronInput]):
    name = "ScheduleCron"
    description = "Have a prompt come later, or again and again"
    prompt = (
        "Has a prompt come to you later: once after `after_s` seconds, or when the cron expression "
        "fits. It comes between your turns while this session runs, never longer than three days, and "
        "costs a turn each time, so choose the longest interval that does. Write the prompt so that it "
        "can be understood alone, and say in it when to stop. Use it to wait for something that "
        "nothing tells you of; a command in the background tells you itself when it ends."
    )
    input_type = ScheduleCronInput
    also_called = ("CronCreate", "ScheduleWakeup")
    renamed = (("delaySeconds", "after_s"),)
    is_deferred = True
    search_words = "cron timer remind wake loop interval"

    def __init__(self, board: Board, now: Callable[[], datetime]) -> None:
        self._board = board
        self._now = now

    def is_concurrency_safe(self, given: ScheduleCronInput) -> bool:
        return True

    def title(self, given: ScheduleCronInput) -> str:
        return f"{given.cron or f'in {given.after_s} s'}: {given.prompt[:60]}"

    async def call(self, given: ScheduleCronInput, ctx: ToolContext) -> ToolOutcome:
        try:
            one = self._board.add(self._wish(given))
        except (UserError, ValueError) as error:
            raise ToolError(str(error)) from None
        said = f"Schedule {one.id}: {one.wish.rhythm()}, next at {one.next_at:%Y-%m-%d %H:%M}"
        return ToolOutcome(
            content=f"{said}, at the latest until {one.until:%Y-%m-%d %H:%M}. ScheduleDelete ends it.",
            tool_use_result={"id": one.id, "humanSchedule": one.wish.rhythm()},
            display=said,
        )

    def _wish(self, given: ScheduleCronInput) -> ScheduleRequest:
        if bool(given.cron) == bool(given.after_s):
            raise ToolError("Give one of cron and after_s.")
        if given.after_s:
            at = self._now() + timedelta(seconds=given.after_s)
            return ScheduleRequest(prompt=given.prompt, at=at, times=1)
        return ScheduleRequest(
            prompt=given.prompt,
            cron=cron.read(given.cron),
            expression=given.cron,
            times=given.times if given.recurring else 1,
        )


class ScheduleListInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class ScheduleList(Tool[ScheduleListInput]):
    name = "ScheduleList"
    description = "List what is scheduled in this session"
    input_type = ScheduleListInput
    also_called = ("CronList",)
    is_deferred = True

    def __init__(self, board: Board) -> None:
        self._board = board

    def is_read_only(self, given: ScheduleListInput) -> bool:
        return True

    async def call(self, given: ScheduleListInput, ctx: ToolContext) -> ToolOutcome:
        lines = [line(one, self._board.spent_since(one)) for one in self._board.running()]
        return ToolOutcome(
            content="\n".join(lines) or "Nothing is scheduled.",
            tool_use_result={"jobs": [one.id for one in self._board.running()]},
            display=f"{len(lines)} scheduled",
        )


class ScheduleDeleteInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(min_length=1, description="The schedule, as s1")]


class ScheduleDelete(Tool[ScheduleDeleteInput]):
    name = "ScheduleDelete"
    description = "End a schedule"
    input_type = ScheduleDeleteInput
    also_called = ("CronDelete",)
    is_deferred = True

    def __init__(self, board: Board) -> None:
        self._board = board

    def title(self, given: ScheduleDeleteInput) -> str:
        return given.id

    async def call(self, given: ScheduleDeleteInput, ctx: ToolContext) -> ToolOutcome:
        one = self._board.find(given.id)
        if one is None:
            there = ", ".join(one.id for one in self._board.running()) or "none"
            raise ToolError(f"There is no schedule {given.id}. There are: {there}.")
        await self._board.stop(one)
        return ToolOutcome(content=f"Schedule {one.id} ended.", display=f"{one.id} ended")
