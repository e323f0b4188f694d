"""A transport for the published Agent SDK that runs clew in the same process.

Only this module imports the SDK's package, which a program that uses this transport has installed.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, Transport
from claude_agent_sdk._internal.transport.subprocess_cli import SubprocessCLITransport

from clew.agent.options import Options
from clew.core.stream.sse import LineSplitter
from clew.core.wire import read_line
from clew.fronts.sdk.memory import MemoryChannel, find_folder, make_environ
from clew.fronts.sdk.options import ClewOptions
from clew.session.flags import parse


class InProcess(Transport):
    """A transport for `ClaudeSDKClient(transport=...)` or `query(transport=...)`.

    `InProcess.of` takes the SDK's own options, `InProcess` those of clew.
    """

    def __init__(self, options: ClewOptions | None = None, *, asks_host: bool = False) -> None:
        options = options or ClewOptions()
        self._prepare(
            options.as_options(asks_host=asks_host), make_environ(options, os.environ), options.cwd
        )

    @classmethod
    def of(cls, options: ClaudeAgentOptions) -> "InProcess":
        """Return a transport with the SDK's options; pass the same options to the SDK."""
        if options.can_use_tool is not None and options.permission_prompt_tool_name is None:
            options = replace(options, permission_prompt_tool_name="stdio")
        # The SDK converts its options to flags itself, and clew reads the same flags.
        command = SubprocessCLITransport("", replace(options, cli_path="clew"))._build_command()
        environ = {**os.environ, **(options.env or {}), "CLAUDE_CODE_ENTRYPOINT": "sdk-py"}
        transport = cls.__new__(cls)
        transport._prepare(parse(command[1:]), environ, options.cwd)
        return transport

    def _prepare(
        self, options: Options, environ: Mapping[str, str], cwd: str | os.PathLike[str] | None
    ) -> None:
        self._given = (options, environ, find_folder(cwd))
        self._channel = MemoryChannel()
        self._lines = LineSplitter()
        self._session: asyncio.Task[int] | None = None

    async def connect(self) -> None:
        self._session = self._channel.start(*self._given)

    async def write(self, data: str) -> None:
        for line in self._lines.feed(data.encode()):
            self._channel.say(read_line(line))

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        while (arrived := await self._channel.next()) is not None:
            frame, size = arrived
            self._channel.release(size)
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
