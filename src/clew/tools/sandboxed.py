"""Where commands meet the sandbox: every shell that a tool starts goes through here."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from clew.sandbox.walled import Walled


class Sandbox(Protocol):
    """The session's sandbox. It decides for itself which commands it is for; nobody may ask it off."""

    def around(
        self, command: str, argv: Sequence[str], cwd: str, environment: Mapping[str, str]
    ) -> AbstractAsyncContextManager[Walled]:
        """The command as it is to be started. Raises where walls were promised and none hold."""
        ...

    def note(self, output: str, walled: Walled, cwd: str) -> str:
        """What the walls held back, by what a command printed, and what would allow it."""
        ...


@asynccontextmanager
async def walled(
    sandbox: Sandbox | None,
    command: str,
    argv: Sequence[str],
    cwd: str,
    environment: Mapping[str, str],
) -> AsyncIterator[Walled]:
    if sandbox is None:
        yield Walled(argv=tuple(argv), environment=dict(environment))
        return
    async with sandbox.around(command, argv, cwd, environment) as made:
        yield made


def noted(sandbox: Sandbox | None, output: str, made: Walled, cwd: str) -> str:
    """What stands beside a command's result about its walls; empty if there is nothing to say."""
    if sandbox is None or not made.is_sandboxed:
        return ""
    return sandbox.note(output, made, cwd)
