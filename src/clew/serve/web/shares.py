"""Links to one session, with permissions and an expiry time.

A link is a token like a device's, but for one session. It expires, can be revoked, and never
permits more than the device that created it. Using it for anything else is refused before a handler
runs.
"""

import secrets
import uuid
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from clew.core.json_object import Json
from clew.serve import log
from clew.serve.database import Database, Transaction
from clew.serve.devices import Device
from clew.serve.frames import SESSION_PREFIX, now_ms
from clew.serve.log import RefusedError, hash_secret
from clew.serve.requests import parse_object, parse_uuid, read_session_id

Answer: TypeAlias = Callable[[Request], Awaitable[Response]]
Handler: TypeAlias = Callable[[Device, Request], Awaitable[Response]]

RIGHTS = ("view", "answer", "prompt")
HOUR_MS = 3_600_000
MOST_HOURS = 24 * 30
NAME_CHARACTERS, NOTE_CHARACTERS = 60, 1_000
# Routes that a link opens in addition to its session's: both show only that session.
SHARED_PATHS = frozenset({"/v1/web/me", "/v1/web/sessions"})


def check_share(device: Device, request: Request) -> None:
    """Refuse a link's token for anything except its session and `SHARED_PATHS`."""
    session_id = request.path_params.get("session") or request.query_params.get("session", "")
    is_list = not session_id and request.url.path == "/v1/web/stream"
    if not device.session or is_list or request.url.path in SHARED_PATHS:
        return
    if not session_id or parse_uuid(session_id.removeprefix(SESSION_PREFIX)) != device.session:
        raise RefusedError(403, "other_session", "this link gives access to only one session")


def add_share(
    transaction: Transaction, session: str, device: Device, share: Json, token: str, note: str
) -> None:
    """Store a link, and add a notice about it to the session."""
    log.find_session(transaction, session, device.owner)
    transaction.run(
        "INSERT INTO share VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL)",
        share["id"],
        session,
        device.owner,
        hash_secret(token),
        share["name"],
        ",".join(share["scopes"]),
        device.name,
        share["expires_at_ms"],
    )
    rights = ", ".join(share["scopes"])
    words = f"{device.name} shared this session with {share['name']} ({rights})"
    tell(transaction, session, f"{words}: {note}" if note else words)


def tell(transaction: Transaction, session: str, words: str) -> None:
    """Add a notice from the server to a session's log."""
    name = str(uuid.uuid4())
    notice = {"type": "system", "subtype": "informational", "level": "notice", "uuid": name}
    sent = log.SentEvent(
        id=name, kind="system", body=msgspec.json.encode(notice | {"content": words})
    )
    log.append_events(transaction, session, "server", [sent], by="server", now_ms=now_ms())


def list_shares(transaction: Transaction, session: str, owner: str, at_ms: int) -> list[Json]:
    rows = transaction.run(
        "SELECT id, name, scopes, made_by, expires_at FROM share WHERE session=? AND owner=?"
        " AND revoked_at IS NULL AND expires_at>=? ORDER BY expires_at",
        session,
        owner,
        at_ms,
    )
    names = ("id", "name", "scopes", "made_by", "expires_at_ms")
    return [dict(zip(names, row, strict=True)) for row in rows]


def revoke_share(transaction: Transaction, session: str, share: str, device: Device) -> None:
    rows = transaction.run(
        "SELECT name FROM share WHERE id=? AND session=? AND owner=? AND revoked_at IS NULL",
        share,
        session,
        device.owner,
    )
    if not rows:
        raise RefusedError(404, "not_found", f"link not found: {share}")
    transaction.run("UPDATE share SET revoked_at=? WHERE id=?", now_ms(), share)
    tell(transaction, session, f"{device.name} revoked the link shared with {rows[0][0]}")


class Shares:
    """The routes for links to a session."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def routes(self, for_device: Callable[[Handler, str], Answer]) -> list[Route]:
        all_of = "/v1/web/sessions/{session}/shares"
        return [
            Route(all_of, for_device(self._list, "view"), methods=["GET"]),
            Route(all_of, for_device(self._add, "view"), methods=["POST"]),
            Route(all_of + "/{share}", for_device(self._revoke, "view"), methods=["DELETE"]),
        ]

    async def _list(self, device: Device, request: Request) -> Response:
        session = read_session_id(request)
        read = partial(list_shares, session=session, owner=device.owner, at_ms=now_ms())
        return JSONResponse({"data": await self._database.read(read)})

    async def _add(self, device: Device, request: Request) -> Response:
        require_own(device)
        session, body = read_session_id(request), await parse_object(request)
        scopes, hours, name = body.get("scopes"), body.get("hours"), body.get("name")
        if not isinstance(scopes, list) or "view" not in scopes or set(scopes) - set(RIGHTS):
            raise RefusedError(
                400,
                "invalid_request",
                f"scopes: expected view and, optionally, {', '.join(RIGHTS[1:])}",
            )
        for scope in scopes:
            device.require(scope)
        if type(hours) is not int or not 1 <= hours <= MOST_HOURS:
            raise RefusedError(
                400, "invalid_request", f"hours: expected an integer from 1 to {MOST_HOURS}"
            )
        if not isinstance(name, str) or not name.strip() or len(name) > NAME_CHARACTERS:
            raise RefusedError(
                400, "invalid_request", f"name: expected 1 to {NAME_CHARACTERS} characters"
            )
        token = secrets.token_urlsafe(32)
        share: Json = {
            "id": uuid.uuid4().hex[:12],
            "name": name.strip(),
            "scopes": [right for right in RIGHTS if right in scopes],
            "expires_at_ms": now_ms() + hours * HOUR_MS,
        }
        note = str(body.get("note") or "").strip()[:NOTE_CHARACTERS]
        add = partial(
            add_share, session=session, device=device, share=share, token=token, note=note
        )
        await self._database.write(add)
        return JSONResponse(share | {"token": token})

    async def _revoke(self, device: Device, request: Request) -> Response:
        require_own(device)
        session, share = read_session_id(request), request.path_params["share"]
        revoke = partial(revoke_share, session=session, share=share, device=device)
        await self._database.write(revoke)
        return Response(status_code=204)


def require_own(device: Device) -> None:
    if device.session:
        raise RefusedError(403, "shared", "a link can't be used to create or revoke links")
