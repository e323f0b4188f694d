"""TodoWrite: the model's list of what is to be done, kept by the session."""

from typing import Annotated, Literal

from msgspec import Meta, Struct, to_builtins

from clew.tools.base import Tool, ToolContext, ToolResult

Status = Literal["pending", "in_progress", "completed"]


class Todo(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    content: Annotated[str, Meta(min_length=1, description="What is to be done: Run the tests")]
    status: Status
    active_form: Annotated[
        str, Meta(min_length=1, description="The same while it is being done: Running the tests")
    ]


class TodoWriteInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    todos: Annotated[list[Todo], Meta(description="The whole list; it replaces the one before")]


class TodoWrite(Tool[TodoWriteInput]):
    """Touches nothing but the session, so it counts as read-only; two at once would race."""

    name = "TodoWrite"
    description = "Keep a list of the steps of the task at hand"
    prompt = (
        "Keeps a list of the steps of the task, which the user sees. Use it for work of three or "
        "more steps; leave it for small things. Send the whole list each time. One step at a time "
        "is in_progress; mark a step completed as soon as it is done, and only when it is."
    )
    input_type = TodoWriteInput

    def is_read_only(self, given: TodoWriteInput) -> bool:
        return True

    def is_concurrency_safe(self, given: TodoWriteInput) -> bool:
        return False

    def title(self, given: TodoWriteInput) -> str:
        done = sum(todo.status == "completed" for todo in given.todos)
        return f"{done} of {len(given.todos)} done"

    async def call(self, given: TodoWriteInput, ctx: ToolContext) -> ToolResult:
        old, new = ctx.session.todos, to_builtins(given.todos)
        # A list that is done is done with.
        ctx.session.todos = [] if all(todo.status == "completed" for todo in given.todos) else new
        return ToolResult(
            content=f"The list is kept: {self.title(given)}.",
            tool_use_result={"oldTodos": old, "newTodos": new},
            display=self.title(given),
        )
