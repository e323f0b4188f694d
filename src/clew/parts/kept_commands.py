"""Commands that the user chose to keep running when an earlier run of the session ended.

Commands that are still running become tasks of this run: their output is read from files, and they
are stopped through their watcher processes. The ends of other commands are reported once, with the
next prompt.
"""

import asyncio
import os
import stat
from collections.abc import Callable, Container
from contextlib import suppress
from pathlib import Path

from clew.agent.tasks.lines import TaskLines
from clew.agent.tasks.registry import TASK_KEEP_BYTES, BackgroundTask, TaskEnding, Tasks
from clew.agent.tools.command import UNSEEN, blank_secrets
from clew.agent.tools.command import ending_of as ended_so
from clew.core.messages.errors import UserError
from clew.parts.past_commands import read_ends
from clew.record.kept_commands import KeptRecord, RecordFolder, call_off, forget, read
from clew.record.transcript.loaded import LoadedSession
from clew.system.files import open_only_files
from clew.system.process.output import ProcessOutput
from clew.system.process.run import FinishedCommand

# The output of a command in another process: a file that grows while it is read.


READ_BYTES = 1 << 16


class FollowedFile(ProcessOutput):
    """The output of a command that another process writes to a file.

    `look` reads new data and reports the lines that were added since the file was opened.
    """

    __slots__ = ("_lines", "_told_bytes")

    def __init__(self, file: Path, *, keep_bytes: int, on_line: Callable[[str], object]) -> None:
        super().__init__(keep_bytes=keep_bytes, spill=file)
        self._lines = TaskLines(on_line)
        # A missing or irregular file is treated as empty output.
        with suppress(OSError):
            descriptor = open_only_files(str(file), os.O_RDONLY | os.O_CLOEXEC)
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                self._file = descriptor
            else:
                os.close(descriptor)
        with suppress(OSError):
            self._take_up()
        self._told_bytes = self.size

    def look(self) -> None:
        self._take_up()
        while self._told_bytes < self.size:
            most = min(READ_BYTES, self.size - self._told_bytes)
            data = os.pread(self._file, most, self._told_bytes)
            self._lines.feed(data)
            # If the file was truncated, no data is available at this position.
            self._told_bytes += len(data) or most

    def close(self) -> None:
        self.look()
        self._lines.close()
        super().close()

    def _take_up(self) -> None:
        """Update the size, and keep the beginning of the output, as for other commands."""
        if self._file >= 0:
            self.size = self.saved_bytes = max(self.size, os.fstat(self._file).st_size)
            have = len(self.head)
            if have < self.keep_bytes:
                self.head += os.pread(self._file, self.keep_bytes - have, have)


# The polling interval for running commands, and for those that were just asked to stop.
LOOK_S = 0.5
SOON_S = 0.02
# The longest wait for a process that may be stuck in the kernel.
ENDS_WITHIN_S = 5.0
WENT_ON = "(At the user's request, this command continued to run after clew exited, and is still running.)"
UNWATCHED = (
    "(At the user's request, this command continued to run after clew exited, and is still running. Its watcher was "
    "killed, so further output is lost, and clew will not notice when it ends.)"
)


class AdoptedCommand:
    """A kept command that is still running; it becomes the work of a task in this run."""

    def __init__(self, record: KeptRecord, tasks: Tasks, secrets: tuple[str, ...]) -> None:
        tasks.check_room()
        self._kept = record
        self._secrets = secrets
        self._is_given_up = False
        watched: list[BackgroundTask] = []
        is_monitor = record.about.kind == "monitor"
        self.output = FollowedFile(
            Path(record.about.file),
            keep_bytes=TASK_KEEP_BYTES,
            on_line=lambda line: tasks.say(watched[0], line) if is_monitor else None,
        )
        self.task = begin_record(record, self, tasks)
        watched.append(self.task)

    async def work(self, _: BackgroundTask) -> TaskEnding:
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
            blank_secrets(self.output, self._secrets)
        return ending_of(self._kept if now is None else now)

    async def keep(self, task: BackgroundTask) -> None:
        """Do nothing: the command is already kept."""

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


def begin_record(record: KeptRecord, elsewhere: AdoptedCommand, tasks: Tasks) -> BackgroundTask:
    about = record.about
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
    # The model is notified with the user's next prompt.
    task.is_of_before = True
    task.say(WENT_ON if record.is_watched else UNWATCHED)
    return task


def adopt_commands(
    tasks: Tasks,
    shelf: RecordFolder,
    reported_ids: Container[str],
    loaded: LoadedSession,
    secrets: tuple[str, ...],
) -> frozenset[str]:
    """Turn kept commands into tasks of this run. Return the task IDs of all kept commands.

    `reported_ids` are the tasks whose end was already reported to the conversation.
    """
    records = shelf.here()
    ends = {} if all(record.is_running for record in records) else read_ends(loaded)
    for record in records:
        if record.is_running:
            # Commands beyond the limit of running tasks keep running; `clew tasks` can stop them.
            with suppress(UserError):
                AdoptedCommand(record, tasks, secrets)
        elif record.about.task_id in reported_ids:
            forget(record)
        else:
            # If the session asked the command to stop, only the session's transcript says so.
            has_no_ending = record.end is None or record.end.called_off
            ending = (
                ends.get((record.about.task_id, record.about.tool_use_id))
                if has_no_ending
                else None
            )
            tasks.remember(end_record(record, ending or ending_of(record), secrets))
    return frozenset(record.about.task_id for record in records)


def end_record(record: KeptRecord, ending: TaskEnding, secrets: tuple[str, ...]) -> BackgroundTask:
    about = record.about
    output = FollowedFile(Path(about.file), keep_bytes=TASK_KEEP_BYTES, on_line=lambda _: None)
    output.close()
    blank_secrets(output, secrets)
    task = BackgroundTask(
        task_id=about.task_id,
        kind=about.kind,
        title=about.title,
        output=output,
        tool_use_id=about.tool_use_id,
        file=Path(about.file),
    )
    task.end(ending)
    return task


def ending_of(record: KeptRecord) -> TaskEnding:
    if record.end is None:
        return TaskEnding(status="stopped", words=UNSEEN)
    return ended_so(FinishedCommand(exit=record.end.exit, called_off=record.end.called_off))


def tidy_up(tasks: Tasks, shelf: RecordFolder) -> None:
    """At the end of a run, delete the records of commands whose end was reported."""
    for record in shelf.here():
        task = tasks.get(record.about.task_id)
        if task is not None and not record.is_running and task.ending is not None and task.is_told:
            forget(record)
