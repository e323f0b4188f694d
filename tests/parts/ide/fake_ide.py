"""An editor for tests: its lock file, and a server as the published protocol describes it."""

import asyncio
import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

Json = dict[str, Any]
TOKEN = "0123456789abcdef0123456789abcdef"
TOOLS = ("openDiff", "getDiagnostics", "closeAllDiffTabs", "openFile", "executeCode")
# Returns the texts of a result, or None for a call that is not answered.
Answer = Callable[[str, Json], list[str] | None]


class FakeIde:
    """Records what clew sends. `answer` returns the results of tools."""

    def __init__(self, answer: Answer | None) -> None:
        self.answer: Answer = answer or (lambda _name, _arguments: [])
        self.calls: list[tuple[str, Json]] = []
        self.told: list[str] = []
        self.headers: list[Json] = []
        self.unanswered: dict[str, Any] = {}
        self.port = 0
        self._clients: list[ServerConnection] = []
        self._loop = asyncio.new_event_loop()

    def named(self, tool: str) -> list[Json]:
        return [arguments for name, arguments in self.calls if name == tool]

    # -- in the thread of the server

    async def handle(self, client: ServerConnection) -> None:
        assert client.request is not None
        self.headers.append(dict(client.request.headers.raw_items()))
        self._clients.append(client)
        with contextlib.suppress(Exception):
            async for text in client:
                await self._take(client, json.loads(text))
        self._clients.remove(client)

    async def _take(self, client: ServerConnection, message: Json) -> None:
        method, identity = message.get("method"), message.get("id")
        if identity is None:
            self.told.append(str(method))
            return
        match method:
            case "initialize":
                result: Json = {
                    "protocolVersion": "2024-11-05",
                    "capabilities": {"tools": {"listChanged": True}, "logging": {}},
                    "serverInfo": {"name": "fake", "version": "1"},
                }
            case "tools/list":
                schema = {"type": "object", "properties": {}}
                tools = [{"name": n, "description": n, "inputSchema": schema} for n in TOOLS]
                result = {"tools": tools}
            case "tools/call":
                name, arguments = message["params"]["name"], message["params"]["arguments"]
                self.calls.append((name, arguments))
                texts = self.answer(name, arguments)
                if texts is None:
                    self.unanswered[name] = (client, identity)
                    return
                result = make_result(texts)
            case _:
                error = {"code": -32601, "message": "Method not found"}
                await client.send(json.dumps({"jsonrpc": "2.0", "id": identity, "error": error}))
                return
        await client.send(json.dumps({"jsonrpc": "2.0", "id": identity, "result": result}))

    def check(self, connection: ServerConnection, request: Request) -> Response | None:
        if request.headers.get("x-claude-code-ide-authorization") != TOKEN:
            return connection.respond(401, "wrong token\n")
        return None

    async def run(self, started: threading.Event, stop: asyncio.Event) -> None:
        protocols: Any = ["mcp"]
        async with serve(
            self.handle, "127.0.0.1", 0, subprotocols=protocols, process_request=self.check
        ) as server:
            self.port = next(iter(server.sockets)).getsockname()[1]
            started.set()
            await stop.wait()

    # -- from the test

    def send(self, method: str, **params: Any) -> None:
        text = json.dumps({"jsonrpc": "2.0", "method": method, "params": params})
        self._later(text)

    def finish(self, tool: str, *texts: str) -> None:
        """Answer a call that waits."""
        client, identity = self.unanswered.pop(tool)
        message = {"jsonrpc": "2.0", "id": identity, "result": make_result(list(texts))}
        self._later(json.dumps(message), client)

    def _later(self, text: str, client: ServerConnection | None = None) -> None:
        async def send() -> None:
            for one in [client] if client else list(self._clients):
                await one.send(text)

        asyncio.run_coroutine_threadsafe(send(), self._loop).result(10)

    def select(self, path: Path, text: str, first: int) -> None:
        lines = text.count("\n")
        span = {
            "start": {"line": first, "character": 0},
            "end": {"line": first + lines, "character": 3},
            "isEmpty": not text,
        }
        self.send(
            "selection_changed",
            text=text,
            filePath=str(path),
            fileUrl=path.as_uri(),
            selection=span,
        )

    def announce(self, config: Path, *folders: Path, name: str = "Vimacs") -> Path:
        """Write the lock file."""
        file = config / "ide" / f"{self.port}.lock"
        file.parent.mkdir(parents=True, exist_ok=True)
        fields = {
            "pid": os.getpid(),
            "workspaceFolders": [str(folder) for folder in folders],
            "ideName": name,
            "transport": "ws",
            "authToken": TOKEN,
        }
        file.write_text(json.dumps(fields), "utf-8")
        return file


def make_result(texts: list[str]) -> Json:
    return {"content": [{"type": "text", "text": text} for text in texts]}


@contextlib.contextmanager
def running_ide(answer: Answer | None = None) -> Iterator[FakeIde]:
    ide = FakeIde(answer)
    started, stop = threading.Event(), asyncio.Event()
    loop = ide._loop
    thread = threading.Thread(target=lambda: loop.run_until_complete(ide.run(started, stop)))
    thread.start()
    try:
        assert started.wait(10)
        yield ide
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()
