"""Devices with access to the server, and stored files, as operations of a transaction.

Sessions and transcripts belong to an owner. A device sees and changes only those of its owner.
"""

import hashlib
import re
from collections.abc import Sequence

from msgspec import Struct

from clew.core.json_object import Json
from clew.serve.database import Transaction
from clew.serve.frames import now_ms
from clew.serve.log import OWNER, RefusedError, hash_secret

SEALED = re.compile(r"sealed-[0-9a-f]{64}")
SCOPES = ("view", "answer", "prompt", "start", "admin")


class Device(Struct, frozen=True, kw_only=True):
    """A device that was identified by its token."""

    id: str
    name: str
    owner: str
    scopes: frozenset[str]
    # The session of a link; empty for a device.
    session: str = ""

    def require(self, scope: str) -> None:
        if scope not in self.scopes:
            raise RefusedError(403, "missing_scope", f"this device lacks the scope {scope!r}")


def add_device(
    transaction: Transaction,
    device: str,
    name: str,
    token: str,
    scopes: Sequence[str],
    now_ms: int,
    owner: str = OWNER,
) -> None:
    transaction.run(
        "INSERT INTO device (id, name, token, scopes, created_at, owner) VALUES (?, ?, ?, ?, ?, ?)",
        device,
        name,
        hash_secret(token),
        ",".join(scopes),
        now_ms,
        owner,
    )


def find_device(transaction: Transaction, token: str) -> Device | None:
    """Return the device or link with this token; None if it was revoked or has expired."""
    rows = transaction.run(
        "SELECT id, name, owner, scopes FROM device WHERE token=? AND revoked_at IS NULL",
        hash_secret(token),
    )
    if not rows:
        return find_share(transaction, token)
    device, name, owner, scopes = rows[0]
    return Device(id=device, name=name, owner=owner, scopes=frozenset(scopes.split(",")))


def find_share(transaction: Transaction, token: str) -> Device | None:
    rows = transaction.run(
        "SELECT id, name, owner, scopes, session FROM share"
        " WHERE token=? AND revoked_at IS NULL AND expires_at>=?",
        hash_secret(token),
        now_ms(),
    )
    if not rows:
        return None
    share, name, owner, scopes, session = rows[0]
    granted = frozenset(scopes.split(","))
    return Device(id=share, name=name, owner=owner, scopes=granted, session=session)


def list_devices(transaction: Transaction, owner: str = "") -> list[Json]:
    return [
        {"id": row[0], "name": row[1], "owner": row[2], "scopes": row[3].split(",")}
        for row in transaction.run(
            "SELECT id, name, owner, scopes FROM device WHERE revoked_at IS NULL"
            " AND (owner=? OR ?='') ORDER BY created_at, id",
            owner,
            owner,
        )
    ]


def list_revoked(transaction: Transaction, since: int) -> list[str]:
    """Return the devices that were revoked since a time."""
    return [row[0] for row in transaction.run("SELECT id FROM device WHERE revoked_at>=?", since)]


def revoke_device(transaction: Transaction, device: str, now_ms: int, owner: str = "") -> None:
    """Revoke a device. With `owner`, other owners' devices are not found."""
    rows = transaction.run(
        "SELECT 1 FROM device WHERE id=? AND revoked_at IS NULL AND (owner=? OR ?='')",
        device,
        owner,
        owner,
    )
    if not rows:
        raise RefusedError(404, "not_found", f"device not found: {device}")
    transaction.run("UPDATE device SET revoked_at=? WHERE id=?", now_ms, device)
    transaction.run("DELETE FROM worker WHERE device=?", device)


def put_blob(transaction: Transaction, name: str, body: bytes) -> None:
    # The name of a sealed file can't be computed from the bytes that the server receives.
    if not SEALED.fullmatch(name) and hashlib.sha256(body).hexdigest() != name:
        raise RefusedError(
            400, "wrong_hash", "the SHA-256 of the body differs from the one in the URL"
        )
    transaction.run("INSERT INTO blob VALUES (?, ?) ON CONFLICT DO NOTHING", name, body)


def get_blob(transaction: Transaction, name: str) -> bytes:
    """Return a file.

    A client that knows a file's hash already knows its content, so files have no owner.
    """
    rows = transaction.run("SELECT body FROM blob WHERE sha256=?", name)
    if not rows:
        raise RefusedError(404, "not_found", f"blob not found: {name}")
    return bytes(rows[0][0])
