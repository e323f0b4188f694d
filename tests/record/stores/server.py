"""A store behind real HTTP on loopback, over a folder, that can be told to fail in many ways."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qsl

from clew.record.stores.base import FolderStore, StoreError, TranscriptKey
from tests.system.transport.servers import Server, serving

FAULTS = (
    "status 500", "status 401", "closed", "cut", "no json", "hang up", "empty", "half a line",
    "wrong list", "other names", "deep list", "deep entry",
)  # fmt: skip


class Remote:
    """`fault` is what goes wrong from now on; `seen` the heads of the requests."""

    def __init__(self, folder: Path) -> None:
        self.store = FolderStore(folder)
        self.fault = ""
        self.only: str | None = None
        self.seen: list[str] = []
        self.url = ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            text = head.decode()
            self.seen.append(text)
            size = next(
                (
                    int(line.split(":")[1])
                    for line in text.lower().split("\r\n")
                    if line.startswith("content-length")
                ),
                0,
            )
            body = await reader.readexactly(size)
            method, target = text.split(" ")[:2]
            is_faulty = self.fault and (self.only is None or self.only in target)
            if is_faulty and self.fault == "closed":
                return
            if is_faulty and self.fault == "silent":
                await asyncio.Event().wait()
            status, answer = await self.answer(method, target, body)
            if is_faulty:
                status, answer = self.broken(target, status, answer)
            length = len(answer) + (50 if is_faulty and self.fault == "cut" else 0)
            writer.write(
                f"HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n\r\n".encode() + answer
            )
            await writer.drain()
            if is_faulty and self.fault in ("cut", "hang up"):
                return

    def broken(self, target: str, status: int, answer: bytes) -> tuple[int, bytes]:
        is_list = target.partition("?")[0].endswith("/keys")
        match self.fault:
            case "status 500" | "status 401":
                return int(self.fault.split()[1]), b"secret details of /home/ada"
            case "no json":
                return (200, b"<html>") if is_list else (status, b"<html>\n")
            case "wrong list":
                return (200, b'[{"session":5}]') if is_list else (status, answer)
            case "other names":
                names = b'[{"session":"%s","subpath":"../../x","lines":1}]'
                return (
                    (200, names % target.partition("=")[2].encode())
                    if is_list
                    else (status, answer)
                )
            case "deep list":
                return (200, b"[" * 100_000) if is_list else (status, answer)
            case "deep entry":
                deep = b'{"uuid":"deep","x":%s1%s}\n' % (b"[" * 100_000, b"]" * 100_000)
                return status, answer if is_list else answer + deep
            case "empty":
                return (200, b"[]" if is_list else b"")
            case "half a line":
                return status, answer if is_list else answer[: len(answer) // 2]
        return status, answer

    async def answer(self, method: str, target: str, body: bytes) -> tuple[int, bytes]:
        path, _, text = target.partition("?")
        query = dict(parse_qsl(text))
        wanted = query.get("session", "")
        if path.endswith("/keys"):
            rows = [
                {"session": o.key.session_id, "subpath": o.key.agent_id, "lines": o.lines}
                for o in await self.store.list()
                if wanted in ("", o.key.session_id)
            ]
            return 200, json.dumps(rows).encode()
        if "/blobs/" in path:
            name = path.rpartition("/")[2]
            if method == "PUT":
                await self.store.put_blob(name, body)
                return 204, b""
            blob = await self.store.get_blob(name)
            return (404, b"") if blob is None else (200, blob)
        key = TranscriptKey(session_id=wanted, agent_id=query.get("subpath", ""))
        if method == "POST":
            lines = [line + b"\n" for line in body.split(b"\n")[:-1]]
            try:
                count = await self.store.append(key, lines, at=int(query["at"]))
            except StoreError:
                return 409, b""
            return 200, json.dumps({"lines": count}).encode()
        data = b"".join([piece async for piece in self.store.read(key)])
        return (200, data) if data else (404, b"")


@asynccontextmanager
async def remote(folder: Path) -> AsyncIterator[Remote]:
    found = Remote(folder)
    server: Server
    async with serving(found.handle) as server:
        found.url = server.url
        yield found
