"""A command in the background in front of a person: see what it printed, end it, keep it."""

from collections.abc import Awaitable, Callable

from clew.app.slash_tasks import kept_words
from clew.messages.errors import UserError
from clew.tasks.registry import Task, Tasks
from clew.tui.choosing import Choice, Chooser
from clew.tui.render.safe import one_line, visible
from clew.tui.stage import Stage

Page = Callable[[str], Awaitable[None]]


async def dealt_with(task: Task, tasks: Tasks, stage: Stage, page: Page) -> str:
    """What came of it, in words for the person; empty where there is nothing to say."""
    if task.keeping is None or task.ending is not None:
        await page(output_of(task))
        return ""
    choices = [
        Choice(label="see what it printed", key="s"),
        Choice(label="end it", key="e"),
    ]
    if not task.is_kept:
        choices.append(Choice(label="keep it: it goes on when clew ends", key="k"))
    title = f"{task.id} {one_line(task.title)}: {standing(task)}"
    answer = await stage.answered(stage.show(Chooser(title, choices)))
    match None if answer is None else choices[answer.chosen[0]].key:
        case "s":
            await page(output_of(task))
        case "e":
            await tasks.stop(task)
            return f"{task.id} was ended"
        case "k":
            try:
                await tasks.keep(task)
            except UserError as error:
                return str(error)
            return kept_words(task)
    return ""


def output_of(task: Task) -> str:
    task.output.look()
    said = bytes(task.output.head) + task.output.tail
    return visible(said.decode("utf-8", "replace"))


def standing(task: Task) -> str:
    return f"{task.status}, kept" if task.is_kept else task.status
