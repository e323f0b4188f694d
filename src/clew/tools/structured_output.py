"""StructuredOutput: the answer as data of a given shape, checked before it counts."""

from typing import Any

from msgspec import Struct

from clew.tools.base import Tool, ToolContext, ToolResult, ToolSession
from clew.tools.json_schema import mismatch


class StructuredOutputInput(Struct, frozen=True, kw_only=True):
    values: dict[str, Any]


class StructuredOutput(Tool[StructuredOutputInput]):
    """Its schema is that of the run; what fits is the run's result."""

    name = "StructuredOutput"
    description = "Give the answer in the shape that was asked for"
    prompt = (
        "Gives your final answer in the shape that was asked for. Call it once, at the end, when the work "
        "is done; what stands in it is the result, and nothing else is read."
    )
    input_type = StructuredOutputInput

    def __init__(self, schema: dict[str, Any]) -> None:
        self.foreign_schema = {"type": "object", **schema}

    def is_read_only(self, given: StructuredOutputInput) -> bool:
        return True

    def title(self, given: StructuredOutputInput) -> str:
        return "the answer"

    def objection(self, given: StructuredOutputInput, session: ToolSession) -> str:
        said = mismatch(given.values, self.foreign_schema)
        return f"Output does not match required schema: {said}" if said else ""

    async def call(self, given: StructuredOutputInput, ctx: ToolContext) -> ToolResult:
        return ToolResult(
            content="The answer fits and is the result.",
            tool_use_result=given.values,
            display="the answer fits",
        )
