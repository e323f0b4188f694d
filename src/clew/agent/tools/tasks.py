"""TaskCreate, TaskGet, TaskList and TaskUpdate: numbered tasks that outlive a run of clew.

TodoWrite is for the steps of one piece of work. These tasks are for work that must be done in order
or is shared among agents.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, to_builtins

from clew.agent.tools.base import Tool, ToolContext, ToolError, ToolOutcome
from clew.system.files import make_private, replace

# The tasks of a session are numbered files, written atomically and shared by its agents.


Status: TypeAlias = Literal["pending", "in_progress", "completed"]
MAX_TASKS = 10_000


class ListedTask(Struct, kw_only=True, rename="camel"):
    """One task of the list. `blocked_by` lists the tasks that must be done first.

    Unknown fields are dropped.
    """

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
        """Hold the lock on the list for the duration of the context."""
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
        except (FileNotFoundError, NotADirectoryError):
            return []
        stems = [name.removesuffix(".json") for name in names if name.endswith(".json")]
        return sorted(int(stem) for stem in stems if stem.isascii() and stem.isdecimal())

    def tasks(self) -> list[ListedTask]:
        """Return every readable task, sorted by number."""
        candidates = (self.find(str(number)) for number in self.numbers())
        return [task for task in candidates if task is not None]

    def find(self, task_id: str) -> ListedTask | None:
        if not (task_id.isascii() and task_id.isdecimal() and len(task_id) < 20):
            return None
        try:
            data = (self._folder / f"{int(task_id)}.json").read_bytes()
            return msgspec.json.decode(data, type=ListedTask, strict=False)
        except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
            return None

    def put(self, task: ListedTask) -> None:
        text = json.dumps(msgspec.to_builtins(task), indent=2)
        replace(self._folder / f"{task.id}.json", text + "\n", mode=0o600)

    def add(self, task: ListedTask) -> ListedTask:
        """Add a task under the next number; numbers of deleted tasks are not reused."""
        mark = self._folder / ".highwatermark"
        with self.changing():
            try:
                last = int(mark.read_text("utf-8"))
            except (FileNotFoundError, ValueError):
                last = 0
            numbers = self.numbers()
            if len(numbers) >= MAX_TASKS:
                raise ToolError(f"The list already has {MAX_TASKS:,} tasks; delete some first.")
            task.id = str(max([last, *numbers]) + 1)
            self.put(task)
            replace(mark, task.id, mode=0o600)
        return task

    def delete(self, task_id: str) -> None:
        """Delete a task and all references to it. The caller must hold the lock."""
        (self._folder / f"{int(task_id)}.json").unlink(missing_ok=True)
        for other in self.tasks():
            if task_id in other.blocks or task_id in other.blocked_by:
                other.blocks = [block for block in other.blocks if block != task_id]
                other.blocked_by = [blocker for blocker in other.blocked_by if blocker != task_id]
                self.put(other)

    def link(self, before: str, after: str) -> None:
        """Record that `after` waits for `before`.

        The caller must hold the lock; both tasks must exist.
        """
        first, then = self.find(before), self.find(after)
        if first is None or then is None:
            return
        first.blocks = [*first.blocks, *([] if after in first.blocks else [after])]
        then.blocked_by = [*then.blocked_by, *([] if before in then.blocked_by else [before])]
        self.put(first)
        self.put(then)


def task_list(ctx: ToolContext) -> TaskList:
    if ctx.session.own is None:
        raise ToolError("This session has no task list.")
    return TaskList(ctx.session.own.task_folder)


def known(tasks: TaskList, task_id: str) -> ListedTask:
    task = tasks.find(task_id)
    if task is None:
        numbers = ", ".join(map(str, tasks.numbers()[:50])) or "none"
        raise ToolError(f"Task {task_id} not found; existing tasks: {numbers}.")
    return task


def line_of(task: ListedTask, open_ids: set[str]) -> str:
    waits = [f"#{blocker}" for blocker in task.blocked_by if blocker in open_ids]
    owner = f" ({task.owner})" if task.owner else ""
    after = f" [after {', '.join(waits)}]" if waits else ""
    return f"#{task.id} [{task.status}] {task.subject}{owner}{after}"


def open_ids(tasks: list[ListedTask]) -> set[str]:
    return {task.id for task in tasks if task.status != "completed"}


Id = Annotated[str, Meta(min_length=1, description="The task's number")]


class TaskCreateInput(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    subject: Annotated[str, Meta(min_length=1, description="What to do, in a few words")]
    description: Annotated[str, Meta(description="Everything needed to do it")]
    active_form: Annotated[str, Meta(description="Shown while in progress")] = ""
    metadata: Annotated[dict[str, Any], Meta(description="Other data")] = {}


class TaskCreate(Tool[TaskCreateInput]):
    name = "TaskCreate"
    description = "Add a task to the list"
    prompt = (
        "Add a pending task without an owner. Use tasks for work with many steps or an order, or"
        " shared with agents; set the order with TaskUpdate. Check TaskList first."
    )
    input_type = TaskCreateInput
    is_deferred = True
    search_words = "todo plan steps work"

    def is_concurrency_safe(self, arguments: TaskCreateInput) -> bool:
        return True

    def title(self, arguments: TaskCreateInput) -> str:
        return arguments.subject

    async def call(self, arguments: TaskCreateInput, ctx: ToolContext) -> ToolOutcome:
        tasks = task_list(ctx)
        task = tasks.add(
            ListedTask(
                id="",
                subject=arguments.subject,
                description=arguments.description,
                active_form=arguments.active_form,
                metadata=arguments.metadata,
            )
        )
        why = await ctx.session.ask_hooks("TaskCreated", about(task))
        if why:
            with tasks.changing():
                tasks.delete(task.id)
            raise ToolError(f"A hook rejected this task: {why}")
        return ToolOutcome(
            content=f"Added task #{task.id}: {task.subject}",
            tool_use_result={
                "task": {
                    "id": task.id,
                    "subject": task.subject,
                    "description": task.description,
                }
            },
            display=f"#{task.id}",
        )


class TaskGetInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    task_id: Id


class TaskGet(Tool[TaskGetInput]):
    name = "TaskGet"
    description = "Show one task in full"
    prompt = "Show a task in full: its description, its owner, and the tasks before and after it."
    input_type = TaskGetInput
    is_deferred = True
    search_words = "todo read details"

    def is_read_only(self, arguments: TaskGetInput) -> bool:
        return True

    def title(self, arguments: TaskGetInput) -> str:
        return f"#{arguments.task_id}"

    async def call(self, arguments: TaskGetInput, ctx: ToolContext) -> ToolOutcome:
        tasks = task_list(ctx)
        task = known(tasks, arguments.task_id)
        lines = [line_of(task, open_ids(tasks.tasks())), task.description]
        if task.blocks:
            lines.append("before " + ", ".join(f"#{block}" for block in task.blocks))
        return ToolOutcome(
            content="\n".join(filter(None, lines)),
            tool_use_result={"task": to_builtins(task)},
            display=task.subject,
        )


class TaskListInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class ListTasks(Tool[TaskListInput]):
    name = "TaskList"
    description = "List all tasks"
    prompt = "List every task with its number, status, owner and the tasks it waits for."
    input_type = TaskListInput
    is_deferred = True
    search_words = "todo show all"

    def is_read_only(self, arguments: TaskListInput) -> bool:
        return True

    async def call(self, arguments: TaskListInput, ctx: ToolContext) -> ToolOutcome:
        tasks = task_list(ctx).tasks()
        still_open = open_ids(tasks)
        done = len(tasks) - len(still_open)
        return ToolOutcome(
            content="\n".join(line_of(task, still_open) for task in tasks) or "No tasks.",
            tool_use_result={"tasks": [summary(task, still_open) for task in tasks]},
            display=f"{done} of {len(tasks)} done",
        )


def summary(task: ListedTask, still_open: set[str]) -> dict[str, Any]:
    return {
        "id": task.id,
        "subject": task.subject,
        "status": task.status,
        "owner": task.owner,
        "blockedBy": [blocker for blocker in task.blocked_by if blocker in still_open],
    }


class TaskUpdateInput(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    task_id: Id
    status: (
        Annotated[
            Literal["pending", "in_progress", "completed", "deleted"],
            Meta(description="deleted removes the task"),
        ]
        | UnsetType
    ) = UNSET
    subject: Annotated[str, Meta(min_length=1)] | UnsetType = UNSET
    description: str | UnsetType = UNSET
    active_form: str | UnsetType = UNSET
    owner: Annotated[str, Meta(description="Who does it")] | UnsetType = UNSET
    add_blocks: Annotated[list[str], Meta(description="Tasks that come after this one")] = []
    add_blocked_by: Annotated[list[str], Meta(description="Tasks that come before this one")] = []
    metadata: (
        Annotated[
            dict[str, Any], Meta(description="Merged into the existing data; null deletes a key")
        ]
        | UnsetType
    ) = UNSET


class TaskUpdate(Tool[TaskUpdateInput]):
    name = "TaskUpdate"
    description = "Change a task"
    prompt = (
        "Change a task: its owner, its status, and the tasks before and after it. Set "
        "in_progress when you begin, and completed only when the work is done and checked."
    )
    input_type = TaskUpdateInput
    is_deferred = True
    search_words = "todo done complete assign order"

    def is_concurrency_safe(self, arguments: TaskUpdateInput) -> bool:
        return True

    def title(self, arguments: TaskUpdateInput) -> str:
        return f"#{arguments.task_id}" + (
            "" if arguments.status is UNSET else f" {arguments.status}"
        )

    async def call(self, arguments: TaskUpdateInput, ctx: ToolContext) -> ToolOutcome:
        tasks = task_list(ctx)
        before_it = known(tasks, arguments.task_id)
        if arguments.status == "completed" != before_it.status:
            why = await ctx.session.ask_hooks("TaskCompleted", about(before_it))
            if why:
                raise ToolError(f"A hook blocked the completion of this task: {why}")
        with tasks.changing():
            task = known(tasks, arguments.task_id)
            before = task.status
            if arguments.status == "deleted":
                tasks.delete(task.id)
                changed = ["deleted"]
            else:
                changed = changed_fields(task, arguments)
                tasks.put(task)
                changed += link_tasks(tasks, task, arguments)
        result: dict[str, Any] = {"success": True, "taskId": task.id, "updatedFields": changed}
        if arguments.status not in (UNSET, before):
            result["statusChange"] = {"from": before, "to": arguments.status}
        change_list = ", ".join(changed) or "no changes"
        return ToolOutcome(
            content=f"Task #{task.id}: {change_list}.", tool_use_result=result, display=change_list
        )


def about(task: ListedTask) -> dict[str, Any]:
    """Return a description of a task, for hooks."""
    optional_fields = {"task_description": task.description, "teammate_name": task.owner}
    fields = {key: value for key, value in optional_fields.items() if value}
    return {"task_id": task.id, "task_subject": task.subject, **fields}


def changed_fields(task: ListedTask, arguments: TaskUpdateInput) -> list[str]:
    """Apply the input to the task; return the names of the changed fields."""
    changed = []
    for field in ("status", "subject", "description", "active_form", "owner"):
        value = getattr(arguments, field)
        if value is not UNSET and value != getattr(task, field):
            setattr(task, field, value)
            changed.append(field)
    if arguments.metadata is not UNSET:
        joined = task.metadata | arguments.metadata
        task.metadata = {key: value for key, value in joined.items() if value is not None}
        changed.append("metadata")
    return changed


def link_tasks(tasks: TaskList, task: ListedTask, arguments: TaskUpdateInput) -> list[str]:
    """Link other tasks that must be done before or after this one.

    Raise ToolError for a cycle, which could never be resolved.
    """
    pairs = [(task.id, other) for other in arguments.add_blocks]
    pairs += [(other, task.id) for other in arguments.add_blocked_by]
    for before, after in pairs:
        known(tasks, before)
        known(tasks, after)
        if before == after:
            raise ToolError(f"#{before} can't come before itself.")
        if comes_before(tasks, after, before):
            raise ToolError(
                f"#{before} can't come before #{after}: #{after} already comes before #{before}."
            )
        tasks.link(before, after)
    fields = (("blocks", arguments.add_blocks), ("blockedBy", arguments.add_blocked_by))
    return [name for name, others in fields if others]


def comes_before(tasks: TaskList, first: str, then: str) -> bool:
    """Return whether `then` waits for `first`, directly or through other tasks."""
    by_id = {task.id: task for task in tasks.tasks()}
    seen: set[str] = set()
    waiting = [then]
    while waiting:
        task = by_id.get(waiting.pop())
        if task is None or task.id in seen:
            continue
        seen.add(task.id)
        if first in task.blocked_by:
            return True
        waiting += task.blocked_by
    return False
