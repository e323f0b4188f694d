"""Find servers on this machine that support the Messages API, on their usual ports.

Only the loopback address is queried, and only if the user has no API key yet (see
`clew.fronts.terminal.first_run`).
"""

import asyncio
import json
from typing import Any

from msgspec import Struct

from clew.system.transport.http import HttpTransport
from clew.system.transport.network import Network
from clew.system.transport.seam import HttpRequest, Transport, TransportError

# The usual addresses and ports.
USUAL: tuple[tuple[str, int], ...] = (
    ("Ollama", 11434),
    ("LM Studio", 1234),
    ("llama.cpp", 8080),
    ("vLLM", 8000),
)
WAIT_S = 1.0
MAX_BYTES = 1 << 20
MAX_PORT = 65535
# The hosts that `OLLAMA_HOST` may name: other machines are never queried.
LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "0.0.0.0")
# Responses to an unknown path.
UNKNOWN_PATH = (404, 405, 501)


class LocalServer(Struct, frozen=True, kw_only=True):
    """A server that responded, and its models."""

    name: str
    url: str
    models: tuple[str, ...]


async def find_local_servers(places: tuple[tuple[str, int], ...]) -> list[LocalServer]:
    """Return the servers that respond, in the order of `places`.

    Leave out those that are too slow.
    """
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
    return (("Ollama", int(port)), *USUAL[1:])


async def _look(transport: Transport, name: str, port: int) -> LocalServer | None:
    url = f"http://127.0.0.1:{port}"
    try:
        async with asyncio.timeout(WAIT_S):
            status, listed = await _said(
                transport, HttpRequest(method="GET", url=f"{url}/v1/models")
            )
            if status != 200:
                return None
            head = (("content-type", "application/json"),)
            request = HttpRequest(method="POST", url=f"{url}/v1/messages", headers=head, body=b"{}")
            status, _ = await _said(transport, request)
    except (TransportError, TimeoutError):
        return None
    if status in UNKNOWN_PATH:
        return None
    return LocalServer(name=name, url=url, models=_models(listed))


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


def _models(listed: bytes) -> tuple[str, ...]:
    try:
        reply: Any = json.loads(listed)
    except (ValueError, RecursionError):
        return ()
    data = reply.get("data") if isinstance(reply, dict) else None
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
