"""The protocols through which tools use the editor around a session: open files and a terminal."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct


class Buffers(Protocol):
    """The files that the editor has open or could open."""

    async def text(self, path: str) -> str | None:
        """Return the editor's text of a file, with unsaved changes; None if the editor has none."""
        ...

    async def save(self, path: str, text: str) -> str:
        """Replace and save a file in the editor. Return an error message, or an empty string."""
        ...


class TerminalOutput(Struct, frozen=True, kw_only=True):
    """A command's output in a terminal, and how the command ended."""

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
        """Run a command in the editor's terminal. Raise `ToolError` if no terminal is available."""
        ...
