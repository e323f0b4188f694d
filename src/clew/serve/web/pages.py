"""The routes of the page: lists, history from the end, and one stream for all changes.

Browsers limit the connections to a server, so the page has one stream with the numbered events of
the session that it shows and changes of the list. After a lost connection, the page requests the
events after its last number.

Described in docs/using/serve.md.
"""

import asyncio
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from clew.core.json_object import Json
from clew.serve import devices, log
from clew.serve.access import bearer_of
from clew.serve.database import Database, Transaction
from clew.serve.devices import Device
from clew.serve.feed import Feed
from clew.serve.log import RefusedError
from clew.serve.requests import parse_number, parse_object, parse_uuid, read_session_id
from clew.serve.web import lists
from clew.serve.web.assets import send_asset
from clew.serve.web.shelf import Shelf

Answer: TypeAlias = Callable[[Request], Awaitable[Response]]
Handler: TypeAlias = Callable[[Device, Request], Awaitable[Response]]

# The interval of keep-alive messages. Soon after one is missing, the page shows its age.
SILENCE_S = 5.0
# The shortest interval between updates about other sessions.
LIST_S = 1.0
# How long what one viewer read of a session is used for its other viewers.
SHARED_S = 0.1
# How often a transcript file is checked for changes.
FILE_S = 0.25
PLACE = re.compile(r"|\d{1,15}(:[\w-]{1,64})?")
PAGE = 200
MOST_SESSIONS = 500
SHORTEST_SEARCH = 2


class SessionNews(Struct, frozen=True, kw_only=True):
    """The events of a session after a number. `last` is the number of the last event."""

    shown: list[Json] = []
    count: int = 0
    last: int = 0
    session: Json = {}


class SharedNews:
    """What was last read of a session, for all viewers that wait for the same events."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._key: tuple[str, int, int] | None = None
        self._read_at = 0.0
        self._news = SessionNews()

    async def read(
        self, owner: str, after: int, feed: Feed, read: Callable[[], Awaitable[SessionNews]]
    ) -> SessionNews:
        """Return the news after a number; call `read` unless they were just read."""
        async with self._lock:
            key = (owner, after, feed.changes)
            if key != self._key or time.monotonic() - self._read_at > SHARED_S:
                self._news = await read()
                self._key, self._read_at = key, time.monotonic()
            return self._news


class WebPages:
    """The page of one server. `respond` creates a response from a stream of bytes.

    With a shelf, the page also shows the shelf's sessions, each from its transcript unless a worker
    has opened the session.
    """

    def __init__(
        self,
        database: Database,
        feed: Feed,
        respond: Callable[[AsyncIterator[bytes]], Response],
        shelf: Shelf | None = None,
    ) -> None:
        self._shelf = shelf
        self._database = database
        self._feed = feed
        self._respond = respond
        self._present: dict[str, Counter[str]] = {}
        self._lists: dict[str, tuple[float, list[Json]]] = {}
        self._shared: dict[str, SharedNews] = {}

    def routes(
        self, checked: Callable[[Answer], Answer], for_device: Callable[[Handler, str], Answer]
    ) -> list[Route]:
        asset = checked(send_asset)
        one = "/v1/web/sessions/{session}"
        return [
            Route("/", asset, methods=["GET"]),
            Route("/web/{name}", asset, methods=["GET"]),
            Route("/web/{folder}/{name}", asset, methods=["GET"]),
            Route("/v1/web/me", for_device(self._me, "view"), methods=["GET"]),
            Route("/v1/web/sessions", for_device(self._list, "view"), methods=["GET"]),
            Route(one + "/events", for_device(self._read_page, "view"), methods=["GET"]),
            Route("/v1/web/stream", for_device(self._stream, "view"), methods=["GET"]),
            Route("/v1/web/sessions", for_device(self._start, "start"), methods=["POST"]),
            Route("/v1/web/folders", for_device(self._list_folders, "start"), methods=["GET"]),
            Route(one + "/host", for_device(self._host, "prompt"), methods=["POST"]),
            Route(one + "/fork", for_device(self._fork, "start"), methods=["POST"]),
            Route(one + "/branches", for_device(self._branches, "view"), methods=["GET"]),
            Route("/v1/web/search", for_device(self._search, "view"), methods=["GET"]),
        ]

    async def _me(self, device: Device, _: Request) -> Response:
        return JSONResponse(
            {
                "id": device.id,
                "name": device.name,
                "scopes": sorted(device.scopes),
                "has_shelf": self._shelf is not None,
                "session": device.session,
            }
        )

    async def _list(self, device: Device, _: Request) -> Response:
        return JSONResponse({"data": await self._read_list(device)})

    async def _read_list(self, device: Device) -> list[Json]:
        sessions = await self._read_whole_list(device)
        if device.session:
            return [session for session in sessions if session["session_id"] == device.session]
        return sessions

    async def _read_whole_list(self, device: Device) -> list[Json]:
        """Return the list of sessions, cached for a short time for all viewers of an owner."""
        cached = self._lists.get(device.owner)
        if cached is not None and time.monotonic() - cached[0] < LIST_S / 2:
            return cached[1]
        read = partial(lists.list_all, owner=device.owner, limit=MOST_SESSIONS)
        sessions = await self._database.read(read)
        if self._shelf is not None:
            open_now = [s for s in sessions if s["connection_status"] == "connected"]
            open_ids = {session["session_id"] for session in open_now}
            others = await self._shelf.list_sessions()
            sessions = open_now + [s for s in others if s["session_id"] not in open_ids]
        self._lists[device.owner] = (time.monotonic(), sessions)
        return sessions

    async def _search(self, device: Device, request: Request) -> Response:
        words = request.query_params.get("q", "").strip()
        if len(words) < SHORTEST_SEARCH:
            raise RefusedError(400, "invalid_request", "q: expected at least two characters")
        if self._shelf is not None:
            return JSONResponse({"data": await self._shelf.search(words)})
        search = partial(lists.search_events, owner=device.owner, words=words)
        return JSONResponse({"data": await self._database.read(search)})

    async def _read_page(self, device: Device, request: Request) -> Response:
        """Send the last events before a number. If none is given, send the open questions too."""
        session, limit = read_session_id(request), parse_number(request, "limit", PAGE)
        if (shelf := await self._find_shelf(session, device)) is not None:
            place = request.query_params.get("before", "")
            if not PLACE.fullmatch(place):
                raise RefusedError(400, "invalid_request", f"before: invalid position {place!r}")
            return JSONResponse(await shelf.read_page(session, place, min(limit, PAGE)))
        before = parse_number(request, "before", 0)

        def read(transaction: Transaction) -> Json:
            details = lists.show_one(transaction, session, device.owner)
            last = int(details["last_sequence_num"])
            events = lists.read_before(transaction, session, before or last + 1, limit)
            questions = [] if before else lists.read_open_questions(transaction, session)
            return {
                "session": details,
                "events": lists.show_events(transaction, session, events),
                "questions": lists.show_events(transaction, session, questions),
                "first": events[0].seq if events else 0,
                "last": last,
                "more": bool(events) and events[0].seq > 1,
            }

        return Response(
            msgspec.json.encode(await self._database.read(read)), media_type="application/json"
        )

    async def _find_shelf(self, session: str, device: Device) -> Shelf | None:
        """Return the shelf if it, and not the log, should provide a session; otherwise None."""
        if self._shelf is None or not self._shelf.has(session):
            return None
        show = partial(lists.show_one, session=session, owner=device.owner)
        try:
            details = await self._database.read(show)
        except RefusedError:
            return self._shelf
        return None if details["connection_status"] == "connected" else self._shelf

    def _require_shelf(self) -> Shelf:
        if self._shelf is None:
            raise RefusedError(
                404,
                "not_found",
                "this server does not give access to the sessions stored on its machine",
            )
        return self._shelf

    async def _list_folders(self, _device: Device, _request: Request) -> Response:
        return JSONResponse({"data": await self._require_shelf().list_folders()})

    async def _start(self, _device: Device, request: Request) -> Response:
        folder = str((await parse_object(request)).get("folder"))
        return JSONResponse({"session_id": await self._require_shelf().start(folder)})

    async def _host(self, device: Device, request: Request) -> Response:
        session = read_session_id(request)
        if (shelf := await self._find_shelf(session, device)) is not None:
            await shelf.host(session)
        return JSONResponse({})

    async def _fork(self, _device: Device, request: Request) -> Response:
        body = await parse_object(request)
        shelf, session = self._require_shelf(), read_session_id(request)
        is_before = body.get("before") is True
        fork = await shelf.fork(session, str(body.get("uuid")), is_before=is_before)
        self._lists.clear()
        return JSONResponse(fork)

    async def _branches(self, _device: Device, request: Request) -> Response:
        branches = await self._require_shelf().read_branches(read_session_id(request))
        return JSONResponse({"data": branches})

    # -- the stream

    async def _stream(self, device: Device, request: Request) -> Response:
        name = request.query_params.get("session", "")
        session = parse_uuid(name) if name else ""
        shelf = await self._find_shelf(session, device) if session else None
        if session and shelf is None:
            find = partial(log.find_session, session=session, owner=device.owner)
            await self._database.read(find)
        after = parse_number(request, "after", 0)
        return self._respond(
            self._frames(device, bearer_of(request.headers), session, after, shelf)
        )

    async def _frames(
        self, device: Device, token: str, session: str, after: int, shelf: Shelf | None
    ) -> AsyncIterator[bytes]:
        """Yield a session's events after a number, and the list whenever it changes."""
        subscriber = self._feed.open(session, device.id)
        self._note_presence(session, device.name, 1)
        sent: dict[str, Any] = {}
        listed_at, read_at, sent_at = -LIST_S, -LIST_S, time.monotonic()
        is_behind = True
        try:
            while not subscriber.is_closed:
                frames, has_news = subscriber.take(), subscriber.take_news() or is_behind
                if frames and not has_news and time.monotonic() - read_at < LIST_S:
                    # Only an answer grows; the log has nothing new.
                    sent_at = time.monotonic()
                    yield b"".join(frames)
                    await subscriber.wait(LIST_S)
                    continue
                read_at = time.monotonic()
                find = partial(devices.find_device, token=token)
                if token and await self._database.look(find) is None:
                    return
                if shelf is not None:
                    news = await self._read_shelf(shelf, session, after, device)
                elif session:
                    news = await self._read_shared(session, after, device)
                else:
                    news = SessionNews()
                frames += [named_frame("event", about) for about in news.shown]
                after = max(after, news.last)
                state: dict[str, Any] = {"hello": {"last": news.last}}
                if session:
                    state["session"] = news.session
                    state["presence"] = sorted(self._present.get(session, ()))
                if time.monotonic() - listed_at >= LIST_S:
                    listed_at = time.monotonic()
                    state["sessions"] = await self._read_list(device)
                for name, value in state.items():
                    if sent.get(name) != value:
                        sent[name] = value
                        frames.append(named_frame(name, value))
                if not frames and time.monotonic() - sent_at >= SILENCE_S:
                    frames.append(b": alive\n\n")
                if frames:
                    sent_at = time.monotonic()
                    yield b"".join(frames)
                is_behind = news.count == PAGE or shelf is not None
                if news.count < PAGE:
                    await subscriber.wait(LIST_S if shelf is None else FILE_S)
        finally:
            self._note_presence(session, device.name, -1)
            self._feed.close(subscriber)

    async def _read_shelf(
        self, shelf: Shelf, session: str, after: int, device: Device
    ) -> SessionNews:
        """Return a transcript's new events. If a worker has opened it, make the page reload."""
        news = await shelf.read_news(session, after)
        details = await shelf.show_session(session)
        if news.is_other or await self._find_shelf(session, device) is None:
            details["origin"] = "another"
        return SessionNews(
            shown=news.events, count=len(news.events), last=news.last, session=details
        )

    async def _read_shared(self, session: str, after: int, device: Device) -> SessionNews:
        read = partial(self._read_news, session=session, after=after, owner=device.owner)
        shared = self._shared.setdefault(session, SharedNews())
        return await shared.read(device.owner, after, self._feed, lambda: self._database.read(read))

    def _read_news(
        self, transaction: Transaction, *, session: str, after: int, owner: str
    ) -> SessionNews:
        """Return the new events of a session."""
        events = log.read_events(transaction, session, after, PAGE)
        return SessionNews(
            shown=lists.show_events(transaction, session, events),
            count=len(events),
            last=events[-1].seq if events else after,
            session=lists.show_one(transaction, session, owner),
        )

    def _note_presence(self, session: str, name: str, change: int) -> None:
        if not session:
            return
        names = self._present.setdefault(session, Counter())
        names[name] += change
        if names[name] <= 0:
            del names[name]
        if not names:
            del self._present[session]
            self._shared.pop(session, None)
        self._feed.changed(session)


def named_frame(name: str, value: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(value))
