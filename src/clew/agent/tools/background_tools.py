"""TaskOutput, TaskStop and Monitor: read, stop and watch background tasks."""

from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from clew.agent.tasks.lines import LineOutput
from clew.agent.tasks.registry import TASK_KEEP_BYTES, BackgroundTask
from clew.agent.tools.base import Progress, ShellInput, Tool, ToolContext, ToolOutcome, refuse_odd
from clew.agent.tools.command import (
    FILE_MAX_BYTES,
    FIRST_LOOK_S,
    RunningCommand,
    describe_state,
    describe_task,
    file_of,
    find_task,
    read_new_output,
    report_start,
)
from clew.agent.tools.shell_script import choose_program, compose_first_lines, start_folder
from clew.system.files import is_there
from clew.system.process.output import ProcessOutput

# TaskOutput: the new output of a background task, and its state.


WAIT_MS = 30_000
MOST_WAIT_MS = 600_000
TICK_S = 1.0


class TaskOutputInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    task_id: Annotated[str, Meta(min_length=1, description="The task's ID")]
    block: Annotated[bool, Meta(description="Wait until it has ended (default)")] = True
    timeout: Annotated[
        int,
        Meta(ge=0, le=MOST_WAIT_MS, description="Longest wait in milliseconds"),
    ] = WAIT_MS


class TaskOutput(Tool[TaskOutputInput]):
    """Shows a background task's new output and its state.

    The call is treated as read-only: it reads only data of the session, and the record of the
    output already shown is the session's own state.
    """

    name = "TaskOutput"
    description = "Show a background task's output"
    prompt = (
        "Show a background task's output since you last asked, and whether it is still running. "
        f"Waits up to timeout ({WAIT_MS / 1000:g} s) for the task to end; block=false doesn't "
        "wait. Don't poll: you are notified when a task ends."
    )
    input_type = TaskOutputInput
    owns_its_time = True
    also_called = ("BashOutput",)
    renamed = (("bash_id", "task_id"), ("shell_id", "task_id"))
    result_max_chars = None

    def is_read_only(self, arguments: TaskOutputInput) -> bool:
        return True

    def title(self, arguments: TaskOutputInput) -> str:
        return arguments.task_id

    async def call(self, arguments: TaskOutputInput, ctx: ToolContext) -> ToolOutcome:
        task = find_task(ctx, arguments.task_id)
        left_s = arguments.timeout / 1000 if arguments.block else 0.0
        while left_s > 0 and not await task.wait(min(TICK_S, left_s)):
            left_s -= TICK_S
            await ctx.emit(
                Progress(text=describe_state(task), data={"totalBytes": task.output.size})
            )
        output = read_new_output(task, ctx)
        line = describe_state(task)
        waited = "timeout" if arguments.block else "not_ready"
        return ToolOutcome(
            content=f"{line}\n{output}",
            tool_use_result={
                "retrieval_status": waited if task.ending is None else "success",
                "task": describe_task(task, output),
            },
            display=line,
        )


# TaskStop: ends a background task and every process it started.


class TaskStopInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    task_id: Annotated[str, Meta(min_length=1, description="The task's ID")]


class TaskStop(Tool[TaskStopInput]):
    name = "TaskStop"
    description = "Stop a background task"
    prompt = (
        "Stop a background task and every process it started, and show its output since you last"
        " asked. Does nothing if the task has already ended."
    )
    input_type = TaskStopInput
    also_called = ("KillShell",)
    renamed = (("shell_id", "task_id"), ("bash_id", "task_id"))
    result_max_chars = None

    def title(self, arguments: TaskStopInput) -> str:
        return arguments.task_id

    async def call(self, arguments: TaskStopInput, ctx: ToolContext) -> ToolOutcome:
        task = find_task(ctx, arguments.task_id)
        await ctx.session.background.tasks.stop(task)
        line = describe_state(task)
        return ToolOutcome(
            content=f"{line}\n{read_new_output(task, ctx)}",
            tool_use_result={
                "message": line,
                "task_id": task.id,
                "task_type": task.kind,
                "command": task.title,
            },
            display=line,
        )


WATCH_MS = 300_000
MOST_WATCH_MS = 3_600_000
ERRORS_BYTES = 2000


class MonitorInput(ShellInput, frozen=True, kw_only=True, forbid_unknown_fields=True):
    command: Annotated[
        str, Meta(min_length=1, description="A command that prints one line per event")
    ]
    description: Annotated[str, Meta(description="What is watched, in a few words")] | None = None
    timeout_ms: Annotated[
        int, Meta(ge=1, le=MOST_WATCH_MS, description="How long to watch, in milliseconds")
    ] = WATCH_MS
    persistent: Annotated[bool, Meta(description="Watch until stopped or clew exits")] = False


class Monitor(Tool[MonitorInput]):
    name = "Monitor"
    description = "Watch a command's output"
    prompt = (
        "Run a command in the background and get every line of its stdout, between your steps or with "
        "the next prompt. Write the command so "
        "that it prints only what you need to know, one line per event (tail "
        "-F log | grep --line-buffered ERROR; a polling loop). It ends after timeout_ms (5 minutes) "
        "unless persistent, or with TaskStop. To wait for one command to end, use Bash with "
        "run_in_background."
    )
    input_type = MonitorInput
    owns_its_time = True

    def title(self, arguments: MonitorInput) -> str:
        return arguments.description or arguments.command.strip(" \t\n").split("\n", 1)[0]

    async def call(self, arguments: MonitorInput, ctx: ToolContext) -> ToolOutcome:
        refuse_odd(arguments.command, "A command")
        start_folder(ctx)
        tasks = ctx.session.background.tasks
        task_id = tasks.new_id("monitor", lambda name: is_there(file_of(ctx, name)))
        watched: list[BackgroundTask] = []
        output = LineOutput(
            keep_bytes=TASK_KEEP_BYTES,
            spill=file_of(ctx, task_id),
            file_max_bytes=FILE_MAX_BYTES,
            on_line=lambda line: tasks.say(watched[0], line),
        )
        errors = ProcessOutput(keep_bytes=ERRORS_BYTES)
        timeout_ms = None if arguments.persistent else arguments.timeout_ms
        program = choose_program(arguments, compose_first_lines(ctx))
        task = tasks.begin(
            RunningCommand(program, output, ctx, errors=errors, timeout_ms=timeout_ms).work,
            task_id=task_id,
            kind="monitor",
            title=self.title(arguments),
            output=output,
            tool_use_id=ctx.tool_use_id,
            owner=ctx.session.background.owner,
        )
        task.is_persistent = arguments.persistent
        watched.append(task)
        await task.wait(FIRST_LOOK_S)
        started = report_start(task, file_of(ctx, task_id), "", ctx)
        if started.is_error:
            return started
        of_monitor = {
            "taskId": task_id,
            "timeoutMs": timeout_ms or 0,
            "persistent": arguments.persistent,
        }
        return replace(started, tool_use_result=started.tool_use_result | of_monitor)
