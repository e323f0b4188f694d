"""The tasks of a session as files: one each, numbered, whole or not there, shared by its agents.

`<config home>/tasks/<session id>/<n>.json`. Numbers are never given twice, also not by two processes;
a change is made under the folder's lock. What cannot be read is left alone and told of.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from clew.config.write import make_private, replace
from clew.tools.base import ToolContext, ToolError

Status: TypeAlias = Literal["pending", "in_progress", "completed"]
MAX_TASKS = 10_000


class Task(Struct, kw_only=True, rename="camel"):
    """One task. `blocked_by` are the tasks that come before it; unknown fields are not kept."""

    id: str
    subject: str
    description: str = ""
    active_form: str = ""
    status: Status = "pending"
    owner: str = ""
    blocks: list[str] = []
    blocked_by: list[str] = []
    metadata: dict[str, Any] = {}


class TaskList:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def changing(self) -> Iterator[None]:
        """While entered, nobody else changes the list."""
        make_private(self._folder)
        handle = os.open(self._folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def numbers(self) -> list[int]:
        try:
            names = [path.name for path in self._folder.iterdir()]
        except FileNotFoundError:
            return []
        stems = [name.removesuffix(".json") for name in names if name.endswith(".json")]
        return sorted(int(stem) for stem in stems if stem.isascii() and stem.isdecimal())

    def tasks(self) -> list[Task]:
        """Every task that can be read, in the order of the numbers."""
        found = (self.find(str(number)) for number in self.numbers())
        return [task for task in found if task is not None]

    def find(self, task_id: str) -> Task | None:
        if not (task_id.isascii() and task_id.isdecimal() and len(task_id) < 20):
            return None
        try:
            data = (self._folder / f"{int(task_id)}.json").read_bytes()
            return msgspec.json.decode(data, type=Task, strict=False)
        except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
            return None

    def put(self, task: Task) -> None:
        text = json.dumps(msgspec.to_builtins(task), indent=2)
        replace(self._folder / f"{task.id}.json", text + "\n", mode=0o600)

    def add(self, task: Task) -> Task:
        """Gives the task the next number, also behind those that were deleted."""
        mark = self._folder / ".highwatermark"
        with self.changing():
            try:
                last = int(mark.read_text("utf-8"))
            except (FileNotFoundError, ValueError):
                last = 0
            numbers = self.numbers()
            if len(numbers) >= MAX_TASKS:
                raise ToolError(f"There are {MAX_TASKS:,} tasks; finish or delete some first.")
            task.id = str(max([last, *numbers]) + 1)
            self.put(task)
            replace(mark, task.id, mode=0o600)
        return task

    def delete(self, task_id: str) -> None:
        """Takes a task away, and out of what the others wait for. Called while changing."""
        (self._folder / f"{int(task_id)}.json").unlink(missing_ok=True)
        for other in self.tasks():
            if task_id in other.blocks or task_id in other.blocked_by:
                other.blocks = [one for one in other.blocks if one != task_id]
                other.blocked_by = [one for one in other.blocked_by if one != task_id]
                self.put(other)

    def link(self, before: str, after: str) -> None:
        """`before` comes before `after`. Called while changing; both are there."""
        first, then = self.find(before), self.find(after)
        if first is None or then is None:
            return
        first.blocks = [*first.blocks, *([] if after in first.blocks else [after])]
        then.blocked_by = [*then.blocked_by, *([] if before in then.blocked_by else [before])]
        self.put(first)
        self.put(then)


def task_list(ctx: ToolContext) -> TaskList:
    if ctx.session.own is None:
        raise ToolError("This session keeps no tasks.")
    return TaskList(ctx.session.own.task_folder)


def known(tasks: TaskList, task_id: str) -> Task:
    task = tasks.find(task_id)
    if task is None:
        there = ", ".join(map(str, tasks.numbers()[:50])) or "none"
        raise ToolError(f"There is no task {task_id}. There are: {there}.")
    return task


def line_of(task: Task, open_ids: set[str]) -> str:
    waits = [f"#{one}" for one in task.blocked_by if one in open_ids]
    owner = f" ({task.owner})" if task.owner else ""
    after = f" [after {', '.join(waits)}]" if waits else ""
    return f"#{task.id} [{task.status}] {task.subject}{owner}{after}"


def open_ids(tasks: list[Task]) -> set[str]:
    return {task.id for task in tasks if task.status != "completed"}
