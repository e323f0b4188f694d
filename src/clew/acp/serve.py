"""The conversation with the editor, from its second message to its end.

Owns the two pipes and the end: when the editor says no more, turns are interrupted, what they did is
kept, and the process goes. Standard output carries messages and nothing else.
"""

import asyncio
import os
import signal

from clew.acp.agent import Agent, Line
from clew.acp.protocol import DIALECT, Offer
from clew.headless.channel import Input, Output
from clew.jsonrpc.connection import Connection
from clew.jsonrpc.wire import Json
from clew.messages.encoding import encode
from clew.wire.bounds import framed

# What is only shown may be shortened where it is too long for a client to read.
SHOWN = ("session/update", "session/request_permission")
MAX_LINE_BYTES = 1 << 20


def run(argv: list[str], can: Offer, begin: bytes) -> None:
    with asyncio.Runner() as runner:
        runner.run(serve(argv, can, begin))


async def serve(argv: list[str], can: Offer, begin: bytes) -> None:
    """Answers until the input ends, or somebody tells the process to. `begin` was read already."""
    loop = asyncio.get_running_loop()
    incoming, output = Input(0, loop, begin), Output(1, loop)

    def send(message: Json) -> None:
        is_shown = message.get("method") in SHOWN
        output.post(framed(message, MAX_LINE_BYTES) if is_shown else encode(message))

    async with asyncio.TaskGroup() as group:
        line = Line(output.room)
        agent = Agent(argv, os.environ, line, group, can)
        line.connection = connection = Connection(send, agent, DIALECT, group)
        reading = group.create_task(listen(incoming, connection))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, reading.cancel)
        await asyncio.wait({reading})
        connection.lose("the editor has gone")
        await agent.aclose()
    await output.aclose()


async def listen(incoming: Input, connection: Connection) -> None:
    while (line := await incoming.next()) is not None:
        if line.strip():
            connection.deliver_bytes(line)
