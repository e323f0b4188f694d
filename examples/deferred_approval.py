"""Approvals that outlive the process: one asks and ends, another one decides and goes on.

The call is in the transcript before anybody is asked, so nothing is lost and nothing runs twice.
"""

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from typing import Any

import clew


async def model(request: clew.ModelRequest) -> AsyncIterator[str | dict[str, Any]]:
    """Ask for one command, and then say whether it ran."""
    blocks = [block for message in request.messages for block in message["content"]]
    results = [block for block in blocks if block["type"] == "tool_result"]
    if results:
        yield "It was not allowed." if results[-1].get("is_error") else "It is deployed."
    else:
        yield {"type": "tool_use", "name": "Bash", "input": {"command": "touch deployed"}}


async def defer(call: clew.Call) -> clew.Defer:
    print("asked:", call.title)
    return clew.Defer()


async def permit(call: clew.Call) -> clew.Permit:
    print("permitted:", call.title)
    return clew.Permit()


def choose_options(folder: str, **more: Any) -> clew.ClewOptions:
    return clew.ClewOptions(
        cwd=folder,
        home=f"{folder}/home",
        setting_sources=[],
        inherit_env=False,
        provider=model,
        model="example",
        **more,
    )


async def ask(prompt: str, options: clew.ClewOptions) -> clew.Result:
    async with clew.ClewClient(options) as client, client.turn(prompt) as turn:
        return await turn.finish()


async def begin(folder: str) -> None:
    """The first process: the turn ends, because the approval is postponed."""
    result = await ask("Deploy it", choose_options(folder, can_use_tool=defer))
    print(result.terminal_reason)


async def decide(folder: str) -> None:
    """The second process: it lists what waits, approves it, and the turn goes on."""
    for outline in clew.list_sessions(folder, home=f"{folder}/home"):
        for call in clew.Session.open(outline).deferred_calls():
            print("waits:", call.name, call.input)
        resumed = choose_options(folder, can_use_tool=permit, resume=outline.session_id)
        print((await ask("Approved", resumed)).text)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for step in ("begin", "decide"):
            sys.stdout.flush()
            subprocess.run([sys.executable, "-X", "utf8", __file__, step, folder], check=True)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["begin", where]:
            asyncio.run(begin(where))
        case ["decide", where]:
            asyncio.run(decide(where))
        case _:
            main()

# -> asked: Bash: touch deployed
# -> tool_deferred
# -> waits: Bash {'command': 'touch deployed'}
# -> permitted: Bash: touch deployed
# -> It is deployed.
