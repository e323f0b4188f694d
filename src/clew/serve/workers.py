"""The routes for workers: their state, uploads and deliveries, and viewers' events.

Each request has a worker's token. Requests from a worker that another one has replaced are refused.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from clew.serve import log
from clew.serve.access import bearer_of
from clew.serve.database import Database, Transaction
from clew.serve.feed import Feed
from clew.serve.frames import delivery_frame, ephemeral_frame, now_ms, sent_event
from clew.serve.log import RefusedError, SentEvent, StoredEvent
from clew.serve.requests import (
    EVENTS_MAX_BYTES,
    list_in,
    parse_object,
    read_cursor,
    read_session_id,
)
from clew.serve.streams import EventStream, read_frames

Answer: TypeAlias = Callable[[Request], Awaitable[Response]]
WorkerHandler: TypeAlias = Callable[[str, str, Request], Awaitable[Response]]
Epochs: TypeAlias = tuple[int, int]
# Looks up the token of a request; an invalid token is recorded as a failure of its sender.
FindWorker: TypeAlias = Callable[
    [Request, str, Callable[[Transaction], Epochs | None]], Awaitable[Epochs | None]
]

HEARTBEAT_S = 20


class WorkerRoutes:
    """The routes for workers."""

    def __init__(
        self,
        database: Database,
        feed: Feed,
        find: FindWorker,
        asked: Callable[[str, str], object],
    ) -> None:
        """Create the routes. `asked` is called with a session and the ID of its new question."""
        self._asked = asked
        self._database = database
        self._feed = feed
        self._find = find

    def routes(self, path: str, checked: Callable[[Answer], Answer]) -> list[Route]:
        def route(end: str, handler: WorkerHandler, method: str) -> Route:
            return Route(path + end, checked(self._for_worker(handler)), methods=[method])

        return [
            route("", self._get_state, "GET"),
            route("", self._put_state, "PUT"),
            route("/register", self._register, "POST"),
            route("/heartbeat", self._beat, "POST"),
            route("/events", self._upload, "POST"),
            route("/events/delivery", self._deliver, "POST"),
            route("/events/stream", self._inbox, "GET"),
        ]

    def _for_worker(self, handler: WorkerHandler) -> Answer:
        """Pass a worker's session and token to a handler."""

        async def handle(request: Request) -> Response:
            session, token = read_session_id(request), bearer_of(request.headers)
            await self._worker_epochs(request, session, token)
            return await handler(session, token, request)

        return handle

    async def _worker_epochs(self, request: Request, session: str, token: str) -> Epochs:
        """Return the epochs of a worker's token and of its session."""
        find = partial(log.find_worker, session=session, token=token, now_ms=now_ms())
        epochs = await self._find(request, token, find)
        if epochs is None:
            raise RefusedError(401, "authentication_error", "the worker's token is invalid")
        return epochs

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
                message = "the payload of an event must be a JSON object with a type"
                raise RefusedError(400, "invalid_request", message)
            if item.get("ephemeral") is True:
                passing.append(payload)
            elif payload["type"] != "keep_alive":
                durable.append(sent_event(payload))
        stored = await self._store(session, epoch, durable)
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

    async def _store(
        self, session: str, epoch: object, events: list[SentEvent]
    ) -> list[StoredEvent]:
        if not events:
            # Frames of a growing answer are not stored: no commit, and viewers have nothing to read.
            require = partial(log.require_epoch, session=session, epoch=epoch)
            await self._database.look(require)
            return []
        append = partial(
            log.append_events,
            session=session,
            source="worker",
            events=events,
            by="worker",
            epoch=epoch,
            now_ms=now_ms(),
        )
        stored = await self._database.write(append)
        for event, result in zip(events, stored, strict=True):
            if event.asks and not result.is_duplicate:
                self._asked(session, event.asks)
        return stored

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
        return EventStream(
            read_frames(self._database, self._feed, subscriber, after, "client", is_allowed)
        )
