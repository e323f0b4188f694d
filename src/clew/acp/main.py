"""`clew acp`: an editor starts it and speaks to it over standard input and output.

Owns the two pipes and the end: when the editor says no more, turns are interrupted, what they did is
kept, and the process goes. Standard output carries messages and nothing else.
"""

import asyncio
import os
import signal
import sys

from clew.acp.agent import Agent, Line
from clew.acp.protocol import DIALECT
from clew.headless.channel import Input, Output
from clew.jsonrpc.connection import Connection
from clew.jsonrpc.wire import Json
from clew.messages.encoding import encode
from clew.wire.bounds import framed

USAGE = """\
usage: clew acp [OPTION ...]
       clew acp login

Speak the Agent Client Protocol with the editor that started this program. The options are those of
a session, as `--model` and `--permission-mode`; they hold for every session of the editor.
"""
# What is only shown may be shortened where it is too long for a client to read.
SHOWN = ("session/update", "session/request_permission")
MAX_LINE_BYTES = 1 << 20


def main(argv: list[str]) -> int:
    if argv[:1] == ["login"]:
        from clew.config.login import main as login

        return login(argv[1:])
    if argv[:1] in (["-h"], ["--help"]):
        sys.stdout.write(USAGE)
        return 0
    with asyncio.Runner() as runner:
        runner.run(serve(argv))
    return 0


async def serve(argv: list[str]) -> None:
    """Answers until the input ends, or somebody tells the process to."""
    loop = asyncio.get_running_loop()
    incoming, output = Input(0, loop), Output(1, loop)

    def send(message: Json) -> None:
        is_shown = message.get("method") in SHOWN
        output.post(framed(message, MAX_LINE_BYTES) if is_shown else encode(message))

    async with asyncio.TaskGroup() as group:
        line = Line(output.room)
        agent = Agent(argv, os.environ, line, group)
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
