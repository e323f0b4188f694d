"""Requests to a session server that speaks the bridge protocol, as a worker and as a viewer.

Described in docs/using/serve.md. Error messages contain no token.
"""

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import msgspec

from clew.core.json_object import Json, object_of
from clew.core.messages.errors import ClewError, UserError
from clew.core.stream.sse import ServerSentEvent, SseDecoder
from clew.fronts.remote.keys import find_folder, read_device
from clew.fronts.remote.sealed import open_frame, open_state
from clew.record.stores.sealing import Sealer, read_sealer
from clew.system.transport.seam import HttpRequest, Transport, TransportError

ANSWER_MAX_BYTES = 64 << 20
# The server sends a comment every 15 s. Without one, the connection is dead.
SILENCE_S = 45.0
REQUEST_S = 30.0
CODE = "/v1/code/sessions"


class ServiceError(ClewError):
    """The server refused a request, or could not be reached (`status` 0)."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason

    @property
    def is_passing(self) -> bool:
        """Return whether the failure is temporary, so that the same request may succeed later."""
        return self.status in (0, 408, 425, 429) or self.status >= 500


class SessionService:
    """A client for one session server, authenticated with a device's token.

    `sealer`, if given, opens sealed events.
    """

    def __init__(
        self, url: str, token: str, transport: Transport, sealer: Sealer | None = None
    ) -> None:
        self.sealer = sealer
        self.url = url.rstrip("/")
        self._token = token
        self._transport = transport

    async def ask(
        self, method: str, path: str, body: object = None, *, token: str = "", **headers: str
    ) -> Json:
        """Send a request and return its response. Raise `ServiceError` on failure."""
        exchange = self._transport.exchange(self._request(method, path, body, token, headers))
        data = b""
        try:
            async with asyncio.timeout(REQUEST_S):
                head = await exchange.open()
                while piece := await exchange.read():
                    data += piece
                    if len(data) > ANSWER_MAX_BYTES:
                        raise ServiceError(0, "too_large", f"{self.url}: the response is too large")
        except TransportError as error:
            raise ServiceError(0, error.kind, f"{self.url}: {error.message}") from None
        except TimeoutError:
            raise ServiceError(0, "timeout", f"{self.url}: no response in time") from None
        finally:
            await exchange.close()
        value = read_json(data)
        if not 200 <= head.status < 300:
            raise self._refusal(head.status, value)
        return value

    async def stream(
        self, path: str, after: int, *, token: str = ""
    ) -> AsyncIterator[ServerSentEvent]:
        """Yield the events after the number `after` until the stream ends.

        Raise `ServiceError` on failure.
        """
        path = f"{path}?from_sequence_num={after}"
        exchange = self._transport.exchange(self._request("GET", path, None, token, {}))
        decoder = SseDecoder(max_event_bytes=ANSWER_MAX_BYTES)
        try:
            async with asyncio.timeout(REQUEST_S):
                head = await exchange.open()
            if head.status != 200:
                raise self._refusal(head.status, read_json(await exchange.read()))
            while True:
                async with asyncio.timeout(SILENCE_S):
                    piece = await exchange.read()
                if not piece:
                    return
                for event in decoder.feed(piece):
                    if isinstance(event, ServerSentEvent):
                        yield event
        except TransportError as error:
            raise ServiceError(0, error.kind, f"{self.url}: {error.message}") from None
        except TimeoutError:
            raise ServiceError(
                0, "timeout", f"{self.url}: the server stopped sending data"
            ) from None
        finally:
            await exchange.close()

    def _request(
        self, method: str, path: str, body: object, token: str, headers: Mapping[str, str]
    ) -> HttpRequest:
        about = {"content-type": "application/json"}
        if credential := token or self._token:
            about["authorization"] = f"Bearer {credential}"
        about |= {name.replace("_", "-"): value for name, value in headers.items()}
        data = b"" if body is None else msgspec.json.encode(body)
        return HttpRequest(
            method=method, url=self.url + path, headers=tuple(about.items()), body=data
        )

    def _refusal(self, status: int, body: Json) -> ServiceError:
        error = object_of(body.get("error"))
        reason, message = str(error.get("reason", "")), str(error.get("message", ""))
        hint = "; set CLEW_REMOTE_TOKEN to a device's token" if status == 401 else ""
        return ServiceError(status, reason, f"{self.url}: {message or f'status {status}'}{hint}")

    # -- viewers

    async def list_sessions(self, query: str = "") -> list[Json]:
        found = (await self.ask("GET", f"{CODE}{query}")).get("data")
        items = (
            [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
        )
        for item in items:
            report = object_of(item.get("external_metadata"))
            report = open_state(self.sealer, str(item.get("session_id")), report)
            item["external_metadata"] = report
            item["title"] = report.get("title") or item.get("title")
        return items

    def open(self, about: Json, session: str) -> Json:
        """Return an event, opening its payload if that is sealed. Raise `SealError` on failure."""
        payload = about.get("payload")
        if not isinstance(payload, dict):
            return about
        return about | {"payload": open_frame(self.sealer, session, payload)}

    async def send(self, session: str, payloads: Sequence[Json]) -> list[Json]:
        """Send a viewer's frames; return the result for each."""
        events = [{"payload": payload} for payload in payloads]
        said = await self.ask("POST", f"{session_path(session)}/events", {"events": events})
        results = said.get("results")
        return [object_of(item) for item in results] if isinstance(results, list) else []


def session_path(session: str) -> str:
    return f"{CODE}/{quote(session, safe='')}"


def read_session_id(session: str) -> str:
    """Return the UUID of a session.

    IDs with the prefix of the bridge protocol are accepted, too.
    """
    try:
        return str(uuid.UUID(session.removeprefix("cse_")))
    except ValueError:
        raise UserError(
            f"invalid session ID {session!r}; run clew attach to list sessions"
        ) from None


def read_json(data: bytes) -> Json:
    try:
        return object_of(msgspec.json.decode(data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}


def read_event(event: ServerSentEvent) -> Json:
    return read_json(event.data)


@asynccontextmanager
async def open_service(
    url: str, environ: Mapping[str, str], *, needs_token: bool = True
) -> AsyncIterator[SessionService]:
    """Connect to a server, and yield a client for it.

    If `url` is empty, use the server from the environment or from this machine's pairing.
    """
    from clew.system.config.environment import freeze
    from clew.system.transport.http import HttpTransport
    from clew.system.transport.network import read_network

    environment = freeze(environ)
    paired = read_device()
    url = (url or environment.text("remote_url") or str(paired.get("url", ""))).rstrip("/")
    token = environment.text("remote_token") or ""
    if not token and url == paired.get("url"):
        token = str(paired.get("token", ""))
    if not url.startswith(("http://", "https://")):
        raise UserError(f"invalid server {url!r}; expected a URL such as http://127.0.0.1:7480")
    if needs_token and not token:
        raise UserError(
            f"{url} requires a token: run clew pair, or set CLEW_REMOTE_TOKEN to the token that"
            f" clew serve add prints"
        )
    transport = HttpTransport(read_network(environment))
    try:
        yield SessionService(url, token, transport, read_sealer(find_folder()))
    finally:
        await transport.aclose()


async def follow(service: SessionService, session: str, after: int) -> AsyncIterator[Json]:
    """Yield the events of a session after the number `after`; reconnect whenever necessary.

    Raise `ServiceError` if the server refuses, and `SealError` for an event that this machine can't
    open.
    """
    attempt = 0
    while True:
        try:
            async for event in service.stream(f"{session_path(session)}/events/stream", after):
                attempt = 0
                about = read_event(event)
                seq = about.get("sequence_num")
                if isinstance(seq, int):
                    if seq <= after:
                        continue
                    after = seq
                yield service.open(about, session)
        except ServiceError as error:
            if not error.is_passing:
                raise
        await asyncio.sleep(delay_s(attempt, random.random))
        attempt += 1


def delay_s(attempt: int, draw: Any) -> float:
    """Return how long to wait after a failed attempt.

    The wait is at most 0.2 s at first, then at most 2 s, to reconnect soon after a short outage.
    After about two minutes, it is at most 20 s.
    """
    most = 2.0 if attempt < 80 else 20.0
    return min(most, 0.2 * 2.0 ** min(attempt, 10)) * (0.5 + 0.5 * float(draw()))
