"""What a session runs in the background: each task with its output, its state and its end.

Owns the life of every task: none outlives `aclose`. A kind is any word (`shell`, `monitor`, ...);
what the work is comes as a coroutine function. Must never raise what a task raised.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from clew.messages.errors import UserError
from clew.process.output import Output
from clew.tasks.notice import Notice

Status: TypeAlias = Literal["running", "completed", "failed", "stopped"]

MOST_RUNNING = 32
# So many that have ended are remembered.
MOST_ENDED = 200
# What a task said and nobody has taken yet; further lines are counted, and are in its file.
MOST_LINES = 100


class Ending(Struct, frozen=True, kw_only=True):
    """How a task ended."""

    status: Status
    words: str = ""
    exit_code: int | None = None


class Task:
    """One piece of work; `ending` is None while it runs and stays what it becomes.

    `is_told`: the model knows that it ended. `shown_bytes`: how much of the output it was shown.
    """

    def __init__(
        self, *, task_id: str, kind: str, title: str, output: Output, tool_use_id: str
    ) -> None:
        self.id = task_id
        self.kind = kind
        self.title = title
        self.output = output
        self.tool_use_id = tool_use_id
        self.ending: Ending | None = None
        self.is_told = False
        self.shown_bytes = 0
        self._lines: list[str] = []
        self._dropped = 0
        self._ended = asyncio.Event()

    @property
    def status(self) -> Status:
        return "running" if self.ending is None else self.ending.status

    def end(self, ending: Ending) -> None:
        self.ending = ending
        self._ended.set()

    async def wait(self, within_s: float | None = None) -> bool:
        """Whether it has ended, after waiting for that no longer than said."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._ended.wait()
        return self.ending is not None

    def say(self, line: str) -> None:
        if len(self._lines) < MOST_LINES:
            self._lines.append(line)
        else:
            self._dropped += 1

    def news(self) -> Notice | None:
        """What the model has not heard yet; it counts as heard from now on."""
        is_news = self.ending is not None and not self.is_told
        if not is_news and not self._lines:
            return None
        self.is_told = self.ending is not None
        lines, self._lines = tuple(self._lines), []
        dropped, self._dropped = self._dropped, 0
        return Notice(
            task_id=self.id,
            kind=self.kind,
            title=self.title,
            status=self.status,
            words=self.ending.words if self.ending else "",
            tool_use_id=self.tool_use_id,
            file=None if self.output.saved_at is None else str(self.output.saved_at),
            lines=lines,
            dropped_lines=dropped,
        )


Work: TypeAlias = Callable[[Task], Coroutine[Any, Any, Ending]]


class Tasks:
    """The tasks of a session, by id. `listeners` are called whenever there may be news."""

    def __init__(self) -> None:
        self._count = 0
        self._tasks: dict[str, Task] = {}
        self._work: dict[str, asyncio.Task[Ending]] = {}
        self.listeners: list[Callable[[], object]] = []

    def all(self) -> list[Task]:
        return list(self._tasks.values())

    @property
    def running(self) -> list[Task]:
        return [task for task in self._tasks.values() if task.ending is None]

    def get(self, task_id: str) -> Task | None:
        return self._tasks.get(task_id)

    def new_id(self, kind: str, is_taken: Callable[[str], bool] = lambda _: False) -> str:
        """An id for a task to come; `is_taken`: by a task of an earlier run of the session."""
        if len(self._work) >= MOST_RUNNING:
            raise UserError(f"{MOST_RUNNING} tasks run in the background; stop one with TaskStop")
        while True:
            self._count += 1
            if not is_taken(found := f"{kind[0]}{self._count}"):
                return found

    def begin(
        self,
        work: Work,
        *,
        task_id: str,
        kind: str,
        title: str,
        output: Output,
        tool_use_id: str = "",
    ) -> Task:
        task = Task(task_id=task_id, kind=kind, title=title, output=output, tool_use_id=tool_use_id)
        self._tasks[task.id] = task
        running = asyncio.create_task(work(task), name=f"background {task.id}")
        self._work[task.id] = running
        running.add_done_callback(lambda done: self._ended(task, done))
        return task

    def say(self, task: Task, line: str) -> None:
        """A task has something for the model to hear."""
        task.say(line)
        self._tell()

    async def stop(self, task: Task) -> None:
        """Ends a task and waits until it has ended; nothing if it has."""
        work = self._work.get(task.id)
        if work is not None:
            work.cancel()
            await task.wait()

    def news(self) -> list[Notice]:
        """What the model should hear, once."""
        return [notice for task in self.all() if (notice := task.news()) is not None]

    async def aclose(self) -> None:
        for work in self._work.values():
            work.cancel()
        for task in self.running:
            await task.wait()

    def _ended(self, task: Task, work: "asyncio.Task[Ending]") -> None:
        del self._work[task.id]
        if work.cancelled():
            task.end(Ending(status="stopped"))
        elif (error := work.exception()) is not None:
            task.end(Ending(status="failed", words=f"{error}" or type(error).__name__))
        else:
            task.end(work.result())
        self._forget()
        self._tell()

    def _forget(self) -> None:
        ended = [task.id for task in self.all() if task.ending is not None and task.is_told]
        for task_id in ended[:-MOST_ENDED]:
            del self._tasks[task_id]

    def _tell(self) -> None:
        for listener in self.listeners:
            listener()
