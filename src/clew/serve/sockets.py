"""The WebSocket for viewers: a session's events as JSON lines, and the viewer's messages.

Event numbers, scopes and limits are the same as in streams of server-sent events. Browsers can't
send a token in a header of a WebSocket, so the first line may be an `auth` message with the token.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

from clew.core.json_object import Json, object_of
from clew.serve import devices, log
from clew.serve.access import Failures, bearer_of, check_origin
from clew.serve.database import Database, Transaction
from clew.serve.devices import Device
from clew.serve.feed import Feed, Subscriber
from clew.serve.frames import SESSION_PREFIX
from clew.serve.log import LoggedEvent, RefusedError
from clew.serve.requests import EVENTS_MAX_BYTES, parse_uuid
from clew.serve.streams import SILENCE_S, STALLED_S

AUTH_S = 10.0
PAGE = 200
REFUSED, TOO_LARGE, GOING_AWAY = 1008, 1009, 1001
KEEP_ALIVE = b'{"type":"keep_alive"}\n'


class ViewerSockets:
    """The WebSocket endpoint. `store` stores viewers' messages."""

    def __init__(
        self,
        database: Database,
        feed: Feed,
        failures: Failures,
        hosts: frozenset[str],
        store: Callable[[Device, str, list[Json]], Awaitable[object]],
    ) -> None:
        self._database = database
        self._feed = feed
        self._failures = failures
        self._hosts = hosts
        self._store = store

    async def serve(self, socket: WebSocket) -> None:
        try:
            check_origin(socket.headers, self._hosts)
        except RefusedError:
            await socket.close(REFUSED)  # Before the handshake, closing sends status 403.
            return
        await socket.accept()
        try:
            await self._serve(socket)
        except RefusedError as error:
            await socket.close(REFUSED, str(error)[:120])
        except TimeoutError:
            await socket.close(REFUSED, "no token was sent in time")
        except WebSocketDisconnect:
            return

    async def _serve(self, socket: WebSocket) -> None:
        token = bearer_of(socket.headers)
        waiting = b""
        if not token:
            async with asyncio.timeout(AUTH_S):
                first, _, waiting = (await receive(socket)).partition(b"\n")
            token = str(object_of(read(first).get("credential")).get("token", ""))
        device = await self._identify(socket, token)
        device.require("view")
        session = parse_uuid(str(socket.path_params["session"]).removeprefix(SESSION_PREFIX))
        if device.session not in ("", session):
            raise RefusedError(403, "other_session", "this link gives access to only one session")
        await self._database.look(partial(log.find_session, session=session, owner=device.owner))
        after = socket.query_params.get("from_sequence_num", "0")
        subscriber = self._feed.open(session, device.id)
        try:
            async with asyncio.TaskGroup() as group:
                number = int(after) if after.isdecimal() and len(after) <= 15 else 0
                sending = self._send(socket, subscriber, token, number)
                group.create_task(sending)
                group.create_task(self._receive(socket, device, session, waiting))
        except* (RefusedError, WebSocketDisconnect) as failures:
            raise failures.exceptions[0] from None
        finally:
            self._feed.close(subscriber)

    async def _identify(self, socket: WebSocket, token: str) -> Device:
        address, now_s = socket.client.host if socket.client else "", time.monotonic()
        self._failures.check(token, now_s)
        find = partial(devices.find_device, token=token)
        device = await self._database.look(find) if token else None
        if device is None:
            self._failures.note(token, address, now_s)
            raise RefusedError(401, "authentication_error", "a valid bearer token is required")
        return device

    async def _receive(
        self, socket: WebSocket, device: Device, session: str, waiting: bytes
    ) -> None:
        """Store the viewer's messages, line by line."""
        while True:
            *lines, waiting = waiting.split(b"\n")
            frames = [frame for line in lines if (frame := read(line))]
            payloads = [
                frame for frame in frames if frame.get("type") not in ("keep_alive", "auth")
            ]
            if payloads:
                await self._store(device, session, payloads)
            waiting += await receive(socket)
            if len(waiting) > EVENTS_MAX_BYTES:
                raise RefusedError(413, "too_large", "the message is too large")

    async def _send(
        self, socket: WebSocket, subscriber: Subscriber, token: str, after: int
    ) -> None:
        session = subscriber.session

        def look(transaction: Transaction) -> tuple[list[LoggedEvent], set[int]] | None:
            if devices.find_device(transaction, token) is None:
                return None
            events = log.read_events(transaction, session, after, PAGE)
            is_asked = any(event.kind == "control_request" for event in events)
            return events, log.closed_questions(transaction, session) if is_asked else set()

        while not subscriber.is_closed:
            passing = subscriber.take_payloads()
            batch = await self._database.read(look)
            if batch is None:
                raise RefusedError(401, "authentication_error", "the token was revoked")
            events, closed = batch
            lines = [*passing, *(show(event) for event in events if event.seq not in closed)]
            after = events[-1].seq if events else after
            if lines:
                await send(socket, b"".join(lines))
            if len(events) < PAGE and not await subscriber.wait(SILENCE_S):
                await send(socket, KEEP_ALIVE)
        await socket.close(GOING_AWAY)
        raise WebSocketDisconnect(GOING_AWAY)


def show(event: LoggedEvent) -> bytes:
    """Return a line with the frame and its number, after which a viewer can resume."""
    numbered = {"event_id": event.id, "sequence_num": event.seq, "source": event.source}
    payload = object_of(msgspec.json.decode(event.body)) | {"ccr_event": numbered}
    return msgspec.json.encode(payload) + b"\n"


async def receive(socket: WebSocket) -> bytes:
    message = await socket.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(int(message.get("code", 1005)))
    text = message.get("text")
    return str(text).encode() if text is not None else bytes(message.get("bytes") or b"")


async def send(socket: WebSocket, lines: bytes) -> None:
    try:
        async with asyncio.timeout(STALLED_S):
            await socket.send_text(lines.decode("utf-8", "replace"))
    except TimeoutError:
        raise RefusedError(408, "too_slow", "the viewer stopped reading") from None


def read(line: bytes) -> Json:
    try:
        return object_of(msgspec.json.decode(line))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
