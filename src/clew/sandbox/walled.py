"""A command with walls around it, as it is to be started; the same value where there are none."""

from msgspec import Struct

from clew.messages.errors import OutsideError
from clew.process.walls import Walls


class SandboxError(OutsideError):
    """There are no walls here that hold, and why."""


class Walled(Struct, frozen=True, kw_only=True):
    """`is_sandboxed`: walls stand. `refused`: the hosts that its proxy refused while it ran."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    descriptors: dict[int, int] = {}
    walls: Walls | None = None
    is_sandboxed: bool = False
    refused: list[str] = []
