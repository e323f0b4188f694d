"""Run a shell command as a task, in the foreground or in the background.

Move a command from the foreground to the background, and keep it running when clew exits. How a
command is displayed is not decided here.
"""

import codecs
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from clew.agent.tasks.notice import RUNS, SO_FAR
from clew.agent.tasks.registry import TASK_KEEP_BYTES, BackgroundTask, TaskEnding
from clew.agent.tools import spill
from clew.agent.tools.base import ToolContext, ToolError, ToolOutcome, make_failure
from clew.agent.tools.sandboxed import confine_command, describe_violations
from clew.agent.tools.shell_script import ShellProgram, describe_end, make_environment, start_folder
from clew.core.messages.errors import UserError
from clew.core.messages.text import IN_BACKGROUND
from clew.system.config.mask import remove_secrets
from clew.system.files import is_there
from clew.system.process.output import ProcessOutput
from clew.system.process.run import FinishedCommand, Hold, run
from clew.system.sandbox.walled import Walled

# The log of a forgotten server in the background must not fill the disk.
FILE_MAX_BYTES = 64 << 20
CALLED_OFF = "the user stopped it"
UNSEEN = "its exit status is unknown"
UNWATCHED = (
    "(Its watcher process was killed. The user kept the command, so it is still running and its "
    "output still arrives, but its exit status can't be known. TaskStop ends it.)"
)


def file_of(ctx: ToolContext, task_id: str) -> Path:
    return ctx.session.spill_folder / f"task-{task_id}.txt"


class RunningCommand:
    """A shell command that runs as the work of a task; stopping the task ends the process tree.

    `finished` describes how the command ended, and `made` is its sandbox. Both are available after
    the command has ended.
    """

    def __init__(
        self,
        program: ShellProgram,
        output: ProcessOutput,
        ctx: ToolContext,
        *,
        errors: ProcessOutput | None = None,
        timeout_ms: int | None = None,
        tick: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.finished: FinishedCommand | None = None
        self.made: Walled | None = None
        self._program = program
        self._output = output
        self._errors = errors
        self._timeout_ms = timeout_ms
        self._tick = tick
        self._ctx = ctx
        self._folder = ctx.session.cwd
        self._variables = make_environment(ctx)
        self._hold = Hold()
        # The report about the sandbox, cached because creating it consumes some of what it reports.
        self._held_back: tuple[str, str] | None = None

    async def work(self, task: BackgroundTask) -> TaskEnding:
        session, errors, timeout_ms = self._ctx.session, self._errors, self._timeout_ms
        task.keeping = self
        self._hold.when_unwatched = lambda: session.background.tasks.say(task, UNWATCHED)
        if task.is_background:
            # The file exists from the start, so that it can be read while it grows.
            self._output.save()

        async def tick() -> None:
            if self._tick is not None and not task.is_background:
                await self._tick()

        program, folder, variables = self._program, self._folder, self._variables
        try:
            with program.opened() as (argv, descriptors):
                async with confine_command(
                    session.shell.sandbox,
                    program.text,
                    argv,
                    folder,
                    variables,
                    line=program.line,
                    is_confined=self._ctx.is_confined,
                ) as confinement:
                    self.made = confinement
                    self.finished = finished = await run(
                        session.shell.launcher,
                        confinement.argv,
                        cwd=folder,
                        env=confinement.environment,
                        stdout=self._output,
                        stderr=errors,
                        descriptors=descriptors | confinement.descriptors,
                        timeout_s=None if timeout_ms is None else timeout_ms / 1000,
                        tick=None if self._tick is None else tick,
                        walls=confinement.walls,
                        hold=self._hold,
                    )
        finally:
            self._hold.over()
            if task.is_background:
                blank_secrets(self._output, session.secrets)
        if finished.is_unseen and session.background.shelf is not None:
            finished = replace(
                finished, called_off=session.background.shelf.was_called_off(task.id)
            )
        ending = ending_of(finished, timeout_ms, errors)
        return replace(ending, words="\n".join(filter(None, (ending.words, self.held_back()[0]))))

    def held_back(self) -> tuple[str, str]:
        """Return what the sandbox blocked, and the part of it that the user may allow.

        Both strings are empty if the command succeeded and the sandbox reported nothing.
        """
        finished, confinement, session = self.finished, self.made, self._ctx.session
        if (
            finished is None
            or confinement is None
            or not (finished.exit.code or confinement.refused or confinement.told)
        ):
            return "", ""
        texts = [
            bytes(stream.head) + stream.tail for stream in (self._output, self._errors) if stream
        ]
        text = remove_secrets(b"\n".join(texts).decode("utf-8", "replace"), session.secrets)
        failed = self._program.text if finished.exit.code else ""
        if self._held_back is None:
            self._held_back = describe_violations(
                session.shell.sandbox, text, confinement, self._folder, failed=failed
            )
        return self._held_back

    # -- from the foreground to the background

    def settle(self) -> str:
        """Move the command to the background and remove its time limit; return its task's ID."""
        session, output = self._ctx.session, self._output
        task_id = session.background.tasks.new_id(
            "shell", lambda name: is_there(file_of(self._ctx, name))
        )
        output.move(file_of(self._ctx, task_id))
        output.save()
        output.file_max_bytes = max(output.saved_bytes, FILE_MAX_BYTES)
        self._hold.lift_limit()
        return task_id

    # -- beyond the end of clew

    async def keep(self, task: BackgroundTask) -> None:
        session = self._ctx.session
        if session.background.shelf is None:
            raise UserError("this session's commands can't continue after clew exits")
        await session.background.shelf.put(
            task.id,
            self._hold,
            self._output,
            kind=task.kind,
            title=remove_secrets(task.title, session.secrets),
            command=remove_secrets(self._program.text, session.secrets),
            cwd=self._folder,
            tool_use_id=task.tool_use_id,
        )
        self._hold.lift_limit()

    def give_up(self) -> None:
        self._hold.give_up()


def blank_secrets(output: ProcessOutput, secrets: tuple[str, ...]) -> None:
    """Mask every secret in the file that contains an output."""
    if output.saved_at is not None:
        with suppress(OSError):
            spill.blank_secrets(output.saved_at, secrets)


def ending_of(
    finished: FinishedCommand, timeout_ms: int | None = None, errors: ProcessOutput | None = None
) -> TaskEnding:
    if finished.called_off:
        return TaskEnding(status="stopped", words=CALLED_OFF, exit_code=finished.exit.code)
    if finished.is_unseen:
        return TaskEnding(status="stopped", words=UNSEEN)
    words = describe_end(finished, timeout_ms)
    error_text = bytes(errors.head).decode("utf-8", "replace").strip() if errors is not None else ""
    return TaskEnding(
        status="failed" if words else "completed",
        words="\n".join(filter(None, [words, error_text])),
        exit_code=finished.exit.code,
    )


# Starting commands in the background, and reporting their state and output.


# A command that fails at once is reported at once.
FIRST_LOOK_S = 0.1


async def in_background(
    program: ShellProgram, title: str, timeout_ms: int | None, ctx: ToolContext
) -> ToolOutcome:
    """Start a command in the background.

    Return its task, or how the command ended if it has already ended.
    """
    session = ctx.session
    gone = start_folder(ctx)
    task_id = session.background.tasks.new_id("shell", lambda name: is_there(file_of(ctx, name)))
    output = ProcessOutput(
        keep_bytes=TASK_KEEP_BYTES, spill=file_of(ctx, task_id), file_max_bytes=FILE_MAX_BYTES
    )
    task = session.background.tasks.begin(
        RunningCommand(program, output, ctx, timeout_ms=timeout_ms).work,
        task_id=task_id,
        kind="shell",
        title=title,
        output=output,
        tool_use_id=ctx.tool_use_id,
        owner=session.background.owner,
    )
    await task.wait(FIRST_LOOK_S)
    note = (
        f"\n(The folder {gone} no longer exists; the command started in another folder.)"
        if gone
        else ""
    )
    return report_start(task, file_of(ctx, task_id), note, ctx)


def report_start(
    task: BackgroundTask, file: Path, note: str, ctx: ToolContext, *, by_person: bool = False
) -> ToolOutcome:
    """Return the outcome of a call whose command continues in the background.

    With `by_person`, the user moved it there while the call was waiting.
    """
    raw = {
        "stdout": "",
        "stderr": "",
        "interrupted": False,
        "isImage": False,
        "noOutputExpected": False,
        "backgroundTaskId": task.id,
    }
    if task.ending is None:
        so_far = ""
        if by_person:
            output = read_new_output(task, ctx)
            raw |= {"stdout": output if task.output.size else "", "backgroundedByUser": True}
            so_far = f"\nThe user moved the command to the background, without a time limit.{SO_FAR}{output}"
        return ToolOutcome(
            content=f"{RUNS.format(id=task.id)}; its output goes to {file}. TaskOutput shows what"
            " is new, TaskStop ends it, and you are notified when it ends. It ends when "
            f"clew exits, unless the user keeps it.{note}{so_far}",
            tool_use_result=raw,
            display=IN_BACKGROUND.format(task.id),
        )
    text = f"{describe_state(task)}\n{read_new_output(task, ctx)}{note}"
    if task.status == "failed":
        return make_failure(text)
    return ToolOutcome(content=text, tool_use_result=raw, display=describe_state(task))


def find_task(ctx: ToolContext, task_id: str) -> BackgroundTask:
    task = ctx.session.background.tasks.get(task_id)
    if task is None:
        ids = ", ".join(task.id for task in ctx.session.background.tasks.all()) or "none"
        raise ToolError(
            f"Task {task_id} not found; tasks of this run: {ids}. Tasks end with the run of clew "
            f"that started them. The output of this earlier task is in {file_of(ctx, task_id)}."
            if is_there(file_of(ctx, task_id))
            else f"Task {task_id} not found; tasks of this run: {ids}."
        )
    return task


def describe_state(task: BackgroundTask) -> str:
    """Return a task's state in one line; if the task has ended, mark its end as reported."""
    name = f"Task {task.id} ({task.kind} “{task.title}”)"
    if task.ending is None:
        return f"{name} is running."
    task.is_told = True
    ways = {"completed": "has completed", "failed": "has failed", "stopped": "was stopped"}
    words = f": {task.ending.words}" if task.ending.words else ""
    return f"{name} {ways[task.ending.status]}{words}".rstrip(".") + "."


def read_new_output(task: BackgroundTask, ctx: ToolContext) -> str:
    """Return a task's output since the last call; if it is long, only its beginning and end."""
    limit, output = ctx.session.limits.bash_max_output_chars, task.output
    output.look()
    since = task.shown_bytes
    task.shown_bytes = output.size - (half_a_character(output) if task.ending is None else 0)
    if since == task.shown_bytes:
        return "(no output)" if not since else "(nothing new)"
    first, last = output.since(since, limit)
    ends = task.shown_bytes - output.size or None
    head, tail = text(first[:ends] if not last else first, ctx), text(last[:ends], ctx)
    if not tail:
        return head.rstrip("\n")
    note = spill.describe_location(
        task.shown_bytes - since, output.saved_at, output.saved_bytes - since
    )
    return spill.ends(head, note, tail)


def half_a_character(output: ProcessOutput) -> int:
    """Return how many bytes at the end of an output belong to an incomplete character."""
    last = output.span(max(0, output.size - 3), output.size)
    return len(last) - codecs.utf_8_decode(last, "ignore", False)[1]


def text(data: bytes, ctx: ToolContext) -> str:
    return remove_secrets(data.decode("utf-8", "replace"), ctx.session.secrets)


def describe_task(task: BackgroundTask, output: str) -> dict[str, Any]:
    """Return a description of a task, for programs."""
    return {
        "task_id": task.id,
        "task_type": task.wire_kind,
        "status": task.status,
        "description": task.title,
        "output": output,
        "exitCode": None if task.ending is None else task.ending.exit_code,
    }
