"""Pairing, by which a new device gets its token without the user copying it by hand.

An owner's device opens a pairing under the hash of a secret that the server never sees. The new
device, to which the user has given the secret, claims the pairing with the same hash, and the owner
confirms the device. A pairing expires after two minutes, and returns its token once.
"""

import re
import secrets
import time
import uuid
from collections.abc import Awaitable, Callable
from functools import partial

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from clew.core.json_object import Json
from clew.serve.access import Failures
from clew.serve.database import Database, Transaction
from clew.serve.devices import SCOPES, Device, add_device
from clew.serve.frames import now_ms
from clew.serve.log import RefusedError
from clew.serve.requests import parse_object

PAIRING_MS = 120_000
NAME_CHARACTERS, GIFT_CHARACTERS = 60, 20_000
CLAIM = re.compile(r"[0-9a-f]{64}")

Answer = Callable[[Request], Awaitable[Response]]
Handler = Callable[[Device, Request], Awaitable[Response]]


def open_pairing(
    transaction: Transaction, claim: str, device: Device, scopes: str, at: int
) -> None:
    transaction.run("DELETE FROM pairing WHERE expires_at<?", at)
    transaction.run(
        "INSERT INTO pairing VALUES (?, ?, ?, '', '', '', ?, '') ON CONFLICT (claim) DO NOTHING",
        claim,
        device.owner,
        scopes,
        at + PAIRING_MS,
    )


def find_pairing(transaction: Transaction, claim: str, owner: str, at: int) -> Json:
    """Return a pairing. With `owner`, other owners' pairings are not found."""
    rows = transaction.run(
        "SELECT owner, scopes, name, address, device, gift FROM pairing"
        " WHERE claim=? AND expires_at>=? AND (owner=? OR ?='')",
        claim,
        at,
        owner,
        owner,
    )
    if not rows:
        raise RefusedError(
            404, "not_found", "pairing not found, or expired (pairings are valid for two minutes)"
        )
    names = ("owner", "scopes", "name", "address", "device", "gift")
    return dict(zip(names, rows[0], strict=True))


def claim_pairing(transaction: Transaction, claim: str, name: str, address: str, at: int) -> Json:
    """Record the device that claims a pairing, or return its token once confirmed."""
    transaction.lock(claim)
    pairing = find_pairing(transaction, claim, "", at)
    if pairing["device"]:
        # Created only now, so that the token is never stored.
        token = secrets.token_urlsafe(32)
        scopes = pairing["scopes"].split(",")
        add_device(
            transaction,
            pairing["device"],
            pairing["name"],
            token,
            scopes,
            at,
            owner=pairing["owner"],
        )
        transaction.run("DELETE FROM pairing WHERE claim=?", claim)
        return {"token": token} | {name: pairing[name] for name in ("device", "scopes", "gift")}
    if pairing["name"] and (pairing["name"], pairing["address"]) != (name, address):
        raise RefusedError(409, "claimed", "another device has claimed this pairing")
    transaction.run("UPDATE pairing SET name=?, address=? WHERE claim=?", name, address, claim)
    return {}


def confirm_pairing(
    transaction: Transaction, claim: str, device: Device, name: str, gift: str, at: int
) -> Json:
    """Confirm the device that claimed a pairing under this name.

    If `name` is empty, end the pairing instead.


    `gift` is data that only that device can read.
    """
    transaction.lock(claim)
    pairing = find_pairing(transaction, claim, device.owner, at)
    if not name:
        transaction.run("DELETE FROM pairing WHERE claim=?", claim)
        return {}
    if pairing["name"] != name or pairing["device"]:
        raise RefusedError(
            409, "not_claimed", f"this pairing is not waiting for the device {name!r}"
        )
    device_id = uuid.uuid4().hex[:8]
    transaction.run("UPDATE pairing SET device=?, gift=? WHERE claim=?", device_id, gift, claim)
    return {"device": device_id}


class Pairings:
    """The routes for pairing."""

    def __init__(self, database: Database, failures: Failures) -> None:
        self._database = database
        self._failures = failures

    def routes(
        self, checked: Callable[[Answer], Answer], for_device: Callable[[Handler, str], Answer]
    ) -> list[Route]:
        one = "/v1/pairings/{claim}"
        return [
            Route("/v1/pairings", for_device(self._open, "admin"), methods=["POST"]),
            Route(one, for_device(self._show, "admin"), methods=["GET"]),
            Route(one + "/confirm", for_device(self._confirm, "admin"), methods=["POST"]),
            Route(one + "/claim", checked(self._claim), methods=["POST"]),
        ]

    async def _open(self, device: Device, request: Request) -> Response:
        body = await parse_object(request)
        claim, scopes = str(body.get("claim")), str(body.get("scopes")).split(",")
        if not CLAIM.fullmatch(claim) or not scopes or set(scopes) - set(SCOPES):
            message = "a pairing requires a valid claim and known scopes"
            raise RefusedError(400, "invalid_request", message)
        for scope in scopes:
            device.require(scope)
        await self._database.write(
            partial(open_pairing, claim=claim, device=device, scopes=",".join(scopes), at=now_ms())
        )
        return JSONResponse({})

    async def _show(self, device: Device, request: Request) -> Response:
        find = partial(
            find_pairing, claim=request.path_params["claim"], owner=device.owner, at=now_ms()
        )
        pairing = await self._database.read(find)
        return JSONResponse({name: pairing[name] for name in ("name", "address", "scopes")})

    async def _confirm(self, device: Device, request: Request) -> Response:
        body = await parse_object(request)
        confirm = partial(
            confirm_pairing,
            claim=request.path_params["claim"],
            device=device,
            name=str(body.get("name") or ""),
            gift=str(body.get("gift") or "")[:GIFT_CHARACTERS],
            at=now_ms(),
        )
        return JSONResponse(await self._database.write(confirm))

    async def _claim(self, request: Request) -> Response:
        body, claim = await parse_object(request), request.path_params["claim"]
        address, now_s = request.client.host if request.client else "", time.monotonic()
        name = str(body.get("name") or "")[:NAME_CHARACTERS]
        if not name.isprintable() or not name.strip():
            raise RefusedError(400, "invalid_request", "a device must have a printable name")
        self._failures.check(claim, now_s)
        take = partial(claim_pairing, claim=claim, name=name, address=address, at=now_ms())
        try:
            answer = await self._database.write(take)
        except RefusedError as error:
            if error.status == 404:
                self._failures.note(claim, address, now_s)
            raise
        return JSONResponse(answer, status_code=200 if answer else 202)
