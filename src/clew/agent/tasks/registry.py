"""What a session runs in the background: each task with its output, its state and its end.

Owns the life of every task: none outlives `aclose`, but for what a person keeps. A kind is any word
(`shell`, `monitor`, ...); what the work is comes as a coroutine function. Must never raise what a task
raised.

Decision: docs/decisions/116-background-tasks.md
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from clew.agent.tasks.notice import Notice
from clew.core.messages.errors import UserError
from clew.system.process.output import ProcessOutput

Moment: TypeAlias = Literal["began", "moved", "left", "ended"]
Status: TypeAlias = Literal["running", "completed", "failed", "stopped"]

# How programs that read transcripts call what runs in the background.
WIRE_KINDS = {"shell": "local_bash", "monitor": "local_bash", "agent": "local_agent"}
# Of an output so much is held from each end.
TASK_KEEP_BYTES = 60_000
MOST_RUNNING = 32
# So many that have ended are remembered.
MOST_ENDED = 200
GOES_ON = "it goes on without clew"
# What a task said and nobody has taken yet; further lines are counted, and are in its file.
MOST_LINES = 100


class TaskEnding(Struct, frozen=True, kw_only=True):
    """How a task ended."""

    status: Status
    words: str = ""
    exit_code: int | None = None
    # What it was begun for, where that is words.
    result: str = ""


class DetachedWork(Protocol):
    """How work goes on without clew."""

    async def keep(self, task: "BackgroundTask") -> None:
        """From now on it does. Raises UserError where it cannot."""
        ...

    def give_up(self) -> None:
        """It is to end with its task again."""
        ...


class TaskUsage(Struct, frozen=True, kw_only=True):
    """How much a task that asks a model has done so far."""

    tokens: int = 0
    tool_uses: int = 0
    last_tool: str = ""


class BackgroundTask:
    """One piece of work; `ending` is None while it runs and stays what it becomes.

    `is_told`: the model knows that it ended. `shown_bytes`: how much of the output it was shown.
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
        # Whether the conversation goes on without waiting for it.
        self.is_background = True
        self.is_of_before = False
        # Goes on when clew ends, because a person said so.
        self.is_kept = False
        self.keeping: DetachedWork | None = None
        # Gives a task that nobody saw its id and its file, once it goes on in the background.
        self.settle: Callable[[], str] | None = None
        # What its work raised, for who waits for it.
        self.fault: BaseException | None = None
        # The agent that began it, who hears of it; empty for the session's own conversation.
        self.owner = ""
        self.usage: TaskUsage | None = None
        self.shown_bytes = 0
        self._file = file
        self._begin_s = time.monotonic()
        self._end_s: float | None = None
        self._lines: list[str] = []
        # The ids of those that are messages, in their order.
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
        """Where all it said can be read: its own file, or that of its output."""
        return self._file or self.output.saved_at

    def end(self, ending: TaskEnding) -> None:
        self.ending = ending
        self._end_s = time.monotonic()
        self._ended.set()
        self._released.set()

    def leave(self) -> None:
        """Goes on in the background; the model is told of its end."""
        self.is_background, self.is_told = True, False
        self._released.set()

    async def released(self) -> None:
        """Waits until it has ended, or goes on in the background."""
        await self._released.wait()

    async def wait(self, within_s: float | None = None) -> bool:
        """Whether it has ended, after waiting for that no longer than said."""
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
        """What the model has not heard yet; it counts as heard from now on."""
        if not self.has_news:
            return None
        self.is_told = self.ending is not None
        lines, self._lines = tuple(self._lines), []
        dropped, self._dropped = self._dropped, 0
        letters, self._letters = tuple(self._letters), []
        was_of_before = self.is_of_before
        # From now on one that went on since an earlier run is as any other.
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
            lines=lines,
            dropped_lines=dropped,
            is_of_before=was_of_before,
            letters=letters,
        )


Work: TypeAlias = Callable[[BackgroundTask], Coroutine[Any, Any, TaskEnding]]


class Tasks:
    """The tasks of a session, by id. `listeners` are called whenever there may be news for the model,
    `watchers` of each task's beginning, steps and end; `before_stop` before what a person kept is ended."""

    def __init__(self) -> None:
        self._count = 0
        self._tasks: dict[str, BackgroundTask] = {}
        # What somebody waits for and nobody else knows of: it has no id.
        self._unlisted: list[BackgroundTask] = []
        self._work: dict[BackgroundTask, asyncio.Task[TaskEnding]] = {}
        self.listeners: list[Callable[[], object]] = []
        self.watchers: list[Callable[[BackgroundTask, Moment], object]] = []
        self.before_stop: list[Callable[[BackgroundTask], Awaitable[None]]] = []

    def all(self) -> list[BackgroundTask]:
        return list(self._tasks.values())

    def newest_first(self) -> list[BackgroundTask]:
        """As people see them: what runs, and behind it what has ended."""
        tasks = list(reversed(self._tasks.values()))
        ended = [task for task in tasks if task.ending is not None]
        return [*(task for task in tasks if task.ending is None), *ended]

    @property
    def running(self) -> list[BackgroundTask]:
        return [task for task in self._tasks.values() if task.ending is None]

    def get(self, task_id: str) -> BackgroundTask | None:
        return self._tasks.get(task_id)

    def new_id(self, kind: str, is_taken: Callable[[str], bool] = lambda _: False) -> str:
        """An id for a task to come; `is_taken`: by a task of an earlier run of the session."""
        self.check_room()
        while True:
            self._count += 1
            task_id = f"{kind[0]}{self._count}"
            if task_id not in self._tasks and not is_taken(task_id):
                return task_id

    def check_room(self) -> None:
        """Raises where no more may run at once."""
        if len(self._work) - len(self._unlisted) >= MOST_RUNNING:
            raise UserError(
                f"{MOST_RUNNING} tasks run in the background; one has to be stopped first"
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
        # Whoever waits for a task tells what came of it.
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
        """What is waited for and may yet be left to the background: only then it is one of the tasks."""
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
        """A task of an earlier run of the session, which has ended."""
        task.is_of_before = True
        self._tasks[task.id] = task

    def moved(self, task: BackgroundTask) -> None:
        """A task has done a step."""
        self._watch(task, "moved")

    def leave(self, tool_use_id: str | None = None) -> list[BackgroundTask]:
        """The session's own conversation waits no longer for what it waits for, or for what one call
        began; which tasks that were. Raises UserError where no more may run in the background."""
        # Until it is left, a command that a turn waits for is unlisted and has no frame: otherwise hosts
        # would show each `ls` as a task.
        waited = [
            task
            for task in [*self.running, *self._unlisted]
            if not task.is_background and not task.owner and tool_use_id in (None, task.tool_use_id)
        ]
        for task in waited:
            self._leave(task)
        return waited

    def _leave(self, task: BackgroundTask) -> None:
        """Nobody waits for a task any more; the model is told of its end."""
        moment: Moment = "left"
        if task.settle is not None:
            task.id, task.settle, moment = task.settle(), None, "began"
            self._unlisted.remove(task)
            self._tasks[task.id] = task
        task.leave()
        self._watch(task, moment)

    async def keep(self, task: BackgroundTask) -> None:
        """Has a task go on when clew ends, at a person's word. It is the session's from now on, also
        where an agent began it. Raises UserError where it cannot."""
        if task.ending is not None:
            raise UserError(f"task {task.id} has ended")
        if task.keeping is None:
            raise UserError(
                f"task {task.id} is work of clew's own and ends with it; commands and monitors are kept"
            )
        if not task.is_kept:
            await task.keeping.keep(task)
            task.is_kept, task.owner = True, ""

    def say(self, task: BackgroundTask, line: str, letter: str = "") -> None:
        """A task has something for the model to hear; `letter` is its id, where it is a message."""
        task.say(line, letter)
        self._tell()

    async def stop(self, task: BackgroundTask) -> None:
        """Ends a task and waits until it has ended; nothing if it has."""
        work = self._work.get(task)
        if work is not None:
            if task.is_kept:
                # It does not end with clew: what is asked to end may do so when clew is gone.
                for note in self.before_stop:
                    await note(task)
            if task.keeping is not None:
                task.is_kept = False
                task.keeping.give_up()
            work.cancel()
            await task.wait()

    def has_news(self, kind: str = "", *, owner: str = "") -> bool:
        """Whether a conversation should hear something now: of any of its tasks, or of those of a
        kind. What an earlier run left goes with the next prompt."""
        return any(
            t.has_news and not t.is_of_before and kind in ("", t.kind) and t.owner == owner
            for t in self._tasks.values()
        )

    def news(self, *, owner: str = "") -> list[Notice]:
        """What a conversation should hear, once."""
        mine = [task for task in self.all() if task.owner == owner]
        return [notice for task in mine if (notice := task.news()) is not None]

    def working(self, kind: str, *, owner: str = "") -> list[BackgroundTask]:
        """Those of a kind that a conversation has in the background."""
        return [t for t in self.running if t.kind == kind and t.is_background and t.owner == owner]

    async def ended(self, kind: str, *, owner: str = "") -> None:
        """Waits until none of these runs any more."""
        while working := self.working(kind, owner=owner):
            await working[0].wait()

    async def stop_all(self, owner: str) -> None:
        """Ends what a conversation leaves behind: nobody would hear of it any more."""
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
