"""Monitor: a command in the background whose every line of output is news for the model."""

from typing import Annotated

from msgspec import Meta, Struct

from clew.config.there import is_there
from clew.process.output import Output
from clew.tasks.lines import LineOutput
from clew.tasks.registry import Task
from clew.tools.background import FIRST_LOOK_S, KEEP_BYTES, begun
from clew.tools.base import Tool, ToolContext, ToolResult, refuse_odd
from clew.tools.command import FILE_MAX_BYTES, Command, file_of
from clew.tools.shell_script import first_lines, shell_program, start_folder

WATCH_MS = 300_000
MOST_WATCH_MS = 3_600_000
ERRORS_BYTES = 2000


class MonitorInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    command: Annotated[str, Meta(min_length=1, description="What prints a line for each event")]
    description: Annotated[str, Meta(description="What is watched, in a few words")] | None = None
    timeout_ms: Annotated[
        int, Meta(ge=1, le=MOST_WATCH_MS, description="How long to watch, in milliseconds")
    ] = WATCH_MS
    persistent: Annotated[bool, Meta(description="Watch until stopped or clew ends")] = False


class Monitor(Tool[MonitorInput]):
    name = "Monitor"
    description = "Watch what a command prints"
    prompt = (
        "Runs a command in the background and tells you every line it prints to standard output: "
        "between your steps, or with the next prompt. Let the command print only what you have to "
        "know, each event as one line (tail -F log | grep --line-buffered ERROR; a loop that polls "
        "and sleeps). It ends after timeout_ms (5 minutes) unless persistent; TaskStop ends it "
        "earlier. To wait for one command to end use Bash with run_in_background."
    )
    input_type = MonitorInput
    owns_its_time = True

    def title(self, given: MonitorInput) -> str:
        return given.description or given.command.strip(" \t\n").split("\n", 1)[0]

    async def call(self, given: MonitorInput, ctx: ToolContext) -> ToolResult:
        refuse_odd(given.command, "A command")
        start_folder(ctx)
        tasks = ctx.session.tasks
        task_id = tasks.new_id("monitor", lambda name: is_there(file_of(ctx, name)))
        watched: list[Task] = []
        output = LineOutput(
            keep_bytes=KEEP_BYTES,
            spill=file_of(ctx, task_id),
            file_max_bytes=FILE_MAX_BYTES,
            on_line=lambda line: tasks.say(watched[0], line),
        )
        errors = Output(keep_bytes=ERRORS_BYTES)
        timeout_ms = None if given.persistent else given.timeout_ms
        program = shell_program(given.command, first_lines(ctx))
        task = tasks.begin(
            Command(program, output, ctx, errors=errors, timeout_ms=timeout_ms).work,
            task_id=task_id,
            kind="monitor",
            title=self.title(given),
            output=output,
            tool_use_id=ctx.tool_use_id,
            owner=ctx.session.owner,
        )
        watched.append(task)
        await task.wait(FIRST_LOOK_S)
        return begun(task, file_of(ctx, task_id), "", ctx)
