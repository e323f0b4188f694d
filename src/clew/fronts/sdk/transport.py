"""A transport for the published Agent SDK that runs clew in the same process.

Only this module imports the SDK's package. A program that uses this transport has it installed.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from claude_agent_sdk import Transport

from clew.core.stream.sse import LineSplitter
from clew.core.wire import read_line
from clew.fronts.sdk.memory import MemoryChannel
from clew.fronts.sdk.options import ClewOptions


class InProcess(Transport):
    """A transport for `ClaudeSDKClient(transport=...)` or `query(transport=...)`."""

    def __init__(self, options: ClewOptions | None = None, *, asks_host: bool = False) -> None:
        self._options = options or ClewOptions()
        self._asks_host = asks_host
        self._channel = MemoryChannel()
        self._lines = LineSplitter()
        self._session: asyncio.Task[int] | None = None

    async def connect(self) -> None:
        self._session = self._channel.start(self._options, asks_host=self._asks_host)

    async def write(self, data: str) -> None:
        for line in self._lines.feed(data.encode()):
            self._channel.say(read_line(line))

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        while (frame := await self._channel.next()) is not None:
            yield frame

    async def end_input(self) -> None:
        self._channel.end()

    async def close(self) -> None:
        self._channel.end()
        self._channel.leave()
        if self._session is not None:
            self._session.cancel()
            await asyncio.wait([self._session])

    def is_ready(self) -> bool:
        return self._session is not None and not self._session.done()
