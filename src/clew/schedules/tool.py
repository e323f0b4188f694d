"""ScheduleCron, ScheduleList and ScheduleDelete: the model wakes itself, once or again and again."""

from datetime import datetime, timedelta
from typing import Annotated

from msgspec import Meta, Struct

from clew.messages.errors import UserError
from clew.schedules import cron
from clew.schedules.board import Board, Wish, line
from clew.tools.base import Tool, ToolContext, ToolError, ToolResult


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

    def __init__(self, board: Board, now: "Now") -> None:
        self._board = board
        self._now = now

    def is_concurrency_safe(self, given: ScheduleCronInput) -> bool:
        return True

    def title(self, given: ScheduleCronInput) -> str:
        return f"{given.cron or f'in {given.after_s} s'}: {given.prompt[:60]}"

    async def call(self, given: ScheduleCronInput, ctx: ToolContext) -> ToolResult:
        try:
            one = self._board.add(self._wish(given))
        except (UserError, ValueError) as error:
            raise ToolError(str(error)) from None
        said = f"Schedule {one.id}: {one.wish.rhythm()}, next at {one.next_at:%Y-%m-%d %H:%M}"
        return ToolResult(
            content=f"{said}, at the latest until {one.until:%Y-%m-%d %H:%M}. ScheduleDelete ends it.",
            tool_use_result={"id": one.id, "humanSchedule": one.wish.rhythm()},
            display=said,
        )

    def _wish(self, given: ScheduleCronInput) -> Wish:
        if bool(given.cron) == bool(given.after_s):
            raise ToolError("Give one of cron and after_s.")
        if given.after_s:
            at = self._now() + timedelta(seconds=given.after_s)
            return Wish(prompt=given.prompt, at=at, times=1)
        return Wish(
            prompt=given.prompt,
            cron=cron.read(given.cron),
            expression=given.cron,
            times=given.times if given.recurring else 1,
        )


class Now:
    """The local time; a value of its own so that tests bring theirs."""

    def __call__(self) -> datetime:
        return datetime.now()  # cron speaks of the wall clock


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

    async def call(self, given: ScheduleListInput, ctx: ToolContext) -> ToolResult:
        lines = [line(one, self._board.spent_since(one)) for one in self._board.running()]
        return ToolResult(
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

    async def call(self, given: ScheduleDeleteInput, ctx: ToolContext) -> ToolResult:
        one = self._board.find(given.id)
        if one is None:
            there = ", ".join(one.id for one in self._board.running()) or "none"
            raise ToolError(f"There is no schedule {given.id}. There are: {there}.")
        await self._board.stop(one)
        return ToolResult(content=f"Schedule {one.id} ended.", display=f"{one.id} ended")
