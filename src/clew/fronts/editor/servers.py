"""MCP servers from an editor: programs, URLs, and servers inside the editor.

Servers inside the editor use the editor's own connection: `mcp/connect` opens a channel,
`mcp/message` carries a message in either direction, `mcp/disconnect` closes the channel. This
module owns the open channels, identified by the editor's IDs.
"""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, TypeAlias

from clew.core.json_object import Json
from clew.parts.mcp.client import ServerHost
from clew.parts.mcp.config import InProcessServer, ServerConfig
from clew.parts.mcp.line import CannotReachError
from clew.parts.mcp.protocol import DIALECT, Agreement
from clew.system.jsonrpc import wire
from clew.system.jsonrpc.connection import Connection
from clew.system.jsonrpc.peer import PeerAnswer, PeerFailure
from clew.system.jsonrpc.wire import (
    METHOD_NOT_FOUND,
    Id,
    RpcFault,
    as_list,
    as_object,
    as_text,
)

CONNECT_S = 10.0
DISCONNECT_S = 1.0

Work: TypeAlias = Coroutine[Any, Any, None]


def entries_of(items: Any) -> dict[str, Json]:
    """Return the servers in a request as settings entries. Skip those without a name."""
    servers = map(as_object, as_list(items))
    return {name: entry_of(server) for server in servers if (name := as_text(server.get("name")))}


def entry_of(server: Json) -> Json:
    kind = as_text(server.get("type"))
    if kind == "acp":
        return {"type": "sdk", "name": in_editor(server)}
    if kind in ("http", "sse"):
        url, headers = server.get("url", ""), pairs(server.get("headers"))
        return {"type": kind, "url": url, "headers": headers}
    return {
        "type": "stdio",
        "command": server.get("command", ""),
        "args": as_list(server.get("args")),
        "env": pairs(server.get("env")),
    }


def in_editor(server: Json) -> str:
    """Return the ID of a server that runs inside the editor.

    The field names of both protocol versions are supported.
    """
    return as_text(server.get("serverId")) or as_text(server.get("id"))


def pairs(items: Any) -> dict[str, str]:
    objects = map(as_object, as_list(items))
    return {as_text(item.get("name")): as_text(item.get("value")) for item in objects}


class EditorServers:
    """The channels to servers in the editor."""

    def __init__(self, editor: Connection) -> None:
        self._editor = editor
        self._open: dict[str, EditorLine] = {}

    def make(
        self, config: ServerConfig, host: ServerHost, group: asyncio.TaskGroup
    ) -> "EditorLine":
        assert isinstance(config.reach, InProcessServer)
        return EditorLine(config.reach.name, host, group, self._editor, self._open)

    async def asked(self, params: Json) -> Any | RpcFault:
        """Handle a request from a server."""
        line = self._open.get(as_text(params.get("connectionId")))
        if line is None:
            return RpcFault(code=METHOD_NOT_FOUND, message="unknown connection")
        return await line.host.asked(as_text(params.get("method")), params.get("params"))

    def told(self, params: Json) -> None:
        line = self._open.get(as_text(params.get("connectionId")))
        if line is not None:
            message = wire.make_notification(as_text(params.get("method")), params.get("params"))
            line.connection.deliver(wire.read_value(message))


class EditorLine:
    """One channel to a server. Notifications are handled in order; requests run concurrently."""

    def __init__(
        self,
        server_id: str,
        host: ServerHost,
        group: asyncio.TaskGroup,
        editor: Connection,
        lines: "dict[str, EditorLine]",
    ) -> None:
        self.host = host
        self._server_id = server_id
        self._group = group
        self._editor = editor
        self._lines = lines
        self._id = ""
        self._tasks: dict[Id, asyncio.Task[None]] = {}
        self._over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.connection = Connection(self._send, host, DIALECT, group)

    async def open(self) -> None:
        params = {"serverId": self._server_id, "acpId": self._server_id}
        outcome = await self._editor.request("mcp/connect", params, limit_s=CONNECT_S)
        if isinstance(outcome, PeerFailure):
            raise CannotReachError(f"the editor could not connect: {outcome.message}")
        self._id = as_text(as_object(outcome.result).get("connectionId"))
        if not self._id:
            raise CannotReachError("the editor returned no connection ID", is_final=True)
        self._lines[self._id] = self

    def settled(self, agreement: Agreement) -> None:
        """Do nothing: the editor passes on any message, whatever client and server agreed on."""

    async def ended(self) -> str:
        return await asyncio.shield(self._over)

    async def aclose(self) -> None:
        self.connection.lose("the session closed the connection")
        for task in list(self._tasks.values()):
            task.cancel()
        if self._lines.pop(self._id, None) is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DISCONNECT_S):
                    await self._editor.request("mcp/disconnect", {"connectionId": self._id})

    def _send(self, message: Json) -> None:
        method, params = message.get("method"), message.get("params")
        carried = {"connectionId": self._id, "method": method}
        carried |= {} if params is None else {"params": params}
        if "id" not in message:
            self._editor.notify("mcp/message", carried)
            if method == DIALECT.cancel_method and (
                task := self._tasks.get(as_object(params).get(DIALECT.cancel_key, ""))
            ):
                task.cancel()
            return
        identity: Id = message["id"]
        task = self._group.create_task(self._asked(identity, carried))
        self._tasks[identity] = task
        task.add_done_callback(lambda _: self._tasks.pop(identity, None))

    async def _asked(self, identity: Id, carried: Json) -> None:
        outcome = await self._editor.request("mcp/message", carried)
        match outcome:
            case PeerAnswer():
                answer = wire.make_success(identity, outcome.result)
            case PeerFailure(kind="refused"):
                fault = RpcFault(code=outcome.code, message=outcome.message, data=outcome.data)
                answer = wire.make_refusal(identity, fault)
            case PeerFailure():
                self.connection.fail(identity, outcome.message)
                return
        self.connection.deliver(wire.read_value(answer))
