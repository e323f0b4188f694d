"""The browsers that want pushes, and the routes with which they subscribe.

The server's key pair is created when the first browser asks for it.
"""

from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from clew.core.json_object import Json, object_of
from clew.serve.database import Database, Transaction
from clew.serve.devices import Device
from clew.serve.log import RefusedError
from clew.serve.push.encryption import (
    SECRET_BYTES,
    decode,
    encode,
    find_public_key,
    is_point,
    make_private_key,
)
from clew.serve.requests import parse_object
from clew.system.transport.addresses import is_admitted, is_literal

Answer: TypeAlias = Callable[[Request], Awaitable[Response]]
Handler: TypeAlias = Callable[[Device, Request], Awaitable[Response]]

# How much of a session a push contains: nothing, its title, or also the question.
DETAILS = ("none", "title", "question")
MOST_CHARACTERS = 2_000


class PushTarget(Struct, frozen=True, kw_only=True):
    """A browser at its push service. `subject` is the address of this server's page."""

    device: str
    endpoint: str
    receiver: str
    secret: str
    detail: str
    subject: str


def read_target(body: Json, device: str, subject: str, allowed: Collection[str]) -> PushTarget:
    """Return a browser's subscription. Refuse one that is malformed or not on the internet."""
    endpoint, keys, detail = body.get("endpoint"), object_of(body.get("keys")), body.get("detail")
    if not isinstance(endpoint, str) or not is_endpoint(endpoint, allowed):
        raise invalid("endpoint", "expected an https:// URL of a push service")
    if detail not in DETAILS:
        raise invalid("detail", f"expected one of {', '.join(DETAILS)}")
    receiver, secret = str(keys.get("p256dh")), str(keys.get("auth"))
    try:
        is_usable = is_point(decode(receiver)) and len(decode(secret)) == SECRET_BYTES
    except ValueError:
        is_usable = False
    if not is_usable:
        raise invalid("keys", "expected p256dh and auth of a push subscription")
    return PushTarget(
        device=device,
        endpoint=endpoint,
        receiver=receiver,
        secret=secret,
        detail=str(detail),
        subject=subject,
    )


def invalid(name: str, words: str) -> RefusedError:
    return RefusedError(400, "invalid_request", f"{name}: {words}")


def is_endpoint(text: str, allowed: Collection[str]) -> bool:
    """Return whether a URL may be a push service. The address is checked when it is resolved."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port or 443
    except ValueError:
        return False
    is_fit = text.isascii() and text.isprintable() and " " not in text
    is_fit = is_fit and parts.scheme == "https" and bool(host) and "@" not in parts.netloc
    is_outside = not is_literal(host) or is_admitted(host, port, host, allowed)
    return is_fit and is_outside and len(text) <= MOST_CHARACTERS


def find_private_key(transaction: Transaction) -> str:
    """Return the server's key, or an empty string."""
    rows = transaction.run("SELECT private FROM push_key")
    return str(rows[0][0]) if rows else ""


def make_key(transaction: Transaction) -> str:
    """Return the server's key; create it if there is none."""
    transaction.lock("push_key")
    if not (private := find_private_key(transaction)):
        private = make_private_key()
        transaction.run("INSERT INTO push_key VALUES (?)", private)
    return private


def save(transaction: Transaction, target: PushTarget, owner: str) -> None:
    if not transaction.run("SELECT 1 FROM device WHERE id=?", target.device):
        raise RefusedError(403, "no_device", "only paired browsers can receive pushes")
    make_key(transaction)
    transaction.run("DELETE FROM push WHERE device=?", target.device)
    transaction.run(
        "INSERT INTO push VALUES (?, ?, ?, ?, ?, ?, ?)",
        target.device,
        owner,
        target.endpoint,
        target.receiver,
        target.secret,
        target.detail,
        target.subject,
    )


def remove(transaction: Transaction, device: str) -> None:
    transaction.run("DELETE FROM push WHERE device=?", device)


def find_detail(transaction: Transaction, device: str) -> str:
    rows = transaction.run("SELECT detail FROM push WHERE device=?", device)
    return str(rows[0][0]) if rows else ""


def list_targets(transaction: Transaction, owner: str) -> list[PushTarget]:
    """Return the browsers of an owner whose access was not revoked."""
    rows = transaction.run(
        "SELECT push.device, endpoint, receiver, secret, detail, subject FROM push"
        " JOIN device ON device.id=push.device WHERE push.owner=? AND device.revoked_at IS NULL",
        owner,
    )
    names = ("device", "endpoint", "receiver", "secret", "detail", "subject")
    return [PushTarget(**dict(zip(names, row, strict=True))) for row in rows]


class PushRoutes:
    """The routes with which a browser subscribes."""

    def __init__(self, database: Database, allowed: Collection[str]) -> None:
        """Create the routes. `allowed` lists the private push services that browsers may name."""
        self._database = database
        self._allowed = allowed

    def routes(self, for_device: Callable[[Handler, str], Answer]) -> list[Route]:
        path = "/v1/web/push"
        return [
            Route(path, for_device(self._show, "view"), methods=["GET"]),
            Route(path, for_device(self._subscribe, "view"), methods=["PUT"]),
            Route(path, for_device(self._unsubscribe, "view"), methods=["DELETE"]),
        ]

    async def _show(self, device: Device, _: Request) -> Response:
        private = await self._database.write(make_key)
        detail = await self._database.read(partial(find_detail, device=device.id))
        return JSONResponse({"key": encode(find_public_key(private)), "detail": detail})

    async def _subscribe(self, device: Device, request: Request) -> Response:
        subject = f"https://{request.url.hostname}"
        target = read_target(await parse_object(request), device.id, subject, self._allowed)
        await self._database.write(partial(save, target=target, owner=device.owner))
        return JSONResponse({"detail": target.detail})

    async def _unsubscribe(self, device: Device, _: Request) -> Response:
        await self._database.write(partial(remove, device=device.id))
        return Response(status_code=204)
