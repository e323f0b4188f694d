"""The background tasks of a session: the output, state and end of each task.

Owns the lifetime of every task: none outlives `aclose`, except those that the user keeps. A kind is
any word (`shell`, `monitor`, ...), and the work is a coroutine function. An error from the work is
not raised here; it ends the task.

Decision: docs/decisions/116-background-tasks.md
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from clew.agent.tasks.notice import Notice, describe_cut
from clew.core.messages.errors import UserError
from clew.system.process.output import ProcessOutput

Moment: TypeAlias = Literal["began", "moved", "left", "ended"]
Status: TypeAlias = Literal["running", "completed", "failed", "stopped"]

# The names that transcript readers use for kinds of background tasks.
WIRE_KINDS = {"shell": "local_bash", "monitor": "local_bash", "agent": "local_agent"}
# Bytes of output kept from each end.
TASK_KEEP_BYTES = 60_000
MOST_RUNNING = 32
# The number of finished tasks to remember.
MOST_ENDED = 200
GOES_ON = "the command keeps running without clew"
# The maximum number of undelivered lines; further ones are counted and are in the task's file.
MOST_LINES = 100


class TaskEnding(Struct, frozen=True, kw_only=True):
    """The end of a task: its status and result."""

    status: Status
    words: str = ""
    exit_code: int | None = None
    # The result of the work, if it is text.
    result: str = ""


class DetachedWork(Protocol):
    """Lets a task's work continue after clew exits."""

    async def keep(self, task: "BackgroundTask") -> None:
        """Detach the work. Raise UserError if that is impossible."""
        ...

    def give_up(self) -> None:
        """Undo `keep`, so that the work ends with its task."""
        ...


class TaskUsage(Struct, frozen=True, kw_only=True):
    """The tokens and tools used so far by a task that uses a model."""

    tokens: int = 0
    tool_uses: int = 0
    last_tool: str = ""


class BackgroundTask:
    """A piece of work, in the foreground or the background; `ending` is set once, when it ends.

    `is_told` is true once the model knows about the end; `shown_bytes` is the number of bytes of
    output that were shown to the model.
    """

    def __init__(
        self,
        *,
        task_id: str,
        kind: str,
        title: str,
        output: ProcessOutput,
        tool_use_id: str = "",
        file: Path | None = None,
    ) -> None:
        self.id = task_id
        self.kind = kind
        self.title = title
        self.output = output
        self.tool_use_id = tool_use_id
        self.ending: TaskEnding | None = None
        self.is_told = False
        # Whether the conversation continues without waiting for it.
        self.is_background = True
        self.is_of_before = False
        # Continues after clew exits, at the user's request.
        self.is_kept = False
        # A monitor without a time limit, meant to run until clew exits.
        self.is_persistent = False
        self.keeping: DetachedWork | None = None
        # Assigns an ID and a file when an unlisted task moves to the background.
        self.settle: Callable[[], str] | None = None
        # The exception that its work raised, for the code that waits for it.
        self.fault: BaseException | None = None
        # The agent that started it and receives its news; empty for the main conversation.
        self.owner = ""
        self.usage: TaskUsage | None = None
        self.shown_bytes = 0
        self._file = file
        self._begin_s = time.monotonic()
        self._end_s: float | None = None
        self._lines: list[str] = []
        # The IDs of lines that are messages, in order.
        self._letters: list[str] = []
        self._dropped = 0
        self._ended = asyncio.Event()
        self._released = asyncio.Event()

    @property
    def wire_kind(self) -> str:
        return WIRE_KINDS.get(self.kind, self.kind)

    @property
    def status(self) -> Status:
        return "running" if self.ending is None else self.ending.status

    @property
    def duration_ms(self) -> int:
        end_s = time.monotonic() if self._end_s is None else self._end_s
        return round((end_s - self._begin_s) * 1000)

    @property
    def file(self) -> Path | None:
        """The file with the task's entire output: its own or that of `output`; None without one."""
        return self._file or self.output.saved_at

    @property
    def cut(self) -> str:
        """A note if `file` has only the beginning of the output, else empty."""
        output = self.output
        return describe_cut(output.saved_bytes, output.size) if output.saved_at else ""

    def end(self, ending: TaskEnding) -> None:
        self.ending = ending
        self._end_s = time.monotonic()
        self._ended.set()
        self._released.set()

    def leave(self) -> None:
        """Move the task to the background; the model will be notified of its end."""
        self.is_background, self.is_told = True, False
        self._released.set()

    async def released(self) -> None:
        """Wait until the task has ended or moved to the background."""
        await self._released.wait()

    async def wait(self, within_s: float | None = None) -> bool:
        """Wait, up to a limit, for the task to end; return whether it has ended."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._ended.wait()
        return self.ending is not None

    def say(self, line: str, letter: str = "") -> None:
        if letter:
            self._letters.append(letter)
        if len(self._lines) < MOST_LINES:
            self._lines.append(line)
        else:
            self._dropped += 1

    @property
    def has_news(self) -> bool:
        return bool(self._lines) or (self.ending is not None and not self.is_told)

    def news(self) -> Notice | None:
        """Return the task's news for the model, if any, and mark it as delivered."""
        if not self.has_news:
            return None
        self.is_told = self.ending is not None
        lines, self._lines = tuple(self._lines), []
        dropped, self._dropped = self._dropped, 0
        letters, self._letters = tuple(self._letters), []
        was_of_before = self.is_of_before
        # After this notice, a task kept from an earlier run is treated like any other.
        self.is_of_before = was_of_before and self.ending is not None
        return Notice(
            task_id=self.id,
            kind=self.kind,
            title=self.title,
            status=self.status,
            words=self.ending.words if self.ending else "",
            tool_use_id=self.tool_use_id,
            result=self.ending.result if self.ending else "",
            file=None if self.file is None else str(self.file),
            cut=self.cut,
            lines=lines,
            dropped_lines=dropped,
            is_of_before=was_of_before,
            letters=letters,
        )


Work: TypeAlias = Callable[[BackgroundTask], Coroutine[Any, Any, TaskEnding]]


class Tasks:
    """The tasks of a session, by ID.

    `listeners` are called when there may be news for the model; `watchers` when a task starts,
    progresses or ends; `before_stop` before a kept task is stopped.
    """

    def __init__(self) -> None:
        self._count = 0
        self._tasks: dict[str, BackgroundTask] = {}
        # Foreground work that only its caller knows about; it has no ID.
        self._unlisted: list[BackgroundTask] = []
        self._work: dict[BackgroundTask, asyncio.Task[TaskEnding]] = {}
        self.listeners: list[Callable[[], object]] = []
        self.watchers: list[Callable[[BackgroundTask, Moment], object]] = []
        self.before_stop: list[Callable[[BackgroundTask], Awaitable[None]]] = []

    def all(self) -> list[BackgroundTask]:
        return list(self._tasks.values())

    def newest_first(self) -> list[BackgroundTask]:
        """Return the running tasks, then the finished ones, each group newest first."""
        tasks = list(reversed(self._tasks.values()))
        ended = [task for task in tasks if task.ending is not None]
        return [*(task for task in tasks if task.ending is None), *ended]

    @property
    def running(self) -> list[BackgroundTask]:
        return [task for task in self._tasks.values() if task.ending is None]

    def get(self, task_id: str) -> BackgroundTask | None:
        return self._tasks.get(task_id)

    def new_id(self, kind: str, is_taken: Callable[[str], bool] = lambda _: False) -> str:
        """Return an ID for a new task; `is_taken` recognizes IDs from earlier runs."""
        self.check_room()
        while True:
            self._count += 1
            task_id = f"{kind[0]}{self._count}"
            if task_id not in self._tasks and not is_taken(task_id):
                return task_id

    def check_room(self) -> None:
        """Raise UserError if the maximum number of tasks is running."""
        if len(self._work) - len(self._unlisted) >= MOST_RUNNING:
            raise UserError(
                f"{MOST_RUNNING} background tasks are running (the maximum); stop one first"
            )

    def begin(
        self,
        work: Work,
        *,
        task_id: str,
        kind: str,
        title: str,
        output: ProcessOutput,
        tool_use_id: str = "",
        file: Path | None = None,
        is_background: bool = True,
        owner: str = "",
    ) -> BackgroundTask:
        self.check_room()
        task = BackgroundTask(
            task_id=task_id,
            kind=kind,
            title=title,
            output=output,
            tool_use_id=tool_use_id,
            file=file,
        )
        # The caller that waits for a foreground task reports its result.
        task.is_background, task.is_told = is_background, not is_background
        task.owner = owner
        self._tasks[task.id] = task
        self._set_to(task, work)
        self._watch(task, "began")
        return task

    def begin_unlisted(
        self,
        work: Work,
        *,
        kind: str,
        title: str,
        output: ProcessOutput,
        tool_use_id: str,
        owner: str,
        settle: Callable[[], str],
    ) -> BackgroundTask:
        """Start foreground work, which is listed as a task only if it moves to the background."""
        task = BackgroundTask(
            task_id="", kind=kind, title=title, output=output, tool_use_id=tool_use_id
        )
        task.is_background, task.is_told, task.owner = False, True, owner
        task.settle = settle
        self._unlisted.append(task)
        self._set_to(task, work)
        return task

    def _set_to(self, task: BackgroundTask, work: Work) -> None:
        running = asyncio.create_task(work(task), name=f"background {task.id}")
        self._work[task] = running
        running.add_done_callback(lambda done: self._ended(task, done))

    def remember(self, task: BackgroundTask) -> None:
        """Add a finished task from an earlier run of the session."""
        task.is_of_before = True
        self._tasks[task.id] = task

    def moved(self, task: BackgroundTask) -> None:
        """Notify the watchers that a task has progressed."""
        self._watch(task, "moved")

    def leave(self, tool_use_id: str | None = None) -> list[BackgroundTask]:
        """Move the tasks that the main conversation waits for to the background.

        With `tool_use_id`, move only that call's task. Return the moved tasks. Raise UserError if
        too many are running.
        """
        # A command that a turn waits for is not listed as a task before this. Otherwise hosts would
        # show each `ls` as a task.
        waited = [
            task
            for task in [*self.running, *self._unlisted]
            if not task.is_background and not task.owner and tool_use_id in (None, task.tool_use_id)
        ]
        for task in waited:
            self._leave(task)
        return waited

    def _leave(self, task: BackgroundTask) -> None:
        """Move a task to the background; the model will be notified of its end."""
        moment: Moment = "left"
        if task.settle is not None:
            task.id, task.settle, moment = task.settle(), None, "began"
            self._unlisted.remove(task)
            self._tasks[task.id] = task
        task.leave()
        self._watch(task, moment)

    async def keep(self, task: BackgroundTask) -> None:
        """Let a task continue after clew exits, at the user's request.

        It then belongs to the session, even if an agent started it. Raise UserError if the task
        can't continue.
        """
        if task.ending is not None:
            raise UserError(f"task {task.id} has already ended")
        if task.keeping is None:
            raise UserError(
                f"task {task.id} runs inside clew and ends when clew exits; only commands and monitors can be kept"
            )
        if not task.is_kept:
            await task.keeping.keep(task)
            task.is_kept, task.owner = True, ""

    def say(self, task: BackgroundTask, line: str, letter: str = "") -> None:
        """Add a line from a task for the model; if it is a message, `letter` is its ID."""
        task.say(line, letter)
        self._tell()

    async def stop(self, task: BackgroundTask) -> None:
        """Stop a task and wait for its end; do nothing if it has ended."""
        work = self._work.get(task)
        if work is not None:
            if task.is_kept:
                # A kept task may stop only after clew has exited, so record the request first.
                for note in self.before_stop:
                    await note(task)
            if task.keeping is not None:
                task.is_kept = False
                task.keeping.give_up()
            work.cancel()
            await task.wait()

    def has_news(self, kind: str = "", *, owner: str = "") -> bool:
        """Return whether a conversation has news that is to be delivered now.

        News left by an earlier run is delivered with the next prompt instead.
        """
        return any(
            t.has_news and not t.is_of_before and kind in ("", t.kind) and t.owner == owner
            for t in self._tasks.values()
        )

    def news(self, *, owner: str = "") -> list[Notice]:
        """Return a conversation's news and mark it as delivered."""
        mine = [task for task in self.all() if task.owner == owner]
        return [notice for task in mine if (notice := task.news()) is not None]

    def working(self, kind: str, *, owner: str = "") -> list[BackgroundTask]:
        """Return the background tasks of one kind that are running for a conversation."""
        return [t for t in self.running if t.kind == kind and t.is_background and t.owner == owner]

    async def ended(self, kind: str, *, owner: str = "") -> None:
        """Wait until a conversation has no running background task of this kind."""
        while working := self.working(kind, owner=owner):
            await working[0].wait()

    async def stop_all(self, owner: str) -> None:
        """Stop the tasks of an ended conversation, because their news can't be delivered."""
        for task in [task for task in self.running if task.owner == owner]:
            await self.stop(task)

    async def aclose(self) -> None:
        left = list(self._work.items())
        for _, work in left:
            work.cancel()
        for task, _ in left:
            await task.wait()

    def _ended(self, task: BackgroundTask, work: "asyncio.Task[TaskEnding]") -> None:
        del self._work[task]
        if task in self._unlisted:
            self._unlisted.remove(task)
        if work.cancelled():
            task.end(TaskEnding(status="stopped", words=GOES_ON if task.is_kept else ""))
        elif (error := work.exception()) is not None:
            task.fault = error
            task.end(TaskEnding(status="failed", words=f"{error}" or type(error).__name__))
        else:
            task.end(work.result())
        if task.id and not (task.is_kept and work.cancelled()):
            self._watch(task, "ended")
            self._forget()
            self._tell()

    def _forget(self) -> None:
        ended = [task.id for task in self.all() if task.ending is not None and task.is_told]
        for task_id in ended[:-MOST_ENDED]:
            del self._tasks[task_id]

    def _watch(self, task: BackgroundTask, moment: Moment) -> None:
        for watcher in self.watchers:
            watcher(task, moment)

    def _tell(self) -> None:
        for listener in self.listeners:
            listener()
