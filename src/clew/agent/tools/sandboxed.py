"""Where commands meet the sandbox: every shell that a tool starts goes through here."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from clew.system.sandbox.walled import Walled

if TYPE_CHECKING:
    from clew.permissions.reading import CommandLine
    from clew.system.sandbox.violations import SandboxViolation


class Sandbox(Protocol):
    """The session's sandbox. It decides for itself which commands it is for; nobody may ask it off."""

    @property
    def has_walls(self) -> bool:
        """Whether a read-only wall can stand here, as far as is known."""
        ...

    @property
    def passed(self) -> str:
        """The names of variables that a confined command finds, as a pattern of the shell's `case`."""
        ...

    async def can_confine(self) -> bool:
        """Return whether a read-only wall stands here, found out by a run."""
        ...

    async def look_up(self) -> bool:
        """Find out what decisions could not know; return whether there was such a thing."""
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
        """The command as it is to be started; `is_confined`: behind the read-only wall.

        Raises where walls were promised and none hold.
        """
        ...

    def missing(self, text: str, walled: Walled) -> str:
        """What to say of variables that a failed command names and did not get."""
        ...

    def held_back(self, output: str, walled: Walled, cwd: str) -> Sequence["SandboxViolation"]:
        """What the walls held back, by what a command printed."""
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
    """A sentence about what the walls held back, and what of it a user may let it do without them.

    Reading what is shut is nothing to be asked about: rules deny it, or it is a secret. `failed`: the
    command, if it did fail.
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
