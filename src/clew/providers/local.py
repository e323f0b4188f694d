"""Find model servers on this machine, on their usual ports, and the wire that each supports.

Only the loopback address is queried, and only if the user has no API key yet (see
`clew.fronts.terminal.first_run`).
"""

import asyncio
import json
from typing import Any

from msgspec import Struct

from clew.core.catalog.services import ROWS, SERVICES, Wire
from clew.system.transport.http import HttpTransport
from clew.system.transport.network import Network
from clew.system.transport.seam import HttpRequest, Transport, TransportError

# The usual services and ports.
USUAL: tuple[tuple[str, int], ...] = tuple((row.name, row.port) for row in SERVICES if row.is_local)
WAIT_S = 1.0
MAX_BYTES = 1 << 20
MAX_PORT = 65535
# The hosts that `OLLAMA_HOST` may name: other machines are never queried.
LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "0.0.0.0")
# Responses to an unknown path.
UNKNOWN_PATH = (404, 405, 501)


class LocalServer(Struct, frozen=True, kw_only=True):
    """A server that responded, and its models."""

    service: str
    url: str
    models: tuple[str, ...]
    # The wire that the server supports.
    wire: Wire = "messages"

    @property
    def name(self) -> str:
        return ROWS[self.service].title


async def find_local_servers(places: tuple[tuple[str, int], ...]) -> list[LocalServer]:
    """Return the servers that respond in time, in the order of `places`."""
    if not places:
        return []
    transport = HttpTransport(Network())
    try:
        async with asyncio.TaskGroup() as group:
            looks = [group.create_task(_look(transport, name, port)) for name, port in places]
    finally:
        await transport.aclose()
    return [server for look in looks if (server := look.result()) is not None]


def list_usual_servers(ollama_host: str | None) -> tuple[tuple[str, int], ...]:
    """Return the name and port of each server to look for. `OLLAMA_HOST` may set Ollama's port."""
    host, colon, port = (ollama_host or "").removeprefix("http://").rstrip("/").rpartition(":")
    if not colon or host not in LOOPBACK or not port.isdecimal() or int(port) > MAX_PORT:
        return USUAL
    return (("ollama", int(port)), *USUAL[1:])


async def find_wire(transport: Transport, url: str) -> Wire | None:
    """Return the wire that a server supports, or None if it does not respond."""
    head = (("content-type", "application/json"),)
    address = f"{url.rstrip('/').removesuffix('/v1')}/v1/messages"
    request = HttpRequest(method="POST", url=address, headers=head, body=b"{}")
    try:
        async with asyncio.timeout(WAIT_S):
            status, _ = await _said(transport, request)
    except (TransportError, TimeoutError):
        return None
    return "chat" if status in UNKNOWN_PATH else "messages"


async def _look(transport: Transport, service: str, port: int) -> LocalServer | None:
    url = f"http://127.0.0.1:{port}"
    try:
        async with asyncio.timeout(WAIT_S):
            status, listed = await _said(
                transport, HttpRequest(method="GET", url=f"{url}/v1/models")
            )
            if status != 200:
                return None
    except (TransportError, TimeoutError):
        return None
    models = _models(listed)
    if models is None:
        return None
    wire = await find_wire(transport, url)
    return LocalServer(service=service, url=url, models=models, wire=wire or "chat")


async def _said(transport: Transport, request: HttpRequest) -> tuple[int, bytes]:
    exchange = transport.exchange(request)
    try:
        head = await exchange.open()
        body = b""
        while len(body) < MAX_BYTES and (piece := await exchange.read()):
            body += piece
        return head.status, body
    finally:
        await exchange.close()


def _models(listed: bytes) -> tuple[str, ...] | None:
    """Return the model IDs in a response, or None if the response is not a list of models."""
    try:
        reply: Any = json.loads(listed)
    except (ValueError, RecursionError):
        return None
    if not isinstance(reply, dict) or "data" not in reply:
        return None
    data = reply["data"]
    ids = (
        [item.get("id") for item in data if isinstance(item, dict)]
        if isinstance(data, list)
        else []
    )
    return tuple(
        model_id
        for model_id in ids
        if isinstance(model_id, str) and model_id and model_id.isprintable()
    )
