"""An agent of pydantic-ai on a clew session: it goes on with the session, and clew after it.

Both models are functions, so that the program runs as it is.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import clew
from clew.adapters import pydantic_ai as adapter


async def clew_model(request: clew.ModelRequest) -> AsyncIterator[str | dict[str, Any]]:
    """Look at the disk once, and then answer with what is known."""
    blocks = [block for message in request.messages for block in message["content"]]
    results = [str(block["content"]) for block in blocks if block["type"] == "tool_result"]
    if not results:
        yield {"type": "tool_use", "name": "Bash", "input": {"command": "echo 42 files"}}
    else:
        yield f"Known: {len(results)} results."


def agent_model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Call the agent's own tool, and then answer."""
    if any(part.part_kind == "tool-return" for part in messages[-1].parts):
        return ModelResponse(parts=[TextPart("Twice as many: 84.")])
    return ModelResponse(parts=[ToolCallPart("double", {"number": 42})])


def double(number: int) -> int:
    """Return twice the number."""
    return 2 * number


agent = Agent(FunctionModel(agent_model), tools=[double])


async def ask_clew(prompt: str, folder: str, resume: str | None = None) -> clew.Result:
    options = clew.ClewOptions(
        cwd=folder,
        home=f"{folder}/home",
        setting_sources=[],
        inherit_env=False,
        allowed_tools=["Bash(echo:*)"],
        resume=resume,
        provider=clew_model,
        model="example",
    )
    async with clew.ClewClient(options) as client, client.turn(prompt) as turn:
        return await turn.finish()


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        first = await ask_clew("How many files are there?", folder)
        print("clew:", first.text)

        session = clew.Session.open(first.session_id, cwd=folder, home=f"{folder}/home")
        run = await agent.run("Double it", message_history=adapter.write(session.entries()))
        session.append(adapter.read(run.new_messages()))
        print("pydantic-ai:", run.output)

        again = await ask_clew("And now?", folder, first.session_id)
        print("clew:", again.text)
        print(session.check())


if __name__ == "__main__":
    asyncio.run(main())

# -> clew: Known: 1 results.
# -> pydantic-ai: Twice as many: 84.
# -> clew: Known: 2 results.
# -> []
