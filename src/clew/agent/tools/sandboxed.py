"""Run commands in the sandbox: every shell that a tool starts goes through this module."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from clew.system.sandbox.walled import Walled

if TYPE_CHECKING:
    from clew.permissions.reading import CommandLine
    from clew.system.sandbox.violations import SandboxViolation


class Sandbox(Protocol):
    """The session's sandbox. It decides which commands to confine; no caller can turn it off."""

    @property
    def has_walls(self) -> bool:
        """True if a read-only sandbox is available, as far as is known without a test run."""
        ...

    @property
    def passed(self) -> str:
        """The names of the variables that a confined command keeps, as a `case` pattern."""
        ...

    async def can_confine(self) -> bool:
        """Return whether a read-only sandbox is available, determined by a test run."""
        ...

    async def look_up(self) -> bool:
        """Look up facts that earlier decisions lacked; return whether any were missing."""
        ...

    def around(
        self,
        command: str,
        argv: Sequence[str],
        cwd: str,
        environment: Mapping[str, str],
        *,
        line: "CommandLine | None",
        is_confined: bool,
    ) -> AbstractAsyncContextManager[Walled]:
        """Prepare a command to start in the sandbox; if `is_confined`, in the read-only sandbox.

        Raise an exception if a sandbox is required but unavailable.
        """
        ...

    def around_search(
        self, argv: Sequence[str], folder: str, environment: Mapping[str, str]
    ) -> AbstractAsyncContextManager[Walled]:
        """Prepare a search of `folder`, so that denied files are unreadable under any name.

        If no sandbox on this machine can do that, the search runs without one.
        """
        ...

    def missing(self, text: str, walled: Walled) -> str:
        """Describe the variables that a failed command names but did not receive."""
        ...

    def held_back(self, output: str, walled: Walled, cwd: str) -> Sequence["SandboxViolation"]:
        """Return what the sandbox blocked, judging by the command's output."""
        ...


@asynccontextmanager
async def confine_command(
    sandbox: Sandbox | None,
    command: str,
    argv: Sequence[str],
    cwd: str,
    environment: Mapping[str, str],
    *,
    line: "CommandLine | None",
    is_confined: bool,
) -> AsyncIterator[Walled]:
    if sandbox is None:
        yield Walled(argv=tuple(argv), environment=dict(environment))
        return
    async with sandbox.around(
        command, argv, cwd, environment, line=line, is_confined=is_confined
    ) as confinement:
        yield confinement


@asynccontextmanager
async def confine_search(
    sandbox: Sandbox | None, argv: Sequence[str], folder: str, environment: Mapping[str, str]
) -> AsyncIterator[Walled]:
    if sandbox is None:
        yield Walled(argv=tuple(argv), environment=dict(environment))
        return
    async with sandbox.around_search(argv, folder, environment) as confinement:
        yield confinement


def describe_violations(
    sandbox: Sandbox | None, output: str, confinement: Walled, cwd: str, *, failed: str
) -> tuple[str, str]:
    """Describe what the sandbox blocked, and list the part of it that the user may allow.

    Blocked reads are never offered: a rule denies them, or the files are secrets. `failed` is the
    command if it failed, else empty.
    """
    if sandbox is None or confinement.policy is None:
        return "", ""
    from clew.system.sandbox.violations import describe_violations, list_violations

    violations = sandbox.held_back(output, confinement, cwd)
    is_open = confinement.policy.is_read_only and not any(
        violation.kind == "reading" for violation in violations
    )
    note = describe_violations(violations, is_read_only=confinement.policy.is_read_only)
    lacks = (
        sandbox.missing(f"{failed}\n{output}", confinement)
        if failed and confinement.removed
        else ""
    )
    return " ".join(filter(None, (note, lacks, *confinement.told))), list_violations(
        violations
    ) if is_open else ""
