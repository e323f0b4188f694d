"""The client side of the connection, as seen by the sessions."""

from collections.abc import Awaitable, Callable

from clew.core.json_object import Json
from clew.fronts.editor import protocol
from clew.system.jsonrpc.connection import Connection
from clew.system.jsonrpc.peer import Outcome


class EditorConnection:
    """The connection to the editor. `connection` is set before the first message."""

    connection: Connection

    def __init__(self, room: Callable[[], Awaitable[None]]) -> None:
        self.room = room


class EditorClient:
    """The editor as seen by one session."""

    def __init__(self, line: EditorConnection, can: protocol.ClientAbilities) -> None:
        self.can = can
        self.session_id = ""
        self._line = line

    def tell(self, update: Json) -> None:
        self._line.connection.notify(
            "session/update", {"sessionId": self.session_id, "update": update}
        )

    async def room(self) -> None:
        await self._line.room()

    async def ask(self, method: str, params: Json, *, limit_s: float | None = None) -> Outcome:
        return await self._line.connection.request(
            method, {"sessionId": self.session_id, **params}, limit_s=limit_s
        )
