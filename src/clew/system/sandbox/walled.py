"""A command ready to be started, with or without a sandbox."""

from msgspec import Struct

from clew.core.messages.errors import OutsideError
from clew.system.process.walls import Walls
from clew.system.sandbox.policy import SandboxPolicy


class SandboxError(OutsideError):
    """No sandbox works on this machine. The message says why."""


class Walled(Struct, frozen=True, kw_only=True):
    """A command to start, with everything that its sandbox needs.

    `policy` is the policy of its sandbox, or None if it has no sandbox. `refused` lists the
    hosts that its proxy refused. `told` lists further messages for its result. `removed` lists
    the session's variables that the command does not receive.
    """

    argv: tuple[str, ...]
    environment: dict[str, str]
    descriptors: dict[int, int] = {}
    walls: Walls | None = None
    policy: SandboxPolicy | None = None
    refused: list[str] = []
    told: list[str] = []
    removed: tuple[str, ...] = ()
