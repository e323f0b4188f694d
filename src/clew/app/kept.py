"""Commands that a person kept beyond an earlier run of the session: they run on, or ended meanwhile.

Those that run are tasks of this run again, read from their files and ended through their watchers. Of
those that ended the conversation hears with the next prompt, once.
"""

import asyncio
from collections.abc import Container
from contextlib import suppress
from pathlib import Path

from clew.app.shell_past import read_ends
from clew.messages.errors import UserError
from clew.process.run import Finished
from clew.tasks.followed import FollowedFile
from clew.tasks.kept import Kept, Shelf, call_off, forget, read
from clew.tasks.registry import Ending, Task, Tasks
from clew.tools.background import KEEP_BYTES
from clew.tools.command import UNSEEN, blank
from clew.tools.command import ending_of as ended_so
from clew.transcript.load import Loaded

# How often what runs elsewhere is looked at, and what was just asked to end.
LOOK_S = 0.5
SOON_S = 0.02
# What is stuck in the kernel does not hold anybody up.
ENDS_WITHIN_S = 5.0
WENT_ON = "(The person kept it: it went on while clew was not there, and runs still.)"
UNWATCHED = (
    "(The person kept it: it went on while clew was not there, and runs still. What watched it was "
    "killed, so what it prints is lost from then on, and nobody will see how it ends.)"
)


class Elsewhere:
    """One of them, while it runs: as the work of a task."""

    def __init__(self, kept: Kept, tasks: Tasks, secrets: tuple[str, ...]) -> None:
        tasks.check_room()
        self._kept = kept
        self._secrets = secrets
        self._is_given_up = False
        watched: list[Task] = []
        is_monitor = kept.about.kind == "monitor"
        self.output = FollowedFile(
            Path(kept.about.file),
            keep_bytes=KEEP_BYTES,
            on_line=lambda line: tasks.say(watched[0], line) if is_monitor else None,
        )
        self.task = begun(kept, self, tasks)
        watched.append(self.task)

    async def work(self, _: Task) -> Ending:
        try:
            while (now := read(self._kept.path)) is not None and now.is_running:
                self.output.look()
                await asyncio.sleep(LOOK_S)
        except asyncio.CancelledError:
            if self._is_given_up:
                await self._end()
            raise
        finally:
            self.output.close()
            blank(self.output, self._secrets)
        return ending_of(self._kept if now is None else now)

    async def keep(self, task: Task) -> None:
        """It is kept as it is."""

    def give_up(self) -> None:
        self._is_given_up = True

    async def _end(self) -> None:
        call_off(self._kept)
        waited_s = 0.0
        while waited_s < ENDS_WITHIN_S:
            now = read(self._kept.path)
            if now is None or not now.is_running:
                return
            await asyncio.sleep(SOON_S)
            waited_s += SOON_S


def begun(kept: Kept, elsewhere: Elsewhere, tasks: Tasks) -> Task:
    about = kept.about
    task = tasks.begin(
        elsewhere.work,
        task_id=about.task_id,
        kind=about.kind,
        title=about.title,
        output=elsewhere.output,
        tool_use_id=about.tool_use_id,
        file=Path(about.file),
    )
    task.keeping, task.is_kept = elsewhere, True
    # The model hears of it with the next prompt, which is the person's to say.
    task.is_of_before = True
    task.say(WENT_ON if kept.is_watched else UNWATCHED)
    return task


def take_up(
    tasks: Tasks, shelf: Shelf, told: Container[str], loaded: Loaded, secrets: tuple[str, ...]
) -> frozenset[str]:
    """Makes them tasks of this run; `told` are those whose end the conversation knows. Their ids."""
    found = shelf.here()
    ends = {} if all(kept.is_running for kept in found) else read_ends(loaded)
    for kept in found:
        if kept.is_running:
            # More than may run at once: the rest goes on all the same, and clew tasks ends it.
            with suppress(UserError):
                Elsewhere(kept, tasks, secrets)
        elif kept.about.task_id in told:
            forget(kept)
        else:
            # Whether the session had asked it to end its own file knows alone.
            asked = kept.end is None or kept.end.called_off
            said = ends.get((kept.about.task_id, kept.about.tool_use_id)) if asked else None
            tasks.remember(ended(kept, said or ending_of(kept), secrets))
    return frozenset(kept.about.task_id for kept in found)


def ended(kept: Kept, ending: Ending, secrets: tuple[str, ...]) -> Task:
    about = kept.about
    output = FollowedFile(Path(about.file), keep_bytes=KEEP_BYTES, on_line=lambda _: None)
    output.close()
    blank(output, secrets)
    task = Task(
        task_id=about.task_id,
        kind=about.kind,
        title=about.title,
        output=output,
        tool_use_id=about.tool_use_id,
        file=Path(about.file),
    )
    task.end(ending)
    return task


def ending_of(kept: Kept) -> Ending:
    if kept.end is None:
        return Ending(status="stopped", words=UNSEEN)
    return ended_so(Finished(exit=kept.end.exit, called_off=kept.end.called_off))


def tidied(tasks: Tasks, shelf: Shelf) -> None:
    """At the end of a run: what the conversation was told has ended needs no record any more."""
    for kept in shelf.here():
        task = tasks.get(kept.about.task_id)
        if task is not None and not kept.is_running and task.ending is not None and task.is_told:
            forget(kept)
