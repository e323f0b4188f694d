"""A program of the Agent SDK, unchanged but for its transport: clew runs in the same process.

The model is a service on this machine with scripted answers. Leave out `env` to use your own.
"""

import asyncio
import tempfile
from typing import Any

from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    PermissionResultAllow,
    PermissionResultDeny,
    ResultMessage,
    TextBlock,
    ToolPermissionContext,
    create_sdk_mcp_server,
    tool,
)

from clew.adapters.agent_sdk import InProcess
from clew.testing.server import serving

ANSWERS = [
    {"content": [{"tool": "mcp__orders__find_order", "input": {"number": 4711}}]},
    {"content": [{"tool": "Bash", "input": {"command": "rm -rf orders"}}]},
    {"text": "Order 4711 is on its way."},
]


@tool("find_order", "Return the state of an order", {"number": int})
async def find_order(given: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": f"{given['number']}: on its way"}]}


async def decide(
    name: str, given: dict[str, Any], context: ToolPermissionContext
) -> PermissionResultAllow | PermissionResultDeny:
    print("asked:", name)
    if name == "Bash":
        return PermissionResultDeny(message="Only orders may be looked up.")
    return PermissionResultAllow()


async def main(url: str, folder: str) -> None:
    options = ClaudeAgentOptions(
        cwd=folder,
        env={"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "x", "CLEW_CONFIG_DIR": folder},
        setting_sources=[],
        mcp_servers={"orders": create_sdk_mcp_server("orders", tools=[find_order])},
        can_use_tool=decide,
    )
    async with ClaudeSDKClient(options, transport=InProcess.of(options)) as client:
        await client.query("Where is order 4711?")
        async for message in client.receive_response():
            match message:
                case AssistantMessage(content=[TextBlock(text=text)]):
                    print(text)
                case ResultMessage():
                    print(message.subtype, message.num_turns)


if __name__ == "__main__":
    with (
        tempfile.TemporaryDirectory() as place,
        serving({"scenario": 1, "answers": ANSWERS}) as server,
    ):
        asyncio.run(main(server.url, place))

# -> asked: mcp__orders__find_order
# -> asked: Bash
# -> Order 4711 is on its way.
# -> success 3
