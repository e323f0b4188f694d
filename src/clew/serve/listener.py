"""The HTTP server: uvicorn with the session server's limits."""

import asyncio
import socket
import sys
from collections.abc import Sequence
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.h11_impl import H11Protocol

from clew.serve.app import PEER, SessionServer
from clew.serve.requests import EVENTS_MAX_BYTES
from clew.system.command_groups import show

HEAD_MAX_BYTES = 64 << 10
HEAD_S = 15.0
MOST_CONNECTIONS = 5_000
# How long a shutdown waits for requests in progress.
LAST_S = 5


class TimedProtocol(H11Protocol):
    """uvicorn's protocol with a timeout for request heads.

    The timeout starts with a connection and with the first byte of each request.
    """

    head_s = HEAD_S
    cycle: Any
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        if self._deadline is None and not self._is_answering():
            self._expect_head()
        super().data_received(data)
        if self._is_answering():
            self._forget()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: Any) -> None:
        self._forget()
        super().handle_websocket_upgrade(event)

    def _is_answering(self) -> bool:
        """Return whether a request's head is complete, but its response is not."""
        return self.cycle is not None and not self.cycle.response_complete

    def _expect_head(self) -> None:
        self._deadline = self.loop.call_later(self.head_s, self.transport.close)

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def with_peer(app: ASGIApp) -> ASGIApp:
    """Store a request's actual sender, before a proxy's headers replace it."""

    async def noted(scope: Scope, receive: Receive, send: Send) -> None:
        scope[PEER] = (scope.get("client") or ("",))[0]
        await app(scope, receive, send)

    return noted


class HttpListener(uvicorn.Server):
    """A server that prints its address, and ends its streams when it stops."""

    def __init__(
        self,
        server: SessionServer,
        host: str,
        port: int,
        *,
        certificate: str = "",
        key: str = "",
        proxies: Sequence[str] = (),
        head_s: float = HEAD_S,
    ) -> None:
        # Only proxies may name another sender.
        app: Any = server.app
        if proxies:
            app = ProxyHeadersMiddleware(app, list(proxies))
        super().__init__(
            uvicorn.Config(
                with_peer(app),
                http=type("Heads", (TimedProtocol,), {"head_s": head_s}),
                host=host,
                port=port,
                proxy_headers=False,
                ssl_certfile=certificate or None,
                ssl_keyfile=key or None,
                ws="websockets-sansio",
                ws_max_size=EVENTS_MAX_BYTES,
                log_level="warning",
                access_log=False,
                lifespan="off",
                server_header=False,
                limit_concurrency=MOST_CONNECTIONS,
                timeout_graceful_shutdown=LAST_S,
                h11_max_incomplete_event_size=HEAD_MAX_BYTES,
            )
        )
        self._streams = server
        self.url = ""
        # Set when the server listens, under `url`.
        self.is_ready = asyncio.Event()
        self._scheme = "https" if certificate else "http"

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        server = self._streams
        work = {"revocations": server.end_revoked(), "pushes": server.send_pushes()}
        tasks = [asyncio.create_task(task, name=name) for name, task in work.items()]
        try:
            await super().serve(sockets)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for server in self.servers:
            for listening in server.sockets:
                host, port = listening.getsockname()[:2]
                address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
                self.url = f"{self._scheme}://{address}"
                show(f"listening on {self.url}")
        sys.stdout.flush()  # Programs that start the server wait for this line.
        self.is_ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._streams.close_streams()
        await super().shutdown(sockets)
