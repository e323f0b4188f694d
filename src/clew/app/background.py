"""What background tasks have to say, as messages of the conversation."""

from typing import Any, TypeAlias

from clew.app.stamps import new_id, now
from clew.config.mask import without
from clew.messages import factories
from clew.tasks.notice import SCHEDULE, Notice, in_words
from clew.tasks.registry import Task
from clew.tools.background import WIRE_KINDS
from clew.tools.base import ToolSession

Json: TypeAlias = dict[str, Any]


def running(session: ToolSession) -> list[Json]:
    """What of a conversation runs in the background, as hooks and hosts are told."""
    return [row(task) for task in session.tasks.running if task.owner == session.owner]


def row(task: Task) -> Json:
    return {
        "task_id": task.id,
        "task_type": WIRE_KINDS.get(task.kind, task.kind),
        "description": task.title,
        **({"kept": True} if task.is_kept else {}),
    }


def unended(session: ToolSession) -> list[Json]:
    """Of what a conversation has in the background that of which it was not told that it ended."""
    return [
        {
            "taskId": task.id,
            "kind": task.kind,
            "title": without(" ".join(task.title.split()), session.secrets),
            "toolUseId": task.tool_use_id,
        }
        for task in session.tasks.all()
        if task.kind in WIRE_KINDS
        and task.owner == session.owner
        and task.is_background
        and not (task.ending is not None and task.is_told)
    ]


def news(session: ToolSession) -> list[Json]:
    """What the model has not heard yet of the tasks; it has, once this was asked."""
    return [
        factories.user(
            without(words_of(notice), session.secrets),
            uuid=new_id(),
            at=now(),
            origin=origin_of(notice),
            prompt_source="system",
        )
        for notice in session.tasks.news(owner=session.owner)
    ]


def origin_of(notice: Notice) -> Json:
    letters = {"messages": list(notice.letters)} if notice.letters else {}
    return {
        "kind": "task-notification",
        "producer": notice.kind,
        "runId": notice.task_id,
        **letters,
    }


def words_of(notice: Notice) -> str:
    """A task's news; what a schedule says is a prompt as it was written. One that only ended says that."""
    is_prompt = notice.kind == SCHEDULE and notice.lines
    return "\n".join(notice.lines) if is_prompt else in_words(notice)
