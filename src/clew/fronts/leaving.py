"""Exiting while background tasks run: the question to the user, and the report about the tasks.

A command can be kept running after clew exits; a subagent runs inside clew and ends with it.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from clew.agent.tasks.notice import REMOTE
from clew.agent.tasks.registry import BackgroundTask, Tasks
from clew.core.messages.errors import UserError
from clew.core.messages.text import format_count
from clew.fronts.dialog import Choice, Dialog, DialogAnswer
from clew.fronts.render.rows import join_lines
from clew.session.session import Session

Choose: TypeAlias = Callable[[Dialog], Awaitable[DialogAnswer | None]]


async def may_exit(tasks: Tasks, choose: Choose, tell: Callable[[str], object]) -> bool:
    """Return whether clew may exit, after asking about the background tasks that still run.

    Tasks that the user wants to keep are detached. If there is no answer, clew does not exit.
    """
    running = [task for task in tasks.running if task.is_background and not task.is_kept]
    if not running:
        return True
    dialog = make_exit_dialog(running)
    answer = await choose(dialog)
    key = "" if answer is None else dialog.choices[answer.chosen[0]].key
    if key == "k":
        try:
            for task in running:
                if task.keeping is not None and task.ending is None:
                    await tasks.keep(task)
        except UserError as error:
            tell(f"Can't keep {task.id} running: {error}")
            return False
    return key in ("e", "k")


def make_exit_dialog(running: Sequence[BackgroundTask]) -> Dialog:
    """Return the dialog that asks what to do with the running tasks.

    The preselected choice is to stay, so that no task is stopped by accident.
    """
    keepable = [task for task in running if task.keeping is not None]
    lines = [f"  {task.kind} {task.id}: {join_lines(task.title)}" for task in running]
    choices = [Choice(label="Stop and exit", key="e")]
    if keepable:
        hint = "" if len(keepable) == len(running) else "agents stop"
        choices.append(Choice(label="Keep running and exit", key="k", hint=hint))
    choices.append(Choice(label="Stay", key="n", refuses=True))
    return Dialog(
        title=f"Exit with {format_count(len(running), 'background task')} running?",
        text="\n".join(lines),
        choices=choices,
        at=len(choices) - 1,
        escape="stay",
    )


def list_left_tasks(session: Session) -> list[str]:
    """Return a notice for each background task that clew stops by exiting or leaves running."""
    lines = []
    for task in session.parts.tasks.running:
        how = "Still running" if task.is_kept else "Stopped background task"
        name = f"{session.session_id[:8]}/{task.id}"
        then = f" (stop it with: clew tasks stop {name})" if task.is_kept else ""
        if task.kind == REMOTE:
            then = " (continues on the other machine; resume this session to see the result)"
        lines.append(f"{how}: {task.kind} {task.id} {join_lines(task.title)}{then}")
    return lines
