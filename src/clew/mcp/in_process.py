"""A server in the program that started clew, reached over that program's own channel.

The channel carries one message there and one answer back, so every request is one call of `to_host`,
and what needs no answer is one whose answer is passed over.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from clew.jsonrpc import wire
from clew.jsonrpc.connection import Connection
from clew.jsonrpc.wire import Json
from clew.mcp.config import InProcess
from clew.mcp.host import ServerHost
from clew.mcp.line import CannotReachError
from clew.mcp.protocol import DIALECT, Agreement
from clew.messages.errors import ClewError

ToHost: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[Any]]


class InProcessLine:
    """`to_host` gives the answer to a message, decoded; it raises `ClewError` when there is none."""

    def __init__(
        self,
        reach: InProcess,
        host: ServerHost,
        group: asyncio.TaskGroup,
        *,
        to_host: ToHost | None,
    ) -> None:
        self._name = reach.name
        self._to_host = to_host
        self._group = group
        self._queue: asyncio.Queue[Json] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.connection = Connection(self._queue.put_nowait, host, DIALECT, group)

    async def open(self) -> None:
        if self._to_host is None:
            raise CannotReachError("no program is there that could hold it", is_final=True)
        self._begin(self._sending(self._to_host))

    def settled(self, agreement: Agreement) -> None:
        """The host keeps count of that itself."""

    async def ended(self) -> str:
        return await asyncio.shield(self._over)

    async def aclose(self) -> None:
        self.connection.lose("the session closed the connection")
        for task in list(self._tasks):
            task.cancel()

    def _begin(self, work: Any) -> None:
        task: asyncio.Task[None] = self._group.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _sending(self, to_host: ToHost) -> None:
        while True:
            message = await self._queue.get()
            if "id" in message and "method" in message:
                self._begin(self._asked(to_host, message))
            else:
                await self._told(to_host, message)

    async def _asked(self, to_host: ToHost, message: Json) -> None:
        try:
            answer = await to_host(self._name, message)
        except ClewError as error:
            self.connection.fail(message["id"], str(error))
            return
        self.connection.deliver(wire.read_value(answer))
        self.connection.fail(message["id"], "the host's answer is to another question")

    async def _told(self, to_host: ToHost, message: Json) -> None:
        try:
            await to_host(self._name, message)
        except ClewError as error:
            self.connection.odd(str(error))
