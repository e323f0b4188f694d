"""The port of this machine to which a browser comes back from a login.

Answers one kind of request, for one state, once; whatever else comes is turned away. Listens on
127.0.0.1 alone.
"""

import asyncio
from collections.abc import Mapping
from types import TracebackType

from msgspec import Struct

from clew.mcp.oauth_words import query_of

PATH = "/callback"
MAX_LINE_BYTES = 16384
READ_S = 10.0

PAGE = (
    "<!doctype html><meta charset=utf-8><title>clew</title>"
    "<body style='font: 16px sans-serif; margin: 4em'><p>{words}</p>"
)
DONE = "The login is done as far as the browser goes. You can close this page and go back to clew."
STRANGE = "This is not the answer that clew waits for."


class Callback(Struct, frozen=True, kw_only=True):
    """What came back; its parameters hold a code, so it is never shown."""

    parameters: Mapping[str, str]

    def __repr__(self) -> str:
        return f"Callback({', '.join(self.parameters)})"


class Loopback:
    """Open while entered."""

    def __init__(self, port: int = 0) -> None:
        self._port = port
        self._server: asyncio.Server | None = None
        self._answers: asyncio.Queue[Callback] = asyncio.Queue()

    @property
    def redirect_uri(self) -> str:
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}{PATH}"

    async def __aenter__(self) -> "Loopback":
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self._port, limit=MAX_LINE_BYTES
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def answer(self, state: str) -> Callback:
        """Waits for the answer to the question with this state; others are none."""
        self._state = state
        while True:
            found = await self._answers.get()
            if found.parameters.get("state") == state:
                return found

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(READ_S):
                line = await reader.readline()
                while (await reader.readline()).strip():
                    pass
            method, _, rest = line.decode("latin-1").partition(" ")
            target = rest.partition(" ")[0]
            is_ours = method == "GET" and target.partition("?")[0] == PATH
            found = Callback(parameters=query_of(target)) if is_ours else None
            known = found is not None and found.parameters.get("state") == self._state
            self._say(writer, known=known)
            await writer.drain()
            if known and found is not None:
                self._answers.put_nowait(found)
        except (OSError, TimeoutError, ValueError):
            pass  # whoever it was, it was no browser that comes back from a login
        finally:
            writer.close()

    _state = ""

    def _say(self, writer: asyncio.StreamWriter, *, known: bool) -> None:
        body = PAGE.format(words=DONE if known else STRANGE).encode()
        status = "200 OK" if known else "404 Not Found"
        writer.write(
            f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\nCache-Control: no-store\r\n"
            "Referrer-Policy: no-referrer\r\n\r\n".encode()
            + body
        )
