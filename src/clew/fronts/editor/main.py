"""`clew acp`: a process that an editor starts and uses over standard input and output.

The first message is answered before the modules that sessions need are loaded, because the editor
waits for the answer.
"""

import asyncio
import os
import signal
import sys

from clew.core.json_object import Json
from clew.core.messages.encoding import encode
from clew.core.wire import encode_frame
from clew.fronts.editor.agent import EditorAgent
from clew.fronts.editor.client import EditorConnection
from clew.fronts.editor.protocol import DIALECT, ClientAbilities, make_initialize_answer
from clew.fronts.headless.channel import Input, StandardOutput
from clew.system.jsonrpc.connection import Connection
from clew.system.jsonrpc.wire import RpcRequest, as_object, make_success, read

# The connection to the editor, from its second message on.


# Messages for display only, which may be shortened if they are too long for a client.
SHOWN = ("session/update", "session/request_permission")
MAX_LINE_BYTES = 1 << 20


def run(argv: list[str], can: ClientAbilities, begin: bytes) -> None:
    with asyncio.Runner() as runner:
        runner.run(serve(argv, can, begin))


async def serve(argv: list[str], can: ClientAbilities, begin: bytes) -> None:
    """Serve until the input ends or a signal arrives. `begin` is input that was already read."""
    loop = asyncio.get_running_loop()
    incoming, output = Input(0, loop, begin), StandardOutput(1, loop)

    def send(message: Json) -> None:
        is_shown = message.get("method") in SHOWN
        output.post(encode_frame(message, MAX_LINE_BYTES) if is_shown else encode(message))

    async with asyncio.TaskGroup() as group:
        line = EditorConnection(output.room)
        agent = EditorAgent(argv, os.environ, line, group, can)
        line.connection = connection = Connection(send, agent, DIALECT, group)
        reading = group.create_task(listen(incoming, connection))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, reading.cancel)
        await asyncio.wait({reading})
        connection.lose("the editor disconnected")
        await agent.aclose()
    await output.aclose()


async def listen(incoming: Input, connection: Connection) -> None:
    while (line := await incoming.next()) is not None:
        if line.strip():
            connection.deliver_bytes(line)


USAGE = """\
usage: clew acp [OPTION ...]
       clew acp login

Serve an editor over the Agent Client Protocol (ACP). Session options such as `--model` and
`--permission-mode` apply to every session of the editor.
"""
READ_BYTES = 1 << 16


def main(argv: list[str]) -> int:
    if argv[:1] == ["login"]:
        from clew.commands.login import main as login

        return login(argv[1:])
    if argv[:1] in (["-h"], ["--help"]):
        sys.stdout.write(USAGE)
        return 0
    can, rest = greeted()

    run(argv, can, rest)
    return 0


def greeted() -> tuple[ClientAbilities, bytes]:
    """Answer the first line if it is `initialize`.

    Return the client's abilities and the input that was read but not processed. Any other first
    line is left to the connection.
    """
    data = b""
    while b"\n" not in data and (piece := os.read(0, READ_BYTES)):
        data += piece
    line, _, rest = data.partition(b"\n")
    first = read(line)[0]
    if not isinstance(first, RpcRequest) or first.method != "initialize":
        return ClientAbilities(), data
    can = ClientAbilities(as_object(first.params).get("clientCapabilities"))
    answer = memoryview(encode(make_success(first.id, make_initialize_answer(can))) + b"\n")
    while answer:
        answer = answer[os.write(1, answer) :]
    return can, rest
