"""The server's HTTP application: its routes, and the checks before each.

`/v1/entries` is clew's own API: transcripts, line by line. `/v1/code/sessions` implements the
bridge protocol of the Agent SDK for TypeScript: a worker uploads frames and reads viewers'
messages; a viewer reads frames and sends prompts and answers. The application can be mounted in
another Starlette application.

Described in docs/using/serve.md.
"""

import asyncio
import contextlib
import secrets
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import Receive, Scope, Send

from clew.serve import devices, log
from clew.serve.access import (
    LOOPBACK,
    DeviceRates,
    Failures,
    ProxyUsers,
    bearer_of,
    check_origin,
)
from clew.serve.database import Database, Transaction
from clew.serve.devices import Device
from clew.serve.feed import Feed, Subscriber
from clew.serve.frames import (
    delivery_frame,
    ephemeral_frame,
    event_frame,
    now_ms,
    scope_of,
    sent_event,
    show_session,
)
from clew.serve.log import LoggedEvent, RefusedError, StoredEvent
from clew.serve.pairing import Pairings
from clew.serve.requests import (
    BODY_MAX_BYTES,
    EVENTS_MAX_BYTES,
    entry_key,
    list_in,
    parse_number,
    parse_object,
    parse_project,
    parse_uuid,
    read_body,
    read_cursor,
    read_session_id,
    refuse,
    split_lines,
)
from clew.serve.sockets import ViewerSockets
from clew.serve.web.pages import WebPages
from clew.serve.web.shares import Shares, check_share
from clew.serve.web.shelf import Shelf

# Proxies close idle connections, and the published viewer gives up after 45 s.
SILENCE_S = 15.0
# A reader that reads nothing for this long is disconnected. It can resume where it stopped.
STALLED_S = 30.0
HEARTBEAT_S = 20
PAGE = 200
PAGE_LINES = 500
MOST_SESSIONS = 500
# Revoked devices lose their streams within this time.
REVOCATION_S = 1.0
# The key of a request's scope with the address of the actual sender, such as the proxy.
PEER = "clew.peer"
Answer: TypeAlias = Callable[[Request], Awaitable[Response]]
Handler: TypeAlias = Callable[[Device, Request], Awaitable[Response]]
Found = TypeVar("Found")


class PatientStream(StreamingResponse):
    """A response that ends if the client stops reading."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_soon(message: Any) -> None:
            async with asyncio.timeout(STALLED_S):
                await send(message)

        with contextlib.suppress(TimeoutError):
            await super().__call__(scope, receive, send_soon)


class EventStream(PatientStream):
    """A response of server-sent events."""

    def __init__(self, content: AsyncIterator[bytes]) -> None:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(content, media_type="text/event-stream", headers=headers)


class SessionServer:
    """The application. `hosts` are the host names that it accepts."""

    def __init__(
        self,
        database: Database,
        *,
        hosts: Iterable[str],
        public_url: str = "",
        shelf: Shelf | None = None,
        users: ProxyUsers | None = None,
        proxies: Iterable[str] = LOOPBACK,
        rates: DeviceRates | None = None,
    ) -> None:
        self._database = database
        self._shelf = shelf
        self._users = users
        self._proxies = frozenset(proxies)
        self._rates = DeviceRates() if rates is None else rates
        self._hosts = frozenset(host.lower() for host in hosts)
        self._public_url = public_url
        self._feed = Feed()
        self._failures = Failures()
        database.listen(self._feed.changed)
        self._sockets = ViewerSockets(
            database, self._feed, self._failures, self._hosts, self._store
        )
        self.app = Starlette(routes=self._routes())

    async def end_revoked(self) -> None:
        """End the streams of revoked devices, until cancelled."""
        since = now_ms()
        while True:
            await asyncio.sleep(REVOCATION_S)
            find = partial(devices.list_revoked, since=since - 2_000)
            with contextlib.suppress(RefusedError):  # The database is unavailable.
                for device in await self._database.look(find):
                    self._feed.close_device(device)
                since = now_ms()

    def close_streams(self) -> None:
        """End all streams, so that the server can stop."""
        self._feed.close_all()

    def _routes(self) -> list[BaseRoute]:
        code = "/v1/code/sessions"
        worker = code + "/{session}/worker"
        device = self._for_device
        return [
            Route("/v1/health", self._checked(self._health), methods=["GET"]),
            # clew's own API
            Route("/v1/entries", device(self._read_entries, "view"), methods=["GET"]),
            Route("/v1/entries", device(self._append_entries, "start"), methods=["POST"]),
            Route("/v1/entries", device(self._delete_entries, "admin"), methods=["DELETE"]),
            Route("/v1/entries/keys", device(self._list_entries, "view"), methods=["GET"]),
            Route("/v1/blobs/{name}", device(self._get_blob, "view"), methods=["GET"]),
            Route("/v1/blobs/{name}", device(self._put_blob, "start"), methods=["PUT"]),
            Route("/v1/devices", device(self._list_devices, "admin"), methods=["GET"]),
            Route("/v1/devices/{device}", device(self._revoke, "admin"), methods=["DELETE"]),
            *Pairings(self._database, self._failures).routes(self._checked, device),
            *WebPages(self._database, self._feed, EventStream, self._shelf).routes(
                self._checked, device
            ),
            *Shares(self._database).routes(device),
            # the bridge protocol
            Route(code, device(self._list_sessions, "view"), methods=["GET"]),
            Route(code, device(self._create_session, "start"), methods=["POST"]),
            Route(code + "/{session}", device(self._show_session, "view"), methods=["GET"]),
            Route(code + "/{session}/bridge", device(self._bridge, "start"), methods=["POST"]),
            Route(code + "/{session}/events", device(self._send, ""), methods=["POST"]),
            Route(code + "/{session}/events/stream", device(self._stream, "view"), methods=["GET"]),
            WebSocketRoute(code + "/{session}/events/socket", self._sockets.serve),
            Route(worker, self._for_worker(self._get_state), methods=["GET"]),
            Route(worker, self._for_worker(self._put_state), methods=["PUT"]),
            Route(worker + "/register", self._for_worker(self._register), methods=["POST"]),
            Route(worker + "/heartbeat", self._for_worker(self._beat), methods=["POST"]),
            Route(worker + "/events", self._for_worker(self._upload), methods=["POST"]),
            Route(worker + "/events/delivery", self._for_worker(self._deliver), methods=["POST"]),
            Route(worker + "/events/stream", self._for_worker(self._inbox), methods=["GET"]),
        ]

    # -- the checks

    async def _health(self, _: Request) -> Response:
        return JSONResponse({"status": "ok"})

    def _checked(self, handler: Answer) -> Answer:
        """Check the host and origin of a request, and turn refusals into responses."""

        async def handle(request: Request) -> Response:
            try:
                check_origin(request.headers, self._hosts)
                return await handler(request)
            except RefusedError as error:
                return refuse(error)
            except ClientDisconnect:
                return Response(status_code=400)

        return handle

    def _for_device(self, handler: Handler, scope: str) -> Answer:
        async def handle(request: Request) -> Response:
            device = await self._identify(request)
            check_share(device, request)
            if scope:
                device.require(scope)
            return await handler(device, request)

        return self._checked(handle)

    async def _identify(self, request: Request) -> Device:
        token = bearer_of(request.headers)
        if self._users is not None and not token:
            peer = str(request.scope.get(PEER, ""))
            if user := self._users.find(request.headers, peer, self._proxies):
                return Device(id=user, name=user, owner=user, scopes=self._users.scopes)
        find = partial(devices.find_device, token=token)
        device = await self._find_credential(request, token, find)
        if device is None:
            raise RefusedError(401, "authentication_error", "a valid bearer token is required")
        return device

    async def _find_credential(
        self, request: Request, token: str, find: Callable[[Transaction], Found | None]
    ) -> Found | None:
        """Look up a token. An invalid one counts as a failure of its sender only."""
        address, now_s = request.client.host if request.client else "", time.monotonic()
        self._failures.check(token, now_s)
        credential = await self._database.look(find) if token else None
        if credential is None:
            self._failures.note(token, address, now_s)
        return credential

    def _for_worker(self, handler: Callable[[str, str, Request], Awaitable[Response]]) -> Answer:
        """Pass a worker's session and token to a handler."""

        async def handle(request: Request) -> Response:
            session, token = read_session_id(request), bearer_of(request.headers)
            await self._worker_epochs(request, session, token)
            return await handler(session, token, request)

        return self._checked(handle)

    async def _worker_epochs(self, request: Request, session: str, token: str) -> tuple[int, int]:
        """Return the epochs of a worker's token and of its session."""
        find = partial(log.find_worker, session=session, token=token, now_ms=now_ms())
        epochs = await self._find_credential(request, token, find)
        if epochs is None:
            raise RefusedError(401, "authentication_error", "the worker's token is invalid")
        return epochs

    # -- transcripts

    async def _read_entries(self, device: Device, request: Request) -> Response:
        key = entry_key(device, request)
        after = parse_number(request, "after", 0)
        count, chain = await self._database.look(partial(log.find_transcript, key=key))
        if not count:
            raise RefusedError(404, "not_found", "no entries with this key")
        headers = {"clew-lines": str(count), "clew-chain": chain.hex()}
        if "at" in request.query_params:
            # The hash of the first lines, with which a worker finds where copies diverge.
            at = parse_number(request, "at", 0)
            chain_hash = await self._database.look(partial(log.chain_at, key=key, count=at))
            return JSONResponse(
                {
                    "lines": count,
                    "chain": chain.hex(),
                    "chain_at": None if chain_hash is None else chain_hash.hex(),
                }
            )
        return PatientStream(
            self._lines(key, after, count), media_type="application/x-ndjson", headers=headers
        )

    async def _lines(
        self, key: tuple[str, str, str], after: int, count: int
    ) -> AsyncIterator[bytes]:
        while after < count:
            limit = min(PAGE_LINES, count - after)
            page = await self._database.read(
                partial(log.read_lines, key=key, after=after, limit=limit)
            )
            if not page:  # Deleted in the meantime.
                return
            after += len(page)
            yield b"".join(page)

    async def _append_entries(self, device: Device, request: Request) -> Response:
        """Append lines after a position; without one, append those with new UUIDs."""
        key = entry_key(device, request)
        lines = split_lines(await read_body(request, BODY_MAX_BYTES))
        epoch = request.headers.get("clew-epoch")
        at = parse_number(request, "at", 0) if "at" in request.query_params else None
        append = partial(
            log.append_lines,
            key=key,
            lines=lines,
            at=at,
            epoch=int(epoch) if epoch is not None and epoch.isdecimal() else None,
            now_ms=now_ms(),
        )
        count, chain = await self._database.write(append)
        return JSONResponse({"lines": count, "chain": chain.hex()})

    async def _delete_entries(self, device: Device, request: Request) -> Response:
        project, session, agent = entry_key(device, request)
        delete = partial(
            log.delete_transcripts, project=project, session=session, agent=agent or None
        )
        await self._database.write(delete)
        return Response(status_code=204)

    async def _list_entries(self, device: Device, request: Request) -> Response:
        project, session = parse_project(device, request), request.query_params.get("session", "")
        rows = await self._database.read(
            partial(log.list_transcripts, project=project, session=session)
        )
        return JSONResponse(
            [
                {"session": name, "subpath": agent, "lines": lines, "mtime": at}
                for name, agent, lines, at in rows
            ]
        )

    async def _put_blob(self, _: Device, request: Request) -> Response:
        body = await read_body(request, BODY_MAX_BYTES)
        put = partial(devices.put_blob, name=request.path_params["name"], body=body)
        await self._database.write(put)
        return Response(status_code=204)

    async def _get_blob(self, _: Device, request: Request) -> Response:
        get = partial(devices.get_blob, name=request.path_params["name"])
        return Response(await self._database.read(get), media_type="application/octet-stream")

    async def _list_devices(self, device: Device, _: Request) -> Response:
        list_all = partial(devices.list_devices, owner=device.owner)
        return JSONResponse({"data": await self._database.read(list_all)})

    async def _revoke(self, device: Device, request: Request) -> Response:
        name = request.path_params["device"]
        revoke = partial(devices.revoke_device, device=name, owner=device.owner, now_ms=now_ms())
        await self._database.write(revoke)
        self._feed.close_device(name)
        return Response(status_code=204)

    # -- sessions

    async def _list_sessions(self, device: Device, request: Request) -> Response:
        kind = log.HOST if request.query_params.get("kind") == log.HOST else ""
        sessions = await self._database.read(
            partial(log.list_sessions, owner=device.owner, limit=MOST_SESSIONS, kind=kind)
        )
        return JSONResponse({"data": [show_session(session) for session in sessions]})

    async def _show_session(self, device: Device, request: Request) -> Response:
        find = partial(log.find_session, session=read_session_id(request), owner=device.owner)
        return JSONResponse({"session": show_session(await self._database.look(find))})

    async def _create_session(self, device: Device, request: Request) -> Response:
        body = await parse_object(request)
        wanted = body.get("session_id")
        session = str(uuid.uuid4()) if wanted is None else parse_uuid(wanted)
        title, config = body.get("title"), body.get("config")
        create = partial(
            log.create_session,
            session=session,
            title=title[:500] if isinstance(title, str) else "",
            config=config if isinstance(config, dict) else {},
            now_ms=now_ms(),
            owner=device.owner,
        )
        await self._database.write(create)
        find = partial(log.find_session, session=session, owner=device.owner)
        return JSONResponse({"session": show_session(await self._database.look(find))})

    async def _bridge(self, device: Device, request: Request) -> Response:
        session, body = read_session_id(request), await parse_object(request)
        await self._database.look(partial(log.find_session, session=session, owner=device.owner))
        token, worker = secrets.token_urlsafe(32), body.get("worker_id")
        epoch = await self._database.write(
            partial(
                log.register_worker,
                session=session,
                token=token,
                expected=body.get("expected_epoch"),
                now_ms=now_ms(),
                device=device.id,
                worker=worker[:100] if isinstance(worker, str) else "",
            )
        )
        return JSONResponse(
            {
                "worker_jwt": token,
                "api_base_url": self._public_url or str(request.base_url).rstrip("/"),
                "expires_in": log.TOKEN_MS // 1000,
                "worker_epoch": epoch,
            }
        )

    # -- the worker

    async def _register(self, session: str, token: str, _: Request) -> Response:
        register = partial(
            log.register_worker, session=session, token=token, expected=None, now_ms=now_ms()
        )
        return JSONResponse({"worker_epoch": await self._database.write(register)})

    async def _get_state(self, session: str, _token: str, _: Request) -> Response:
        row = await self._database.look(partial(log.find_session, session=session))
        return JSONResponse({"worker": row["state"] | {"worker_epoch": row["worker_epoch"]}})

    async def _put_state(self, session: str, _token: str, request: Request) -> Response:
        patch = await parse_object(request)
        epoch = patch.pop("worker_epoch", None)
        put = partial(log.merge_state, session=session, epoch=epoch, patch=patch, now_ms=now_ms())
        await self._database.write(put)
        return JSONResponse({})

    async def _beat(self, session: str, _token: str, request: Request) -> Response:
        body = await parse_object(request)
        at = 0 if body.get("release_lease") is True else now_ms()
        beat = partial(log.beat, session=session, epoch=body.get("worker_epoch"), now_ms=at)
        await self._database.write(beat)
        return JSONResponse({"heartbeat_interval_seconds": HEARTBEAT_S})

    async def _upload(self, session: str, _token: str, request: Request) -> Response:
        body = await parse_object(request, EVENTS_MAX_BYTES)
        epoch, durable = body.get("worker_epoch"), []
        passing = []
        for item in list_in(body, "events"):
            payload = item.get("payload")
            if not isinstance(payload, dict) or not isinstance(payload.get("type"), str):
                raise RefusedError(400, "invalid_request", "an event has no payload with a type")
            if item.get("ephemeral") is True:
                passing.append(payload)
            elif payload["type"] != "keep_alive":
                durable.append(sent_event(payload))
        append = partial(
            log.append_events,
            session=session,
            source="worker",
            events=durable,
            by="worker",
            epoch=epoch,
            now_ms=now_ms(),
        )
        stored = await self._database.write(append)
        for payload in passing:
            self._feed.pass_on(session, ephemeral_frame(payload), payload)
        return JSONResponse(
            {
                "has_subscribers": self._feed.has_viewers(session),
                "results": [
                    {"event_id": event.id, "duplicate": event.is_duplicate} for event in stored
                ],
            }
        )

    async def _deliver(self, session: str, _token: str, request: Request) -> Response:
        body = await parse_object(request)
        updates = []
        for item in list_in(body, "updates"):
            event_id, status = item.get("event_id"), item.get("status")
            if isinstance(event_id, str) and status in log.STATES:
                updates.append((event_id, str(status)))
        deliver = partial(
            log.mark_delivered,
            session=session,
            epoch=body.get("worker_epoch"),
            updates=updates,
            now_ms=now_ms(),
        )
        await self._database.write(deliver)
        for event_id, status in updates:
            self._feed.pass_on(session, delivery_frame(event_id, status))
        return JSONResponse({})

    async def _inbox(self, session: str, token: str, request: Request) -> Response:
        epoch, current = await self._worker_epochs(request, session, token)
        if epoch != current:
            raise RefusedError(
                409, "superseded_by_worker", "another worker has taken over this session"
            )
        device = await self._database.look(partial(log.find_worker_device, token=token))
        after = read_cursor(request)

        def is_allowed(transaction: Transaction) -> bool:
            return log.find_worker(transaction, session, token, now_ms()) == (epoch, epoch)

        subscriber = self._feed.open(session, "", worker_of=device)
        return EventStream(self._frames(subscriber, after, "client", is_allowed))

    # -- viewers

    async def _stream(self, device: Device, request: Request) -> Response:
        session, token = read_session_id(request), bearer_of(request.headers)
        await self._database.look(partial(log.find_session, session=session, owner=device.owner))
        after = read_cursor(request)

        def is_allowed(transaction: Transaction) -> bool:
            # Users identified by a proxy have no token to revoke.
            return not token or devices.find_device(transaction, token) is not None

        subscriber = self._feed.open(session, device.id)
        return EventStream(self._frames(subscriber, after, "", is_allowed))

    async def _frames(
        self,
        subscriber: Subscriber,
        after: int,
        source: str,
        is_allowed: Callable[[Transaction], bool],
    ) -> AsyncIterator[bytes]:
        """Yield the events after a number, then new ones as long as the reader has access.

        Questions that have an answer are omitted, so that a new viewer is not asked again.
        """
        session = subscriber.session

        def read(transaction: Transaction) -> tuple[list[LoggedEvent], set[int]] | None:
            if not is_allowed(transaction):
                return None
            events = log.read_events(transaction, session, after, PAGE, source)
            is_asked = any(event.kind == "control_request" for event in events)
            return events, log.closed_questions(transaction, session) if is_asked else set()

        try:
            yield b": connected\n\n"
            while not subscriber.is_closed:
                passing = subscriber.take()
                batch = await self._database.read(read)
                if batch is None:
                    return
                events, closed = batch
                frames = [*passing, *(event_frame(e) for e in events if e.seq not in closed)]
                if events:
                    after = events[-1].seq
                if frames:
                    yield b"".join(frames)
                if len(events) == PAGE:
                    continue
                if not await subscriber.wait(SILENCE_S):
                    yield b": alive\n\n"
        except RefusedError:
            return  # The database is unavailable. The reader resumes after its last number.
        finally:
            self._feed.close(subscriber)

    async def _send(self, device: Device, request: Request) -> Response:
        session, body = read_session_id(request), await parse_object(request, EVENTS_MAX_BYTES)
        await self._database.look(partial(log.find_session, session=session, owner=device.owner))
        payloads = [item.get("payload") for item in list_in(body, "events")]
        stored = await self._store(device, session, payloads)
        return JSONResponse(
            {
                "results": [
                    {"event_id": event.id, "duplicate": event.is_duplicate}
                    | ({"answered_by": event.answered_by} if event.answered_by else {})
                    for event in stored
                ]
            }
        )

    async def _store(
        self, device: Device, session: str, payloads: Sequence[object]
    ) -> list[StoredEvent]:
        """Store a viewer's messages, if its device may send them."""
        self._rates.take(device.id, time.monotonic())
        events = []
        for payload in payloads:
            if not isinstance(payload, dict):
                raise RefusedError(400, "invalid_request", "an event has no payload")
            device.require(scope_of(payload))
            payload.pop("ccr_event", None)
            events.append(sent_event(payload))
        append = partial(
            log.append_events,
            session=session,
            source="client",
            events=events,
            by=device.name,
            now_ms=now_ms(),
        )
        return await self._database.write(append)
