"""What an editor around a session can do for its tools: hold files, and show commands in a terminal."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct


class Buffers(Protocol):
    """The files that the editor has open, or could have."""

    async def text(self, path: str) -> str | None:
        """What it holds of a file, unsaved changes included; None where it does not say."""
        ...

    async def save(self, path: str, text: str) -> str:
        """Has it hold and save a text; empty, or what is wrong."""
        ...


class TerminalOutput(Struct, frozen=True, kw_only=True):
    """What a terminal showed of a command, and how that ended."""

    text: str
    code: int = 0
    signal: str | None = None
    timed_out: bool = False


class RemoteTerminal(Protocol):
    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        timeout_s: float,
        most_bytes: int,
        on_start: Callable[[str], Awaitable[None]],
    ) -> TerminalOutput:
        """Raises `ToolError` where there is no terminal to be had."""
        ...
