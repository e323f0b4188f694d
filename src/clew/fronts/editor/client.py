"""The editor, as the sessions of a connection speak to it."""

from collections.abc import Awaitable, Callable

from clew.core.json_object import Json
from clew.fronts.editor import protocol
from clew.system.jsonrpc.connection import Connection
from clew.system.jsonrpc.peer import Outcome


class EditorConnection:
    """The way to the client. `connection` is there before anything is said."""

    connection: Connection

    def __init__(self, room: Callable[[], Awaitable[None]]) -> None:
        self.room = room


class EditorClient:
    """The client, as one session speaks to it."""

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
