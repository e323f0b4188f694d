"""Commands that go on beside the conversation: begun, and shown as far as they have come."""

import codecs
from pathlib import Path
from typing import Any

from clew.config.mask import without
from clew.config.there import is_there
from clew.process.output import Output
from clew.tasks.notice import RUNS, SO_FAR
from clew.tasks.registry import Task
from clew.tools import spill
from clew.tools.base import ToolContext, ToolError, ToolResult, failed
from clew.tools.command import FILE_MAX_BYTES, Command, file_of
from clew.tools.shell_script import Program, start_folder

KEEP_BYTES = 60_000
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
    task_id = session.tasks.new_id("shell", lambda name: is_there(file_of(ctx, name)))
    output = Output(
        keep_bytes=KEEP_BYTES, spill=file_of(ctx, task_id), file_max_bytes=FILE_MAX_BYTES
    )
    task = session.tasks.begin(
        Command(program, output, ctx, timeout_ms=timeout_ms).work,
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


def begun(
    task: Task, file: Path, note: str, ctx: ToolContext, *, by_person: bool = False
) -> ToolResult:
    """What a call answers whose command goes on; `by_person`: it is one that was waited for until then."""
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
            said = new_output(task, ctx)
            raw |= {"stdout": said if task.output.size else "", "backgroundedByUser": True}
            so_far = (
                f"\nThe person had it go on there; it has no limit of time any more.{SO_FAR}{said}"
            )
        return ToolResult(
            content=f"{RUNS.format(id=task.id)}; what it prints goes to {file}. "
            "TaskOutput shows what is new, TaskStop ends it, and you are told when it has ended. "
            f"When clew ends it ends too, unless the person keeps it.{note}{so_far}",
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
            if is_there(file_of(ctx, task_id))
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
