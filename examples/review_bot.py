"""A review bot: its own tools, a budget of turns, and an answer that fits a schema."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from typing import Annotated, Any

import clew

DIFF = {"app.py": "-    return total\n+    return total / count\n"}
SCHEMA = {
    "type": "object",
    "properties": {"verdict": {"enum": ["approve", "reject"]}, "reason": {"type": "string"}},
    "required": ["verdict", "reason"],
}


@clew.tool
async def read_diff(path: Annotated[str, "A file of the change"]) -> str:
    """Return the change of one file."""
    return DIFF.get(path) or f"{path} was not changed"


async def model(request: clew.ModelRequest) -> AsyncIterator[dict[str, Any]]:
    """Read the change, and then answer in the schema's form."""
    calls = sum(message["role"] == "assistant" for message in request.messages)
    if calls == 0:
        yield {"type": "tool_use", "name": "mcp__program__read_diff", "input": {"path": "app.py"}}
    elif calls == 1:
        verdict = {"verdict": "reject", "reason": "count can be 0"}
        yield {"type": "tool_use", "name": "StructuredOutput", "input": verdict}


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        options = clew.ClewOptions(
            cwd=folder,
            home=f"{folder}/home",
            setting_sources=[],
            tools=[],
            functions=[read_diff],
            allowed_tools=["mcp__program__read_diff"],
            json_schema=SCHEMA,
            max_turns=5,
            persists=False,
            provider=model,
            model="example",
        )
        async for message in clew.query("Review this change.", options):
            match message:
                case clew.Assistant(content=(clew.ToolUse(name=name, input=given),)):
                    print(name, given)
                case clew.Result():
                    print(message.subtype, message.structured_output)


if __name__ == "__main__":
    asyncio.run(main())

# -> mcp__program__read_diff {'path': 'app.py'}
# -> StructuredOutput {'verdict': 'reject', 'reason': 'count can be 0'}
# -> success {'verdict': 'reject', 'reason': 'count can be 0'}
