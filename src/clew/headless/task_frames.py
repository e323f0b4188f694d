"""What hosts hear of tasks: that one began, how far it is, how it ended. Values in, frames out."""

import time
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from clew.app.background import row
from clew.tasks.notice import summary
from clew.tasks.registry import Moment, Task
from clew.tools.background import WIRE_KINDS

Json: TypeAlias = dict[str, Any]
Frame: TypeAlias = Callable[..., Json]

# A task that was stopped was killed to those who follow its state.
STATES = {"completed": "completed", "failed": "failed", "stopped": "killed"}


def framed(task: Task, moment: Moment, running: Iterable[Task], system: Frame) -> list[Json]:
    match moment:
        case "began":
            about = {**named(task), "description": task.title, "task_type": wire_kind(task)}
            began = system("task_started", **about)
            return [began, *listed(running, system)] if task.is_background else [began]
        case "moved":
            if task.usage is None:
                return []
            tool = {"last_tool_name": task.usage.last_tool} if task.usage.last_tool else {}
            about = {**named(task), "description": task.title, "usage": usage(task), **tool}
            return [system("task_progress", **about)]
        case "left":
            return listed(running, system)
        case "ended":
            return [*ended(task, system), *(listed(running, system) if task.is_background else ())]


def ended(task: Task, system: Frame) -> list[Json]:
    patch = {"status": STATES.get(task.status, task.status), "end_time": round(time.time() * 1000)}
    used = {} if task.usage is None else {"usage": usage(task)}
    return [
        system("task_updated", task_id=task.id, patch=patch),
        system(
            "task_notification",
            **named(task),
            status=task.status,
            output_file="" if task.file is None else str(task.file),
            summary=summary_of(task),
            **used,
        ),
    ]


def listed(running: Iterable[Task], system: Frame) -> list[Json]:
    """Those in the background now; each such frame stands for the whole list."""
    return [system("background_tasks_changed", tasks=[row(t) for t in running if t.is_background])]


def named(task: Task) -> Json:
    return {"task_id": task.id} | ({"tool_use_id": task.tool_use_id} if task.tool_use_id else {})


def usage(task: Task) -> Json:
    used = task.usage
    return {
        "total_tokens": used.tokens if used else 0,
        "tool_uses": used.tool_uses if used else 0,
        "duration_ms": task.duration_ms,
    }


def wire_kind(task: Task) -> str:
    return WIRE_KINDS.get(task.kind, task.kind)


def summary_of(task: Task) -> str:
    ending = task.ending
    words = "" if ending is None else ending.words
    return summary(task.kind, task.title, task.status, words)
