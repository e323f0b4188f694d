"""A server at a URL for tests.

Answers as requested, one request at a time. Strict about headers.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Json = dict[str, Any]


class Web:
    """`act` answers a message: (status, content type, body, headers); None leaves it to `usual`."""

    def __init__(self, act: Callable[["Web", Json], Any] | None = None) -> None:
        self.act = act
        self.seen: list[tuple[str, dict[str, str], Json]] = []
        self.url = ""
        self.sessions = 0

    def usual(self, message: Json) -> tuple[int, str, bytes, dict[str, str]]:
        method = message.get("method")
        if method == "initialize":
            self.sessions += 1
            result: Any = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "web"},
            }
            return reply(message, result, **{"Mcp-Session-Id": f"session-{self.sessions}"})
        if method == "tools/list":
            return reply(message, {"tools": [{"name": "go", "inputSchema": {"type": "object"}}]})
        if method == "tools/call":
            return reply(message, {"content": [{"type": "text", "text": "gone"}]})
        if "id" in message:
            return reply(message, {})
        return 202, "", b"", {}

    def methods(self) -> list[str]:
        return [f"{verb} {message.get('method', '')}".strip() for verb, _, message in self.seen]


def reply(message: Json, result: Any, **headers: str) -> tuple[int, str, bytes, dict[str, str]]:
    body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
    return 200, "application/json", body, headers


def event(message: Json, result: Any, *, identity: str = "") -> bytes:
    said = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})
    head = f"id: {identity}\n" if identity else ""
    return f"{head}data: {said}\n\n".encode()


@contextmanager
def web(act: Callable[[Web, Json], Any] | None = None) -> Iterator[Web]:
    made = Web(act)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            """Tests print nothing."""

        def do_POST(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(size)
            message: Json = json.loads(body) if body else {}
            headers = {name.lower(): value for name, value in self.headers.items()}
            made.seen.append((self.command, headers, message))
            more = {"verb": self.command, "after": headers.get("last-event-id")}
            said = None if made.act is None else made.act(made, message | more)
            if said is None:
                said = made.usual(message) if self.command == "POST" else (405, "", b"", {})
            status, kind, data, further = said
            self.send_response(status)
            for name, value in {"Content-Type": kind, **further}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            self.do_POST()

        def do_DELETE(self) -> None:
            self.do_POST()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{server.server_port}/mcp"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
