"""TaskOutput: what a background task printed since it was last asked, and whether it runs."""

from typing import Annotated

from msgspec import Meta, Struct

from clew.tools.background import described, known, new_output, state
from clew.tools.base import Progress, Tool, ToolContext, ToolResult

WAIT_MS = 30_000
MOST_WAIT_MS = 600_000
TICK_S = 1.0


class TaskOutputInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    task_id: Annotated[str, Meta(min_length=1, description="The task")]
    block: Annotated[bool, Meta(description="Wait until it has ended; the default")] = True
    timeout: Annotated[
        int,
        Meta(ge=0, le=MOST_WAIT_MS, description="How long to wait at most, in milliseconds"),
    ] = WAIT_MS


class TaskOutput(Tool[TaskOutputInput]):
    """Reads what the session holds; that the output counts as shown is the session's own affair."""

    name = "TaskOutput"
    description = "Show what a background task printed"
    prompt = (
        "Shows what a background task printed since you last asked, and whether it still runs. It "
        f"waits up to timeout ({WAIT_MS / 1000:g} s) for the task to end; block=false does not wait. "
        "There is no need to ask again and again: you are told when a task has ended."
    )
    input_type = TaskOutputInput
    owns_its_time = True
    also_called = ("BashOutput",)
    renamed = (("bash_id", "task_id"), ("shell_id", "task_id"))
    result_max_chars = None

    def is_read_only(self, given: TaskOutputInput) -> bool:
        return True

    def title(self, given: TaskOutputInput) -> str:
        return given.task_id

    async def call(self, given: TaskOutputInput, ctx: ToolContext) -> ToolResult:
        task = known(ctx, given.task_id)
        left_s = given.timeout / 1000 if given.block else 0.0
        while left_s > 0 and not await task.wait(min(TICK_S, left_s)):
            left_s -= TICK_S
            await ctx.emit(Progress(text=state(task), data={"totalBytes": task.output.size}))
        output = new_output(task, ctx)
        line = state(task)
        waited = "timeout" if given.block else "not_ready"
        return ToolResult(
            content=f"{line}\n{output}",
            tool_use_result={
                "retrieval_status": waited if task.ending is None else "success",
                "task": described(task, output),
            },
            display=line,
        )
