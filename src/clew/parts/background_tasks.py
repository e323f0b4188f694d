"""News about background tasks as messages, and records of how background commands ended.

A command's end is recorded when it happens (`keep_ends`), because the conversation learns of it
only with the next prompt, which may be in another run. `parts.past_commands` reads the record.

Decision: docs/decisions/116-background-tasks.md
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from clew.agent.tasks.notice import SCHEDULE, Notice, in_words
from clew.agent.tasks.registry import WIRE_KINDS, BackgroundTask, Moment, TaskEnding, Tasks
from clew.agent.tools.base import ToolSession
from clew.core.json_object import Json
from clew.core.messages import factories
from clew.record.transcript.record import Recorder
from clew.system.clock import get_timestamp, make_id
from clew.system.config.mask import remove_secrets

# News of background tasks as messages in the conversation.


def list_running(session: ToolSession) -> list[Json]:
    """Return a conversation's running background tasks, in the form for hooks and hosts."""
    return [
        describe_row(task)
        for task in session.background.tasks.running
        if task.owner == session.background.owner
    ]


def describe_row(task: BackgroundTask) -> Json:
    return {
        "task_id": task.id,
        "task_type": task.wire_kind,
        "description": task.title,
        **({"kept": True} if task.is_kept else {}),
    }


def find_unended(session: ToolSession) -> list[Json]:
    """Return the background tasks whose end was not yet reported to the conversation."""
    return [
        {
            "taskId": task.id,
            "kind": task.kind,
            "title": remove_secrets(" ".join(task.title.split()), session.secrets),
            "toolUseId": task.tool_use_id,
        }
        for task in session.background.tasks.all()
        if task.kind in WIRE_KINDS
        and task.owner == session.background.owner
        and task.is_background
        and not (task.ending is not None and task.is_told)
    ]


def find_news(session: ToolSession) -> list[Json]:
    """Return undelivered news about tasks as messages, and mark the news as delivered.

    A system entry that names the schedule precedes each scheduled prompt.
    """
    entries: list[Json] = []
    for notice in session.background.tasks.news(owner=session.background.owner):
        if is_prompt(notice):
            entries.append(
                factories.make_system(
                    "scheduled_task_fire",
                    remove_secrets(notice.title, session.secrets),
                    uuid=make_id(),
                    at=get_timestamp(),
                    taskId=notice.task_id,
                )
            )
        entries.append(
            factories.make_user(
                remove_secrets(words_of(notice), session.secrets),
                uuid=make_id(),
                at=get_timestamp(),
                origin=origin_of(notice),
                prompt_source="system",
            )
        )
    return entries


def origin_of(notice: Notice) -> Json:
    letters = {"messages": list(notice.letters)} if notice.letters else {}
    return {
        "kind": "task-notification",
        "producer": notice.kind,
        "runId": notice.task_id,
        **letters,
    }


def words_of(notice: Notice) -> str:
    """Return the news about a task as text; a schedule's prompt is returned unchanged."""
    return "\n".join(notice.lines) if is_prompt(notice) else in_words(notice)


def is_prompt(notice: Notice) -> bool:
    return notice.kind == SCHEDULE and bool(notice.lines)


COMMANDS = ("shell", "monitor")


@contextmanager
def keep_ends(
    tasks: Tasks, recorder_of: Callable[[str], Recorder | None], secrets: tuple[str, ...]
) -> Iterator[None]:
    """Record how commands end while this context manager is active.

    The records are written to the transcript of the conversation that started the command. Commands
    that end because clew exits are not recorded, because they end after this context. If a kept
    command is to be stopped, its end is recorded before it is asked to stop.
    """

    def note(task: BackgroundTask, ending: TaskEnding) -> Recorder | None:
        recorder = recorder_of(task.owner) if task.kind in COMMANDS else None
        if recorder is not None:
            recorder.task_ended(
                task.id,
                task.tool_use_id,
                status=ending.status,
                words=remove_secrets(ending.words, secrets),
                exit_code=ending.exit_code,
            )
        return recorder

    def watch(task: BackgroundTask, moment: Moment) -> None:
        if moment == "ended" and task.ending is not None:
            note(task, task.ending)

    async def ahead(task: BackgroundTask) -> None:
        recorder = note(task, TaskEnding(status="stopped"))
        if recorder is not None:
            await recorder.durable()

    tasks.watchers.append(watch)
    tasks.before_stop.append(ahead)
    try:
        yield
    finally:
        tasks.watchers.remove(watch)
        tasks.before_stop.remove(ahead)
