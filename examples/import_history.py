"""Go on with a conversation from another program: chat completions in, a clew session out."""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator
from typing import Any

import clew

CHAT: list[dict[str, Any]] = [
    {"role": "user", "content": "What is the weather in Lima?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "call_1", "function": {"name": "weather", "arguments": '{"city": "Lima"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "19 degrees"},
    {"role": "assistant", "content": "It is 19 degrees in Lima."},
]


def convert(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message of chat completions in the form of the Messages API."""
    if message["role"] == "tool":
        result = {"tool_use_id": message["tool_call_id"], "content": message["content"]}
        return {"role": "user", "content": [{"type": "tool_result", **result}]}
    blocks = [{"type": "text", "text": message["content"]}] if message["content"] else []
    for call in message.get("tool_calls", ()):
        function = call["function"]
        given = json.loads(function["arguments"])
        use = {"id": call["id"], "name": function["name"], "input": given}
        blocks.append({"type": "tool_use", **use})
    return {"role": message["role"], "content": blocks}


async def model(request: clew.ModelRequest) -> AsyncIterator[str]:
    kinds = [block["type"] for message in request.messages for block in message["content"]]
    yield f"I see {', '.join(kinds[:4])}."


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        history = [convert(message) for message in CHAT]
        session = clew.Session.create(history, title="Weather", cwd=folder, home=folder)
        options = clew.ClewOptions(
            cwd=folder,
            home=folder,
            setting_sources=[],
            resume=session.id,
            provider=model,
            model="example",
        )
        async with clew.ClewClient(options) as client, client.turn("And tomorrow?") as turn:
            print((await turn.finish()).text)
        print(session.title, session.check())


if __name__ == "__main__":
    asyncio.run(main())

# -> I see text, tool_use, tool_result, text.
# -> Weather []
