"""The connection to an editor that announced itself: MCP messages over a WebSocket.

The token is sent only if the editor's lock file still exists and is unchanged, because another
program may use the port after the editor has ended.
"""

import asyncio
import os
from pathlib import Path

from clew.core.messages.encoding import encode
from clew.parts.mcp.client import ServerHost
from clew.parts.mcp.config import IdeServer
from clew.parts.mcp.line import CannotReachError
from clew.parts.mcp.protocol import DIALECT, Agreement
from clew.system.ide_locks import read_ide_lock
from clew.system.jsonrpc.connection import Connection
from clew.system.transport.seam import TransportError
from clew.system.transport.websocket import WebSocket

MAX_MESSAGE_BYTES = 32 << 20
AUTHORIZATION = "x-claude-code-ide-authorization"
PROTOCOL = "mcp"


class IdeLine:
    """A connection to an editor."""

    def __init__(self, reach: IdeServer, host: ServerHost, group: asyncio.TaskGroup) -> None:
        self._reach = reach
        self._group = group
        self._socket: WebSocket | None = None
        self._over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.connection = Connection(
            lambda message: self._send(encode(message)), host, DIALECT, group
        )

    async def open(self) -> None:
        reach = self._reach
        lock = read_ide_lock(Path(reach.lock_file))
        if lock is None or (lock.port, lock.token) != (reach.port, reach.token):
            raise CannotReachError(f"{reach.name} has exited or restarted", is_final=True)
        headers = [(AUTHORIZATION, lock.token)]
        try:
            self._socket = await WebSocket.open(
                lock.port, headers, protocol=PROTOCOL, max_bytes=MAX_MESSAGE_BYTES
            )
        except TransportError as error:
            raise CannotReachError(str(error), is_final=error.status is not None) from None
        self._group.create_task(self._read(self._socket))

    def _send(self, payload: bytes) -> None:
        if self._socket is not None:
            self._socket.send(payload)

    async def _read(self, socket: WebSocket) -> None:
        while isinstance(data := await socket.receive(), bytes):
            self.connection.deliver_bytes(data)
        why = f"{self._reach.name} closed the connection"
        self.connection.lose(why)
        if not self._over.done():
            self._over.set_result(why)

    def settled(self, _: Agreement, /) -> None:
        """Tell the editor which process has connected."""
        self.connection.notify("ide_connected", {"pid": os.getpid()})

    async def ended(self) -> str:
        return await asyncio.shield(self._over)

    async def aclose(self) -> None:
        self.connection.lose("the session closed the connection")
        if self._socket is not None:
            await self._socket.aclose()
