"""A command as it is started, with or without a sandbox."""

from msgspec import Struct

from clew.core.messages.errors import OutsideError
from clew.system.process.walls import Walls
from clew.system.sandbox.policy import SandboxPolicy


class SandboxError(OutsideError):
    """No sandbox works here; the message says why."""


class Walled(Struct, frozen=True, kw_only=True):
    """A command to start.

    `policy` is the policy of its sandbox, or None without one. `refused` are the hosts that its
    proxy refused. `told` are further messages for its result. `removed` are the session's variables
    that it does not receive.
    """

    argv: tuple[str, ...]
    environment: dict[str, str]
    descriptors: dict[int, int] = {}
    walls: Walls | None = None
    policy: SandboxPolicy | None = None
    refused: list[str] = []
    told: list[str] = []
    removed: tuple[str, ...] = ()
