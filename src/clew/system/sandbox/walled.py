"""A command with walls around it, as it is to be started; the same value where there are none."""

from msgspec import Struct

from clew.core.messages.errors import OutsideError
from clew.system.process.walls import Walls
from clew.system.sandbox.policy import SandboxPolicy


class SandboxError(OutsideError):
    """There are no walls here that hold, and why."""


class Walled(Struct, frozen=True, kw_only=True):
    """`policy`: what its walls hold; None without any. `refused`: the hosts that its proxy refused.

    `told`: what else is to be said of it once it has ended. `removed`: the variables of the session
    that it does not get.
    """

    argv: tuple[str, ...]
    environment: dict[str, str]
    descriptors: dict[int, int] = {}
    walls: Walls | None = None
    policy: SandboxPolicy | None = None
    refused: list[str] = []
    told: list[str] = []
    removed: tuple[str, ...] = ()
