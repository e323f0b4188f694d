"""Runs commands in the sandbox: every shell that a tool starts is started through here."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from clew.system.sandbox.walled import Walled

if TYPE_CHECKING:
    from clew.permissions.reading import CommandLine
    from clew.system.sandbox.violations import SandboxViolation


class Sandbox(Protocol):
    """The session's sandbox. It decides which commands it confines; no caller can turn it off."""

    @property
    def has_walls(self) -> bool:
        """True if a read-only sandbox is available, as far as is known without a test run."""
        ...

    @property
    def passed(self) -> str:
        """The names of variables that a confined command keeps, as a `case` pattern."""
        ...

    async def can_confine(self) -> bool:
        """Return whether a read-only sandbox is available, determined by a test run."""
        ...

    async def look_up(self) -> bool:
        """Determine what decisions could not know; return whether anything was unknown."""
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
        """Prepare a command to start in the sandbox; with `is_confined`, in the read-only one.

        Raises an exception if a sandbox is required but unavailable.
        """
        ...

    def missing(self, text: str, walled: Walled) -> str:
        """Describe variables that a failed command names but did not get."""
        ...

    def held_back(self, output: str, walled: Walled, cwd: str) -> Sequence["SandboxViolation"]:
        """List what the sandbox blocked, judging by a command's output."""
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


def describe_violations(
    sandbox: Sandbox | None, output: str, confinement: Walled, cwd: str, *, failed: str
) -> tuple[str, str]:
    """Describe what the sandbox blocked, and list what of it the user may allow.

    Blocked reads are never offered: a rule denies them or they are secrets. `failed` is the command
    if it failed.
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
