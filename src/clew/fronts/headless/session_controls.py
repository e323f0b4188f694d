"""The calling convention of control requests.

Each request is answered by a function that takes the context and the fields of the request.
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from msgspec import Struct

from clew.core.json_object import Json
from clew.core.messages.errors import ClewError
from clew.fronts.headless.host_view import HostInput, HostView
from clew.fronts.headless.permission import HostRequests
from clew.session.session import Session


class ControlContext(Struct, frozen=True, kw_only=True):
    """The context of a control request, besides its fields."""

    view: HostView
    lines: HostInput
    host: HostRequests

    @property
    def session(self) -> Session:
        """The session that is open now."""
        return self.view.session


ControlHandler: TypeAlias = Callable[[ControlContext, Json], Awaitable[Json | None]]
# Functions by the name of the request.
ControlHandlers: TypeAlias = dict[str, ControlHandler]


class ControlRefusedError(ClewError):
    """A rejected control request. The message says why; `code` is for programs."""

    code: str | None = None
