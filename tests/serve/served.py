"""A session server in this process, on a port of its own, and plain requests to it."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from clew.serve import devices
from clew.serve.app import SessionServer
from clew.serve.database import Database
from clew.serve.listener import HttpListener
from clew.serve.sqlite import SqliteDatabase
from clew.system.transport.http import HttpTransport
from clew.system.transport.network import Network
from clew.system.transport.seam import HttpRequest


class Served:
    """A server at `url`; its owner has `token`."""

    def __init__(self, url: str, database: Database, transport: HttpTransport) -> None:
        self.url = url
        self.token = ""
        self._database = database
        self._transport = transport

    async def add_device(self, token: str, *scopes: str, owner: str = "owner") -> None:
        add = partial(
            devices.add_device,
            device=token,
            name=token,
            token=token,
            scopes=scopes,
            now_ms=1,
            owner=owner,
        )
        await self._database.write(add)

    async def revoke(self, device: str) -> None:
        await self._database.write(partial(devices.revoke_device, device=device, now_ms=2))

    async def revoke_now(self, device: str) -> None:
        """Revoke a device as another process does, without a word to the server."""
        revoke = partial(devices.revoke_device, device=device, now_ms=time.time_ns() // 1_000_000)
        await self._database.write(revoke)

    async def expire_workers(self) -> None:
        """Let the tokens of all workers expire."""
        await self._database.write(lambda t: t.run("UPDATE worker SET expires_at=0"))

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        token: str | None = None,
        **headers: str,
    ) -> tuple[int, Any]:
        """Return the status and the decoded body of the response."""
        given = self.token if token is None else token
        about = {"authorization": f"Bearer {given}".strip()} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        request = HttpRequest(
            method=method,
            url=self.url + path,
            headers=tuple(about.items()),
            body=b"" if body is None else data,
        )
        exchange = self._transport.exchange(request)
        try:
            head = await exchange.open()
            data = b""
            while piece := await exchange.read():
                data += piece
        finally:
            await exchange.close()
        try:
            return head.status, msgspec.json.decode(data)
        except msgspec.DecodeError:
            return head.status, data

    async def frames(self, path: str, count: int, **headers: str) -> list[Any]:
        """Return the first events of a stream, decoded."""
        about = {"authorization": f"Bearer {self.token}".strip()} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        request = HttpRequest(
            method="GET", url=self.url + path, headers=tuple(about.items()), body=b""
        )
        exchange = self._transport.exchange(request)
        data = b""
        found: list[Any] = []
        try:
            assert (await exchange.open()).status == 200
            async with asyncio.timeout(20):
                while len(found) < count and (piece := await exchange.read()):
                    data += piece
                    *frames, data = data.split(b"\n\n")
                    for frame in frames:
                        for line in frame.split(b"\n"):
                            if line.startswith(b"data: "):
                                found.append(msgspec.json.decode(line[6:]))
        finally:
            await exchange.close()
        return found[:count]


@asynccontextmanager
async def served(
    folder: Path,
    database: Database | None = None,
    *,
    token: str = "owner-token",
    about: Mapping[str, Any] | None = None,
    **options: Any,
) -> AsyncIterator[Served]:
    database = database or SqliteDatabase(folder / "serve.db")
    server = SessionServer(database, hosts=["127.0.0.1", "localhost"], **(about or {}))
    listener = HttpListener(server, "127.0.0.1", 0, **options)
    transport = HttpTransport(Network())
    async with asyncio.TaskGroup() as group:
        group.create_task(listener.serve())
        await listener.is_ready.wait()
        found = Served(listener.url, database, transport)
        await found.add_device(token, *devices.SCOPES)
        found.token = token
        try:
            yield found
        finally:
            await transport.aclose()
            listener.should_exit = True
    await database.aclose()
