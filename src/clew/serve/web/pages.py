"""The requests of the page: lists, history from the end, and one stream for all that changes.

A browser opens few connections to a server, so the page has one stream: the numbered events of the
session that it shows, and news of the list. The numbers are the truth: what the page was not told
while it was away, it asks for by the last number that it has.

Described in docs/using/serve.md.
"""

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
from clew.serve.requests import parse_number, parse_uuid, read_session_id
from clew.serve.web import lists
from clew.serve.web.assets import send_asset

Answer: TypeAlias = Callable[[Request], Awaitable[Response]]
Handler: TypeAlias = Callable[[Device, Request], Awaitable[Response]]

# How often a silent stream says that it is alive. The page calls what it shows old soon after.
SILENCE_S = 5.0
# News of other sessions is sent at most this often.
LIST_S = 1.0
PAGE = 200
MOST_SESSIONS = 500
SHORTEST_SEARCH = 2


class SessionNews(Struct, frozen=True, kw_only=True):
    """What is new in a session since a number: `last` is the number of the last event."""

    shown: list[Json] = []
    count: int = 0
    last: int = 0
    session: Json = {}


class WebPages:
    """The page of one server. `respond` makes a response from a stream of bytes."""

    def __init__(
        self, database: Database, feed: Feed, respond: Callable[[AsyncIterator[bytes]], Response]
    ) -> None:
        self._database = database
        self._feed = feed
        self._respond = respond
        self._present: dict[str, Counter[str]] = {}
        self._lists: dict[str, tuple[float, list[Json]]] = {}

    def routes(
        self, checked: Callable[[Answer], Answer], for_device: Callable[[Handler, str], Answer]
    ) -> list[Route]:
        asset = checked(send_asset)
        one = "/v1/web/sessions/{session}"
        return [
            Route("/", asset, methods=["GET"]),
            Route("/web/{name}", asset, methods=["GET"]),
            Route("/v1/web/me", for_device(self._me, "view"), methods=["GET"]),
            Route("/v1/web/sessions", for_device(self._list, "view"), methods=["GET"]),
            Route(one + "/events", for_device(self._read_page, "view"), methods=["GET"]),
            Route("/v1/web/stream", for_device(self._stream, "view"), methods=["GET"]),
            Route("/v1/web/search", for_device(self._search, "view"), methods=["GET"]),
        ]

    async def _me(self, device: Device, _: Request) -> Response:
        return JSONResponse({"id": device.id, "name": device.name, "scopes": sorted(device.scopes)})

    async def _list(self, device: Device, _: Request) -> Response:
        return JSONResponse({"data": await self._read_list(device)})

    async def _read_list(self, device: Device) -> list[Json]:
        """Return the list, read at most once in a while for all viewers of an owner."""
        kept = self._lists.get(device.owner)
        if kept is not None and time.monotonic() - kept[0] < LIST_S / 2:
            return kept[1]
        read = partial(lists.list_all, owner=device.owner, limit=MOST_SESSIONS)
        found = await self._database.read(read)
        self._lists[device.owner] = (time.monotonic(), found)
        return found

    async def _search(self, device: Device, request: Request) -> Response:
        words = request.query_params.get("q", "").strip()
        if len(words) < SHORTEST_SEARCH:
            raise RefusedError(400, "invalid_request", "q: expected at least two characters")
        search = partial(lists.search_events, owner=device.owner, words=words)
        return JSONResponse({"data": await self._database.read(search)})

    async def _read_page(self, device: Device, request: Request) -> Response:
        """Send the last events before a number, and with none, the open questions too."""
        session, limit = read_session_id(request), parse_number(request, "limit", PAGE)
        before = parse_number(request, "before", 0)

        def read(transaction: Transaction) -> Json:
            shown = lists.show_one(transaction, session, device.owner)
            last = int(shown["last_sequence_num"])
            events = lists.read_before(transaction, session, before or last + 1, limit)
            asked = [] if before else lists.read_open_questions(transaction, session)
            return {
                "session": shown,
                "events": lists.show_events(transaction, session, events),
                "questions": lists.show_events(transaction, session, asked),
                "first": events[0].seq if events else 0,
                "last": last,
                "more": bool(events) and events[0].seq > 1,
            }

        return Response(
            msgspec.json.encode(await self._database.read(read)), media_type="application/json"
        )

    # -- the stream

    async def _stream(self, device: Device, request: Request) -> Response:
        named = request.query_params.get("session", "")
        session = parse_uuid(named) if named else ""
        if session:
            find = partial(log.find_session, session=session, owner=device.owner)
            await self._database.read(find)
        after = parse_number(request, "after", 0)
        return self._respond(self._frames(device, bearer_of(request.headers), session, after))

    async def _frames(
        self, device: Device, token: str, session: str, after: int
    ) -> AsyncIterator[bytes]:
        """Yield the events of a session after a number, and the list whenever it changes."""
        subscriber = self._feed.open(session, device.id)
        self._note_presence(session, device.name, 1)
        told: dict[str, Any] = {}
        listed_at, sent_at = -LIST_S, time.monotonic()
        try:
            while not subscriber.is_closed:
                frames = subscriber.take()
                read = partial(self._read_news, token=token, session=session, after=after)
                news = await self._database.read(read)
                if news is None:
                    return
                frames += [named_frame("event", about) for about in news.shown]
                after = max(after, news.last)
                named: dict[str, Any] = {"hello": {"last": news.last}}
                if session:
                    named["session"] = news.session
                    named["presence"] = sorted(self._present.get(session, ()))
                if time.monotonic() - listed_at >= LIST_S:
                    listed_at = time.monotonic()
                    named["sessions"] = await self._read_list(device)
                for name, value in named.items():
                    if told.get(name) != value:
                        told[name] = value
                        frames.append(named_frame(name, value))
                if not frames and time.monotonic() - sent_at >= SILENCE_S:
                    frames.append(b": alive\n\n")
                if frames:
                    sent_at = time.monotonic()
                    yield b"".join(frames)
                if news.count < PAGE:
                    await subscriber.wait(LIST_S)
        finally:
            self._note_presence(session, device.name, -1)
            self._feed.close(subscriber)

    def _read_news(
        self, transaction: Transaction, *, token: str, session: str, after: int
    ) -> SessionNews | None:
        """Return what is new in a session; None for a revoked token."""
        device = devices.find_device(transaction, token)
        if device is None:
            return None
        if not session:
            return SessionNews()
        events = log.read_events(transaction, session, after, PAGE)
        return SessionNews(
            shown=lists.show_events(transaction, session, events),
            count=len(events),
            last=events[-1].seq if events else after,
            session=lists.show_one(transaction, session, device.owner),
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
        self._feed.changed(session)


def named_frame(name: str, value: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(value))
