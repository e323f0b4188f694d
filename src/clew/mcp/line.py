"""What carries the messages of one server, and how it says that it cannot.

One seam of four: the connection, and to open it, to wait for its end, and to close it. Behind it are a
child process, a URL in two manners, and the program that started clew.
"""

import asyncio
from collections.abc import Mapping
from typing import Protocol

from clew.jsonrpc.child import ChildLine
from clew.jsonrpc.connection import Connection, Host
from clew.jsonrpc.framing import Lines, as_line
from clew.mcp.config import Stdio
from clew.mcp.protocol import DIALECT, Agreement
from clew.messages.errors import OutsideError
from clew.process.spawn import Launcher

MAX_MESSAGE_BYTES = 32 << 20


class CannotReachError(OutsideError):
    """The server cannot be reached; `is_final`: trying again would not help."""

    def __init__(self, message: str, *, is_final: bool = False) -> None:
        super().__init__(message)
        self.is_final = is_final


class UnauthorizedError(OutsideError):
    """The server wants a token; `challenge` is what it says about that."""

    def __init__(self, message: str, challenge: str = "") -> None:
        super().__init__(message)
        self.challenge = challenge


class Line(Protocol):
    """One connection, used once."""

    @property
    def connection(self) -> Connection: ...

    async def open(self) -> None:
        """Raises `CannotReachError` or `UnauthorizedError`."""
        ...

    def settled(self, agreement: Agreement) -> None:
        """What client and server agreed on: a line may have to say it with every request."""
        ...

    async def ended(self) -> str:
        """Waits for the end of the line and says how it ended."""
        ...

    async def aclose(self) -> None: ...


class StdioLine:
    """A server that is a child process."""

    def __init__(
        self,
        reach: Stdio,
        host: Host,
        group: asyncio.TaskGroup,
        *,
        launcher: Launcher,
        cwd: str,
        environ: Mapping[str, str],
    ) -> None:
        self._reach = reach
        self._launcher = launcher
        self._cwd = reach.cwd or cwd
        self._environ = environ
        self._child = ChildLine(Lines(max_bytes=MAX_MESSAGE_BYTES), as_line)
        self.connection = Connection(self._child.send, host, DIALECT, group)

    async def open(self) -> None:
        argv = [self._reach.command, *self._reach.args]
        env = {**self._environ, **self._reach.env}
        try:
            await self._child.open(self._launcher, argv, cwd=self._cwd, env=env)
        except OSError as error:
            raise CannotReachError(f"cannot be started: {error}", is_final=True) from None
        self._child.listen(self.connection)

    def settled(self, agreement: Agreement) -> None:
        """Pipes carry nothing but messages."""

    async def ended(self) -> str:
        return await self._child.ended()

    async def aclose(self) -> None:
        self.connection.lose("the session closed the connection")
        await self._child.aclose()
