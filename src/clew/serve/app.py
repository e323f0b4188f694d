"""The server's HTTP application: its routes, the checks before each, and viewers' requests.

`/v1/entries` (`entries`) is clew's own API: transcripts, line by line. `/v1/code/sessions`
implements the bridge protocol of the Agent SDK for TypeScript: a worker (`workers`) uploads frames
and reads viewers' messages; a viewer reads frames and sends prompts and answers. The application can
be mounted in another Starlette application.

Described in docs/using/serve.md.
"""

import asyncio
import contextlib
import secrets
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TypeAlias, TypeVar

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute

from clew.serve import devices, log
from clew.serve.access import (
    LOOPBACK,
    DeviceRates,
    Failures,
    ProxyUsers,
    bearer_of,
    check_origin,
    check_single,
)
from clew.serve.database import Database, Transaction
from clew.serve.devices import Device
from clew.serve.entries import EntryRoutes
from clew.serve.feed import Feed
from clew.serve.frames import now_ms, scope_of, sent_event, show_session
from clew.serve.log import RefusedError, StoredEvent
from clew.serve.pairing import Pairings
from clew.serve.push.delivery import PushDelivery, PushNetwork
from clew.serve.push.subscriptions import PushRoutes
from clew.serve.requests import (
    EVENTS_MAX_BYTES,
    list_in,
    parse_object,
    parse_uuid,
    read_cursor,
    read_session_id,
    refuse,
)
from clew.serve.sockets import ViewerSockets
from clew.serve.streams import EventStream, read_frames
from clew.serve.web.pages import WebPages
from clew.serve.web.shares import Shares, check_share
from clew.serve.web.shelf import Shelf
from clew.serve.workers import WorkerRoutes

MOST_SESSIONS = 500
# Revoked devices lose their streams within this time.
REVOCATION_S = 1.0
# The key of a request's scope with the address of the actual sender, such as the proxy.
PEER = "clew.peer"
Answer: TypeAlias = Callable[[Request], Awaitable[Response]]
Handler: TypeAlias = Callable[[Device, Request], Awaitable[Response]]
Found = TypeVar("Found")


class SessionServer:
    """The session server's application. `hosts` are the host names that it accepts."""

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
        pushes: PushNetwork | None = None,
    ) -> None:
        """Create the application. Without `pushes`, browsers can't subscribe."""
        self._database = database
        self._shelf = shelf
        self._users = users
        # Headers that decide who sent a request.
        self._single = ("authorization", "origin", *([users.header] if users else ()))
        self._proxies = frozenset(proxies)
        self._rates = DeviceRates() if rates is None else rates
        self._pushes: PushDelivery | None = None
        self._push_routes: list[Route] = []
        if pushes is not None:
            self._pushes = PushDelivery(database, pushes)
            self._push_routes = PushRoutes(database, pushes.allowed).routes(self._for_device)
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

    async def send_pushes(self) -> None:
        """Send pushes about open questions until cancelled."""
        if self._pushes is not None:
            await self._pushes.run()

    def _note_question(self, session: str, request_id: str) -> None:
        if self._pushes is not None:
            self._pushes.note(session, request_id)

    def close_streams(self) -> None:
        """End all streams, so that the server can stop."""
        self._feed.close_all()

    def _routes(self) -> list[BaseRoute]:
        code = "/v1/code/sessions"
        device = self._for_device
        return [
            Route("/v1/health", self._checked(self._health), methods=["GET"]),
            *EntryRoutes(self._database).routes(device),
            Route("/v1/devices", device(self._list_devices, "admin"), methods=["GET"]),
            Route("/v1/devices/{device}", device(self._revoke, "admin"), methods=["DELETE"]),
            *Pairings(self._database, self._failures).routes(self._checked, device),
            *WebPages(self._database, self._feed, EventStream, self._shelf).routes(
                self._checked, device
            ),
            *Shares(self._database).routes(device),
            *self._push_routes,
            # the bridge protocol
            Route(code, device(self._list_sessions, "view"), methods=["GET"]),
            Route(code, device(self._create_session, "start"), methods=["POST"]),
            Route(code + "/{session}", device(self._show_session, "view"), methods=["GET"]),
            Route(code + "/{session}/bridge", device(self._bridge, "start"), methods=["POST"]),
            Route(code + "/{session}/events", device(self._send, ""), methods=["POST"]),
            Route(code + "/{session}/events/stream", device(self._stream, "view"), methods=["GET"]),
            WebSocketRoute(code + "/{session}/events/socket", self._sockets.serve),
            *WorkerRoutes(
                self._database, self._feed, self._find_credential, self._note_question
            ).routes(code + "/{session}/worker", self._checked),
        ]

    # -- the checks

    async def _health(self, _: Request) -> Response:
        return JSONResponse({"status": "ok"})

    def _checked(self, handler: Answer) -> Answer:
        """Check the host and origin of a request, and turn refusals into responses."""

        async def handle(request: Request) -> Response:
            try:
                check_single(request.headers, self._single)
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
        """Look up a token; return None for an invalid one.

        An invalid token is recorded as a failure of its sender only.
        """
        address, now_s = request.client.host if request.client else "", time.monotonic()
        self._failures.check(token, now_s)
        credential = await self._database.look(find) if token else None
        if credential is None:
            self._failures.note(token, address, now_s)
        return credential

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

    # -- viewers

    async def _stream(self, device: Device, request: Request) -> Response:
        session, token = read_session_id(request), bearer_of(request.headers)
        await self._database.look(partial(log.find_session, session=session, owner=device.owner))
        after = read_cursor(request)

        def is_allowed(transaction: Transaction) -> bool:
            # Users identified by a proxy have no token to revoke.
            return not token or devices.find_device(transaction, token) is not None

        subscriber = self._feed.open(session, device.id)
        return EventStream(
            read_frames(self._database, self._feed, subscriber, after, "", is_allowed)
        )

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
                raise RefusedError(
                    400, "invalid_request", "the payload of an event must be a JSON object"
                )
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
