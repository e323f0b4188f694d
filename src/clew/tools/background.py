"""Commands that go on beside the conversation: begun, and shown as far as they have come."""

import codecs
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

from clew.config.mask import without
from clew.process.output import Output
from clew.process.run import Finished, run
from clew.tasks.registry import Ending, Task
from clew.tools import spill
from clew.tools.base import ToolContext, ToolError, ToolResult, failed
from clew.tools.sandboxed import walled
from clew.tools.shell_script import Program, environment, how_it_ended, start_folder

KEEP_BYTES = 60_000
# A server's log in a forgotten background must not fill a disk.
FILE_MAX_BYTES = 64 << 20
# By this a later run knows that it was told of as running.
RUNS = "It runs in the background as task {id}"
# What fails at once is told at once.
FIRST_LOOK_S = 0.1
# How programs that read transcripts call what runs a command.
WIRE_KINDS = {"shell": "local_bash", "monitor": "local_bash", "agent": "local_agent"}


async def in_background(
    program: Program, title: str, timeout_ms: int | None, ctx: ToolContext
) -> ToolResult:
    """Begins a command and gives back its task, or how it ended if it did so at once."""
    session = ctx.session
    gone = start_folder(ctx)
    task_id = session.tasks.new_id("shell", lambda name: file_of(ctx, name).exists())
    output = Output(
        keep_bytes=KEEP_BYTES, spill=file_of(ctx, task_id), file_max_bytes=FILE_MAX_BYTES
    )
    task = session.tasks.begin(
        following(program, output, None, timeout_ms, ctx),
        task_id=task_id,
        kind="shell",
        title=title,
        output=output,
        tool_use_id=ctx.tool_use_id,
        owner=session.owner,
    )
    await task.wait(FIRST_LOOK_S)
    note = f"\n(The folder {gone} is gone; it began in another.)" if gone else ""
    return begun(task, file_of(ctx, task_id), note, ctx)


def file_of(ctx: ToolContext, task_id: str) -> Path:
    return ctx.session.spill_folder / f"task-{task_id}.txt"


def following(
    program: Program,
    output: Output,
    errors: Output | None,
    timeout_ms: int | None,
    ctx: ToolContext,
) -> Callable[[Task], Coroutine[Any, Any, Ending]]:
    """The work of a task that runs a command to its end; stopping it ends the whole tree."""
    session = ctx.session
    folder, variables = session.cwd, environment(ctx)

    async def work(_: Task) -> Ending:
        # There from the beginning, so that it can be read while it grows.
        output.save()
        try:
            with program.opened() as (argv, descriptors):
                async with walled(session.sandbox, program.text, argv, folder, variables) as made:
                    finished = await run(
                        session.launcher,
                        made.argv,
                        cwd=folder,
                        env=made.environment,
                        stdout=output,
                        stderr=errors,
                        descriptors=descriptors | made.descriptors,
                        timeout_s=None if timeout_ms is None else timeout_ms / 1000,
                        walls=made.walls,
                    )
        finally:
            if output.saved_at is not None:
                with suppress(OSError):
                    spill.blank(output.saved_at, session.secrets)
        return ending_of(finished, timeout_ms, errors)

    return work


def ending_of(finished: Finished, timeout_ms: int | None, errors: Output | None) -> Ending:
    words = how_it_ended(finished, timeout_ms)
    said = bytes(errors.head).decode("utf-8", "replace").strip() if errors is not None else ""
    return Ending(
        status="failed" if words else "completed",
        words="\n".join(filter(None, [words, said])),
        exit_code=finished.exit.code,
    )


def begun(task: Task, file: Path, note: str, ctx: ToolContext) -> ToolResult:
    raw = {
        "stdout": "",
        "stderr": "",
        "interrupted": False,
        "isImage": False,
        "noOutputExpected": False,
        "backgroundTaskId": task.id,
    }
    if task.ending is None:
        return ToolResult(
            content=f"{RUNS.format(id=task.id)}; what it prints goes to {file}. "
            "TaskOutput shows what is new, TaskStop ends it, and you are told when it has ended. "
            f"When clew ends it ends too.{note}",
            tool_use_result=raw,
            display=f"Runs in the background as {task.id}",
        )
    text = f"{state(task)}\n{new_output(task, ctx)}{note}"
    if task.status == "failed":
        return failed(text)
    return ToolResult(content=text, tool_use_result=raw, display=state(task))


def known(ctx: ToolContext, task_id: str) -> Task:
    task = ctx.session.tasks.get(task_id)
    if task is None:
        there = ", ".join(each.id for each in ctx.session.tasks.all()) or "none"
        raise ToolError(
            f"There is no task {task_id}; of this run there are: {there}. Tasks end with the run of "
            f"clew that began them. What an earlier one printed is in {file_of(ctx, task_id)}."
            if file_of(ctx, task_id).exists()
            else f"There is no task {task_id}; of this run there are: {there}."
        )
    return task


def state(task: Task) -> str:
    """A task in one line, which counts as having been told how it ended."""
    name = f"Task {task.id} ({task.kind} “{task.title}”)"
    if task.ending is None:
        return f"{name} runs."
    task.is_told = True
    ways = {"completed": "has completed", "failed": "has failed", "stopped": "was stopped"}
    words = f": {task.ending.words}" if task.ending.words else ""
    return f"{name} {ways[task.ending.status]}{words}".rstrip(".") + "."


def new_output(task: Task, ctx: ToolContext) -> str:
    """What it printed since it was last asked; long output by its ends."""
    limit, output = ctx.session.limits.bash_max_output_chars, task.output
    since = task.shown_bytes
    task.shown_bytes = output.size - (half_a_character(output) if task.ending is None else 0)
    if since == task.shown_bytes:
        return "(no output)" if not since else "(nothing new)"
    first, last = output.since(since, limit)
    ends = task.shown_bytes - output.size or None
    head, tail = text(first[:ends] if not last else first, ctx), text(last[:ends], ctx)
    if not tail:
        return head.rstrip("\n")
    note = spill.whereabouts(task.shown_bytes - since, output.saved_at, output.saved_bytes - since)
    return spill.ends(head, note, tail)


def half_a_character(output: Output) -> int:
    """How many bytes at the end begin a character that has not come whole."""
    last = output.span(max(0, output.size - 3), output.size)
    return len(last) - codecs.utf_8_decode(last, "ignore", False)[1]


def text(data: bytes, ctx: ToolContext) -> str:
    return without(data.decode("utf-8", "replace"), ctx.session.secrets)


def described(task: Task, output: str) -> dict[str, Any]:
    """The task as programs read it."""
    return {
        "task_id": task.id,
        "task_type": WIRE_KINDS.get(task.kind, task.kind),
        "status": task.status,
        "description": task.title,
        "output": output,
        "exitCode": None if task.ending is None else task.ending.exit_code,
    }
