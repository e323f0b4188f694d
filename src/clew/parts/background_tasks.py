"""What background tasks have to say, and how the ends of commands are written down.

How one ended is written down when it does (`keep_ends`), for the conversation hears of it later: with the
next prompt, which may be another run's. `parts.past_commands` reads it.

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

# What background tasks have to say, as messages of the conversation.


def list_running(session: ToolSession) -> list[Json]:
    """What of a conversation runs in the background, as hooks and hosts are told."""
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
    """Of what a conversation has in the background that of which it was not told that it ended."""
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
    """What the model has not heard yet of the tasks; it has, once this was asked."""
    return [
        factories.make_user(
            remove_secrets(words_of(notice), session.secrets),
            uuid=make_id(),
            at=get_timestamp(),
            origin=origin_of(notice),
            prompt_source="system",
        )
        for notice in session.background.tasks.news(owner=session.background.owner)
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


COMMANDS = ("shell", "monitor")


@contextmanager
def keep_ends(
    tasks: Tasks, recorder_of: Callable[[str], Recorder | None], secrets: tuple[str, ...]
) -> Iterator[None]:
    """Has the ends of commands in the file of the conversation that began them, but for those that clew's
    own end makes: they come after this. What ends elsewhere, because it was asked to, is written first."""

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
