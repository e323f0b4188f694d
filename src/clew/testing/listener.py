"""Listens on 127.0.0.1 and serves each connection exchange by exchange; knows who is connected."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

from clew.testing.http import Peer


class Listener:
    """One listening socket; `exchange` serves one request and says whether another may follow."""

    def __init__(
        self, exchange: Callable[[Peer], Coroutine[Any, Any, bool]], port: int = 0
    ) -> None:
        # How many connections were ever accepted.
        self.accepted = 0
        self._exchange = exchange
        self._port = port
        self._connections: set[asyncio.Task[None]] = set()
        self._idle = asyncio.Event()
        self._opened = contextlib.AsyncExitStack()
        self._group: asyncio.TaskGroup | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def open_connections(self) -> int:
        return len(self._connections)

    async def wait_until_idle(self) -> None:
        """Returns when every connection that was made is over."""
        await self._idle.wait()

    async def open(self) -> None:
        """Listens until `close`, which the same task must call."""
        self._group = await self._opened.enter_async_context(asyncio.TaskGroup())
        server = await asyncio.start_server(self._accept, "127.0.0.1", self._port)
        self._opened.callback(self._cancel)
        self._opened.callback(server.close)
        self._port = server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stops listening and ends every connection, wherever it stands."""
        await self._opened.aclose()

    def _cancel(self) -> None:
        self._group = None
        for connection in self._connections:
            connection.cancel()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A callback and not a coroutine: asyncio reports it as an error when its own task ends
        by cancellation, which is how ours end."""
        if self._group is None:
            writer.close()
            return
        task = self._group.create_task(self._serve(reader, writer))
        self._connections.add(task)
        self._idle.clear()
        self.accepted += 1
        task.add_done_callback(self._ended)
        # A connection that is cancelled before it was served must be closed too.
        task.add_done_callback(lambda _: writer.close())

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._connections.discard(task)
        if not self._connections:
            self._idle.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(reader, writer)
        try:
            while await self._exchange(peer):
                pass
        except ConnectionError:
            peer.reset()
        finally:
            peer.close()
