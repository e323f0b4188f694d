"""A bot for many chats: one session for each, and approvals that arrive through a queue.

The model here is a function, so that the program runs as it is. Leave out `provider` and `model` to
use your own configuration.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import clew


async def model(request: clew.ModelRequest) -> AsyncIterator[str | dict[str, Any]]:
    """Create a file when asked to, and then say what came of it."""
    block = request.messages[-1]["content"][0]
    if block["type"] == "tool_result":
        yield "I was not allowed to." if block.get("is_error") else "Done."
    else:
        call = {"command": f"touch {block['text'].split()[-1]}"}
        yield {"type": "tool_use", "name": "Bash", "input": call}


@dataclass
class Approvals:
    """Calls that wait for somebody: each with the future of its decision."""

    waiting: asyncio.Queue[tuple[clew.Call, asyncio.Future[bool]]] = field(
        default_factory=asyncio.Queue
    )

    async def ask(self, call: clew.Call) -> clew.Permit | clew.Deny:
        decision: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        await self.waiting.put((call, decision))
        return clew.Permit() if await decision else clew.Deny(words="The operator said no.")


async def serve_chat(name: str, prompts: list[str], folder: Path, approvals: Approvals) -> None:
    (work := folder / name).mkdir()
    options = clew.ClewOptions(
        cwd=work,
        home=folder / "home",
        setting_sources=[],
        inherit_env=False,
        can_use_tool=approvals.ask,
        provider=model,
        model="example",
    )
    async with clew.ClewClient(options) as client:
        for prompt in prompts:
            async with client.turn(prompt) as turn:
                result = await turn.finish()
            print(f"{name}: {result.text}")


async def decide(approvals: Approvals) -> None:
    while True:
        call, decision = await approvals.waiting.get()
        decision.set_result("secret" not in call.input["command"])


async def main() -> None:
    approvals = Approvals()
    with tempfile.TemporaryDirectory() as folder:
        operator = asyncio.create_task(decide(approvals))
        await serve_chat("ann", ["Please touch notes", "Now touch secret"], Path(folder), approvals)
        await serve_chat("ben", ["Please touch list"], Path(folder), approvals)
        operator.cancel()
        print(list_files(Path(folder)))


def list_files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*/*") if path.is_file())


if __name__ == "__main__":
    asyncio.run(main())

# -> ann: Done.
# -> ann: I was not allowed to.
# -> ben: Done.
# -> ['list', 'notes']
