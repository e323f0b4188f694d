"""The schedules of a session: background tasks that submit their prompts when due.

Owns the times at which each schedule is due and ends. A schedule ends with its session. A prompt is
skipped while the previous one is still undelivered, so prompts never accumulate behind a slow
answer.

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
from clew.core.json_object import Json
from clew.core.messages.errors import UserError
from clew.parts.schedules import cron
from clew.parts.schedules.cron import Cron, format_span
from clew.system.process.output import ProcessOutput

# The longest single sleep, because the clock may be changed and the machine may be suspended.
LOOK_S = 20.0
MOST = 20
LEAST_EVERY_S = 60
# Schedules without an end stop after this many days.
USUAL_DAYS = 30
MAX_AGE_MS = USUAL_DAYS * 24 * 3600 * 1000


class ScheduleRequest(Struct, frozen=True, kw_only=True):
    """A prompt and its timing: a cron expression, an interval in seconds, or one point in time."""

    prompt: str
    # False for the model's own prompts, which can't call skills: a skill may grant permissions, so
    # the model has to load it with the Skill tool, which asks for approval.
    is_from_user: bool = False
    cron: Cron | None = None
    # The cron expression as entered.
    expression: str = ""
    every_s: int = 0
    at: datetime | None = None
    # Whether the first prompt is due immediately.
    at_once: bool = False
    # The end: after a number of prompts, at a time, or after an amount spent.
    times: int | None = None
    until: datetime | None = None
    budget_usd: float | None = None

    def first(self, now: datetime) -> datetime | None:
        if self.at is not None or self.at_once:
            return self.at or now
        return self.after(now)

    def after(self, moment: datetime) -> datetime | None:
        """Return the next due time after `moment`, or None if there is none."""
        if self.cron is not None:
            return self.cron.after(moment)
        return moment + timedelta(seconds=self.every_s) if self.every_s else None

    @property
    def is_of_every_hour(self) -> bool:
        return bool(self.every_s) if self.cron is None else len(self.cron.hours) == 24

    def rhythm(self) -> str:
        if self.cron is not None:
            return self.expression
        if self.every_s:
            return f"every {format_span(self.every_s)}"
        return f"once on {self.at:%Y-%m-%d} at {self.at:%H:%M}"


class ScheduledItem:
    """A running schedule and its progress."""

    def __init__(self, wish: ScheduleRequest, task_id: str, until: datetime, spent: float) -> None:
        self.wish = wish
        self.id = task_id
        self.until = until
        self.came = 0
        self.next_at: datetime | None = None
        self.spent_before = spent


class Board:
    """The schedules of a session.

    `now` returns the local time and `spent` the session's cost; `prepared` expands a user's prompt
    before it is sent to the model.
    """

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
        """Return the running schedules in the form that hooks receive."""
        return [
            {
                "id": item.id,
                "schedule": item.wish.rhythm(),
                "recurring": item.wish.times != 1,
                "prompt": item.wish.prompt,
            }
            for item in self.running()
        ]

    def spent_since(self, item: ScheduledItem) -> float:
        # Measures the session's cost since the schedule started. The cost of individual turns is
        # not used, because the loop does not record what started a turn.
        return self._spent() - item.spent_before

    def add(self, wish: ScheduleRequest) -> ScheduledItem:
        """Start a schedule.

        Raise UserError if the schedule is too frequent or never due, or if there are too many.
        """
        now = self._now()
        if len(self.running()) >= MOST:
            raise UserError(f"{MOST} schedules are running (the maximum); stop one first")
        is_span = wish.cron is None and wish.at is None
        if is_span and wish.every_s < LEAST_EVERY_S:
            raise UserError(
                f"every {format_span(wish.every_s)} is too often; the minimum is {LEAST_EVERY_S} s"
            )
        until = wish.until or now + timedelta(days=USUAL_DAYS)
        first = wish.first(now)
        if wish.at is not None:
            until = max(until, wish.at)
        if first is None or first < now or first > until:
            raise UserError(
                f"{wish.rhythm()}: not due before the schedule ends at {until:%Y-%m-%d %H:%M}"
            )
        item = ScheduledItem(wish, self._tasks.new_id(KIND), until, self._spent())
        item.next_at = first
        self._items[item.id] = item
        self._tasks.begin(
            lambda task: self._keep(item, task),
            task_id=item.id,
            kind=KIND,
            title=wish.prompt.split("\n")[0][:80],
            output=ProcessOutput(keep_bytes=0),
        )
        return item

    async def stop(self, item: ScheduledItem) -> None:
        task = self._task(item)
        if task is not None:
            # The caller that stops it already knows.
            task.is_told = True
            await self._tasks.stop(task)

    def find(self, task_id: str) -> ScheduledItem | None:
        return next((item for item in self.running() if item.id == task_id), None)

    def _task(self, item: ScheduledItem) -> BackgroundTask | None:
        """Return the schedule's task, or None if it ended so long ago that it was dropped."""
        return self._tasks.get(item.id)

    async def _keep(self, item: ScheduledItem, task: BackgroundTask) -> TaskEnding:
        while item.next_at is not None:
            await self._wait_for(item)
            why = self._over(item)
            if why:
                break
            if not task.has_news:
                item.came += 1
                self._tasks.say(task, await self._words(item))
            item.next_at = self._following(item)
        task.is_told = True
        return TaskEnding(
            status="completed", words=self._over(item) or "all prompts were submitted"
        )

    async def _wait_for(self, item: ScheduledItem) -> None:
        """Wait until the schedule is due.

        If the clock is set back, an hourly or more frequent schedule is due sooner; a schedule with
        fixed hours follows the clock.
        """
        seen = self._now()
        while item.next_at is not None and (left := (item.next_at - seen).total_seconds()) > 0:
            await self._sleep(min(left, LOOK_S))
            before, seen = seen, self._now()
            if seen < before and item.wish.is_of_every_hour:
                sooner = item.wish.after(seen)
                item.next_at = min(filter(None, (item.next_at, sooner)))

    def _following(self, item: ScheduledItem) -> datetime | None:
        if item.wish.times is not None and item.came >= item.wish.times:
            return None
        moment = item.wish.after(self._now())
        return moment if moment is not None and moment <= item.until else None

    def _over(self, item: ScheduledItem) -> str:
        """Return why the schedule has ended, or an empty string."""
        budget = item.wish.budget_usd
        if budget is not None and self.spent_since(item) >= budget:
            return f"its budget of ${budget:.2f} is spent"
        if self._now() <= item.until:
            return ""
        return f"it expired on {item.until:%Y-%m-%d} at {item.until:%H:%M}"

    async def _words(self, item: ScheduledItem) -> str:
        of = f" of {item.wish.times}" if item.wish.times else ""
        head = (
            f"[Schedule {item.id}, {item.wish.rhythm()}, time {item.came}{of}; "
            f"${self.spent_since(item):.4f} spent since it started]"
        )
        wish = item.wish
        prompt = await self._prepared(wish.prompt) if wish.is_from_user else wish.prompt
        return f"{head}\n{prompt}"


def describe_job(item: ScheduledItem) -> Json:
    """Describe a schedule for programs."""
    return {
        "id": item.id,
        "cron": item.wish.expression,
        "humanSchedule": item.wish.rhythm(),
        "prompt": item.wish.prompt,
        "recurring": item.wish.times != 1,
        "durable": False,
        **next_run(item),
    }


def next_run(item: ScheduledItem) -> Json:
    if item.next_at is None:
        return {}
    return {"nextFireAt": round(item.next_at.timestamp() * 1000)}


def format_schedule(item: ScheduledItem, spent: float) -> str:
    """Return a one-line description of a schedule for the user."""
    when = f"next {item.next_at:%Y-%m-%d %H:%M}" if item.next_at else "ending"
    times = f"{item.came} of {item.wish.times}" if item.wish.times else str(item.came)
    budget = f" of ${item.wish.budget_usd:.2f}" if item.wish.budget_usd is not None else ""
    return (
        f"{item.id}  {item.wish.rhythm()}, {when}, {times} submitted, "
        f"ends {item.until:%Y-%m-%d %H:%M}; "
        f"${spent:.4f}{budget} spent since it started: {item.wish.prompt.splitlines()[0][:60]}"
    )


# ScheduleCron, ScheduleList and ScheduleDelete: schedules for the model's own prompts.


class ScheduleCronInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    prompt: Annotated[str, Meta(min_length=1, description="The prompt you will receive")]
    cron: Annotated[
        str, Meta(description="minute hour day month weekday, local time: */10 9-17 * * 1-5")
    ] = ""
    after_s: Annotated[
        int, Meta(ge=1, le=86_400, description="Instead of cron: once, after this many seconds")
    ] = 0
    recurring: Annotated[bool, Meta(description="With cron: false means run only once")] = True
    times: Annotated[int, Meta(ge=1, le=1000, description="At most this many times")] | None = None


class ScheduleCron(Tool[ScheduleCronInput]):
    name = "ScheduleCron"
    description = "Schedule a prompt, once or repeatedly"
    prompt = (
        "Schedule a prompt to yourself: once after `after_s` seconds, or by a cron expression. It arrives "
        "between turns while this session runs, for at most 30 days, and costs a turn each time, so "
        "choose the longest interval that works. Make the prompt self-contained, and say in it when to "
        "stop. Use it to wait for what you aren't notified of; background commands do notify you."
    )
    input_type = ScheduleCronInput
    also_called = ("CronCreate", "ScheduleWakeup")
    renamed = (("delaySeconds", "after_s"),)
    is_deferred = True
    search_words = "cron timer remind wake loop interval"

    def __init__(self, board: Board, now: Callable[[], datetime]) -> None:
        self._board = board
        self._now = now

    def is_concurrency_safe(self, arguments: ScheduleCronInput) -> bool:
        return True

    def title(self, arguments: ScheduleCronInput) -> str:
        return f"{arguments.cron or f'in {arguments.after_s} s'}: {arguments.prompt[:60]}"

    async def call(self, arguments: ScheduleCronInput, ctx: ToolContext) -> ToolOutcome:
        try:
            item = self._board.add(self._wish(arguments))
        except (UserError, ValueError) as error:
            raise ToolError(str(error)) from None
        text = f"Schedule {item.id}: {item.wish.rhythm()}, next at {item.next_at:%Y-%m-%d %H:%M}"
        return ToolOutcome(
            content=f"{text}, until {item.until:%Y-%m-%d %H:%M} at the latest. ScheduleDelete ends it.",
            tool_use_result={
                "id": item.id,
                "humanSchedule": item.wish.rhythm(),
                "recurring": item.wish.times != 1,
                "durable": False,
                **next_run(item),
                **({} if item.wish.times == 1 else {"maxAgeMs": MAX_AGE_MS}),
            },
            display=text,
        )

    def _wish(self, arguments: ScheduleCronInput) -> ScheduleRequest:
        if bool(arguments.cron) == bool(arguments.after_s):
            raise ToolError("Use either cron or after_s.")
        if arguments.after_s:
            at = self._now() + timedelta(seconds=arguments.after_s)
            return ScheduleRequest(prompt=arguments.prompt, at=at, times=1)
        return ScheduleRequest(
            prompt=arguments.prompt,
            cron=cron.read(arguments.cron),
            expression=arguments.cron,
            times=arguments.times if arguments.recurring else 1,
        )


class ScheduleListInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class ScheduleList(Tool[ScheduleListInput]):
    name = "ScheduleList"
    description = "List this session's schedules"
    input_type = ScheduleListInput
    also_called = ("CronList",)
    is_deferred = True

    def __init__(self, board: Board) -> None:
        self._board = board

    def is_read_only(self, arguments: ScheduleListInput) -> bool:
        return True

    async def call(self, arguments: ScheduleListInput, ctx: ToolContext) -> ToolOutcome:
        lines = [
            format_schedule(item, self._board.spent_since(item)) for item in self._board.running()
        ]
        return ToolOutcome(
            content="\n".join(lines) or "No schedules.",
            tool_use_result={"jobs": [describe_job(item) for item in self._board.running()]},
            display=f"{len(lines)} scheduled",
        )


class ScheduleDeleteInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(min_length=1, description="The schedule, such as s1")]


class ScheduleDelete(Tool[ScheduleDeleteInput]):
    name = "ScheduleDelete"
    description = "Delete a schedule"
    input_type = ScheduleDeleteInput
    also_called = ("CronDelete",)
    is_deferred = True

    def __init__(self, board: Board) -> None:
        self._board = board

    def title(self, arguments: ScheduleDeleteInput) -> str:
        return arguments.id

    async def call(self, arguments: ScheduleDeleteInput, ctx: ToolContext) -> ToolOutcome:
        item = self._board.find(arguments.id)
        if item is None:
            ids = ", ".join(item.id for item in self._board.running()) or "none"
            raise ToolError(f"Schedule {arguments.id} not found; existing schedules: {ids}.")
        await self._board.stop(item)
        return ToolOutcome(
            content=f"Deleted schedule {item.id}.",
            tool_use_result={"id": item.id},
            display=f"deleted {item.id}",
        )
