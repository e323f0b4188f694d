"""TaskStop: ends a background task with everything it started."""

from typing import Annotated

from msgspec import Meta, Struct

from clew.tools.background import known, new_output, state
from clew.tools.base import Tool, ToolContext, ToolResult


class TaskStopInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    task_id: Annotated[str, Meta(min_length=1, description="The task")]


class TaskStop(Tool[TaskStopInput]):
    name = "TaskStop"
    description = "End a background task"
    prompt = (
        "Ends a background task and everything it started, and shows what it printed since you last "
        "asked. A task that has ended already is left as it is."
    )
    input_type = TaskStopInput
    also_called = ("KillShell",)
    renamed = (("shell_id", "task_id"), ("bash_id", "task_id"))
    result_max_chars = None

    def title(self, given: TaskStopInput) -> str:
        return given.task_id

    async def call(self, given: TaskStopInput, ctx: ToolContext) -> ToolResult:
        task = known(ctx, given.task_id)
        await ctx.session.tasks.stop(task)
        line = state(task)
        return ToolResult(
            content=f"{line}\n{new_output(task, ctx)}",
            tool_use_result={
                "message": line,
                "task_id": task.id,
                "task_type": task.kind,
                "command": task.title,
            },
            display=line,
        )
