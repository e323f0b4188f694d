"""Go on with a conversation from another program: chat completions in, a clew session out."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from typing import Any

import clew
from clew.adapters import openai_chat

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


async def model(request: clew.ModelRequest) -> AsyncIterator[str]:
    kinds = [block["type"] for message in request.messages for block in message["content"]]
    yield f"I see {', '.join(kinds[:4])}."


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        history = openai_chat.read(CHAT)
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
