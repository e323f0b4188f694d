"""The server's storage as operations of a transaction: sessions, workers, events, questions.

Five invariants hold for any input in any order, here and in `transcripts`. The server only copies
what a worker has on its disk. A duplicate line or event changes nothing; a different one in its
place is refused. Older epochs are refused everywhere. Each event is numbered once, in commit order,
and the first answer to a question wins. A reader receives every event after a given number.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from clew.core.json_object import Json
from clew.core.messages.errors import ClewError
from clew.serve.database import Transaction

Source: TypeAlias = Literal["worker", "client", "server"]

# A worker without a heartbeat for this long is shown as disconnected.
LEASE_MS = 60_000
TOKEN_MS = 4 * 60 * 60 * 1000
# The kind of session that represents a machine on which sessions can be started.
HOST = "host"
# The default owner of devices.
OWNER = "owner"


class RefusedError(ClewError):
    """The server refuses a request. `status` is the HTTP status, `reason` an error code."""

    def __init__(self, status: int, reason: str, message: str, **about: object) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.about = about


class LoggedEvent(Struct, frozen=True, kw_only=True):
    """A stored frame of a session. `body` is the JSON as received."""

    seq: int
    id: str
    source: str
    kind: str
    body: bytes
    created_at_ms: int
    status: str
    sender: str = ""


class SentEvent(Struct, frozen=True, kw_only=True):
    """A frame to store. `asks` or `answers` is the ID of the question that it asks or closes.

    With `is_failure`, its viewer can't answer, and the question stays open for the others.
    """

    id: str
    kind: str
    body: bytes
    asks: str = ""
    answers: str = ""
    is_failure: bool = False


class StoredEvent(Struct, frozen=True, kw_only=True):
    """The result of storing a frame.

    `answered_by` names the device that answered the question first.
    """

    id: str
    seq: int
    is_duplicate: bool = False
    answered_by: str = ""


def hash_secret(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


# -- sessions and workers


def create_session(
    transaction: Transaction,
    session: str,
    title: str,
    config: Json,
    now_ms: int,
    owner: str = OWNER,
) -> None:
    """Create a session, unless it exists."""
    transaction.run(
        "INSERT INTO session VALUES (?, ?, ?, 0, 0, '{}', 0, ?, ?, ?, ?, '')"
        " ON CONFLICT (id) DO NOTHING",
        session,
        title,
        json.dumps(config),
        now_ms,
        now_ms,
        owner,
        HOST if config.get("kind") == HOST else "",
    )


def find_session(transaction: Transaction, session: str, owner: str = "") -> Json:
    """Return a session. With `owner`, other owners' sessions are not found."""
    rows = transaction.run(
        "SELECT title, config, epoch, last_seq, state, beat_at, created_at, updated_at"
        " FROM session WHERE id=? AND (owner=? OR ?='')",
        session,
        owner,
        owner,
    )
    if not rows:
        raise RefusedError(404, "not_found", f"session not found: {session}")
    title, config, epoch, last_seq, state, beat_at, created_at, updated_at = rows[0]
    return {
        "id": session,
        "title": title,
        "config": json.loads(config),
        "worker_epoch": int(epoch),
        "last_sequence_num": int(last_seq),
        "state": json.loads(state),
        "beat_at": int(beat_at),
        "created_at": int(created_at),
        "updated_at": int(updated_at),
    }


def list_sessions(transaction: Transaction, owner: str, limit: int, kind: str = "") -> list[Json]:
    """Return an owner's sessions or, with the kind `HOST`, the machines that start sessions."""
    rows = transaction.run(
        "SELECT id FROM session WHERE owner=? AND kind=? ORDER BY updated_at DESC LIMIT ?",
        owner,
        kind,
        limit,
    )
    return [find_session(transaction, row[0]) for row in rows]


def require_epoch(transaction: Transaction, session: str, epoch: object) -> None:
    """Refuse a worker that another one has replaced."""
    rows = transaction.run("SELECT epoch FROM session WHERE id=?", session)
    current = int(rows[0][0]) if rows else 0
    if epoch != current:
        raise RefusedError(
            409,
            "superseded_by_worker",
            f"the worker's epoch is {epoch}, but the session's is {current}",
            expected_epoch=epoch,
            actual_epoch=current,
        )


def register_worker(
    transaction: Transaction,
    session: str,
    token: str,
    expected: object,
    now_ms: int,
    device: str = "",
    worker: str = "",
) -> int:
    """Register a worker with this token, and return its epoch.

    The epoch is new, unless the worker names itself and already holds the session: repeating a
    registration does not change the epoch. The token is valid as long as the device that requested
    it.
    """
    transaction.lock(session)
    epoch = int(find_session(transaction, session)["worker_epoch"])
    [[holder]] = transaction.run("SELECT worker FROM session WHERE id=?", session)
    if not worker or worker != holder:
        if expected is not None:
            require_epoch(transaction, session, expected)
        epoch += 1
    transaction.run(
        "UPDATE session SET epoch=?, worker=?, beat_at=?, updated_at=? WHERE id=?",
        epoch,
        worker,
        now_ms,
        now_ms,
        session,
    )
    transaction.run("DELETE FROM worker WHERE expires_at<?", now_ms)
    transaction.run(
        "INSERT INTO worker VALUES (?, ?, ?, ?, ?) ON CONFLICT (token) DO UPDATE"
        " SET epoch=excluded.epoch",
        hash_secret(token),
        session,
        epoch,
        now_ms + TOKEN_MS,
        device,
    )
    transaction.notify(session)
    return epoch


def find_worker(
    transaction: Transaction, session: str, token: str, now_ms: int
) -> tuple[int, int] | None:
    """Return the epochs of a worker's token and of its session, or None for an invalid token."""
    rows = transaction.run(
        "SELECT worker.epoch, session.epoch FROM worker JOIN session ON session.id=worker.session"
        " WHERE worker.token=? AND worker.session=? AND worker.expires_at>=?",
        hash_secret(token),
        session,
        now_ms,
    )
    return (int(rows[0][0]), int(rows[0][1])) if rows else None


def find_worker_device(transaction: Transaction, token: str) -> str:
    """Return the device for which a worker's token was created."""
    rows = transaction.run("SELECT device FROM worker WHERE token=?", hash_secret(token))
    return str(rows[0][0]) if rows else ""


def beat(transaction: Transaction, session: str, epoch: object, now_ms: int) -> None:
    require_epoch(transaction, session, epoch)
    transaction.run("UPDATE session SET beat_at=? WHERE id=?", now_ms, session)


def merge_state(
    transaction: Transaction, session: str, epoch: object, patch: Json, now_ms: int
) -> Json:
    """Merge a patch (RFC 7396) into the state that the worker reports, and return the state."""
    transaction.lock(session)
    require_epoch(transaction, session, epoch)
    state: Json = merge(find_session(transaction, session)["state"], patch)
    transaction.run(
        "UPDATE session SET state=?, updated_at=?, beat_at=? WHERE id=?",
        json.dumps(state),
        now_ms,
        now_ms,
        session,
    )
    return state


def merge(value: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    merged = dict(value) if isinstance(value, dict) else {}
    for name, part in patch.items():
        if part is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), part)
    return merged


# -- events


def append_events(
    transaction: Transaction,
    session: str,
    source: Source,
    events: Sequence[SentEvent],
    *,
    by: str,
    epoch: object = None,
    now_ms: int,
) -> list[StoredEvent]:
    """Number and store frames; duplicates are not stored again.

    If a different frame has the ID of a stored one, nothing is stored. A worker may echo a viewer's
    frame in another form.
    """
    transaction.lock(session)
    if source == "worker":
        require_epoch(transaction, session, epoch)
    last = int(find_session(transaction, session)["last_sequence_num"])
    stored = []
    for event in events:
        rows = transaction.run(
            "SELECT seq, source, body FROM event WHERE session=? AND id=?", session, event.id
        )
        if rows:
            is_echo = source == "worker" and rows[0][1] == "client"
            if not is_echo and not is_same(bytes(rows[0][2]), event.body):
                message = f"another event already has the ID {event.id}"
                raise RefusedError(422, "event_differs", message, event_id=event.id)
            stored.append(StoredEvent(id=event.id, seq=int(rows[0][0]), is_duplicate=True))
            continue
        if event.answers:
            answered_by = answer(transaction, session, event, source, by, now_ms)
            if answered_by:
                stored.append(StoredEvent(id=event.id, seq=0, answered_by=answered_by))
                continue
        last += 1
        transaction.run(
            "INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?, '', ?)",
            session,
            last,
            event.id,
            source,
            event.kind,
            event.body,
            now_ms,
            by if source == "client" else "",
        )
        if event.asks:
            transaction.run(
                "INSERT INTO question VALUES (?, ?, ?, '', '', 0)"
                " ON CONFLICT (session, request) DO NOTHING",
                session,
                event.asks,
                last,
            )
        stored.append(StoredEvent(id=event.id, seq=last))
    transaction.run("UPDATE session SET last_seq=?, updated_at=? WHERE id=?", last, now_ms, session)
    transaction.notify(session)
    return stored


def has_event(transaction: Transaction, session: str, event_id: str) -> bool:
    """Return whether the log of a session has an event."""
    query = "SELECT 1 FROM event WHERE session=? AND id=?"
    return bool(transaction.run(query, session, event_id))


def is_same(body: bytes, other: bytes) -> bool:
    return body == other or bool(msgspec.json.decode(body) == msgspec.json.decode(other))


def answer(
    transaction: Transaction, session: str, event: SentEvent, source: Source, by: str, now_ms: int
) -> str:
    """Record the answer to a worker's question, or its withdrawal.

    Return the device that answered first, or "no such question". Return an empty string if the
    question was still open, and always to a worker.
    """
    rows = transaction.run(
        "SELECT answer, answered_by FROM question WHERE session=? AND request=?",
        session,
        event.answers,
    )
    if not rows:
        # A viewer can answer only questions. A worker also answers viewers' requests.
        return "" if source == "worker" else "no such question"
    if rows[0][0]:
        return "" if source == "worker" else str(rows[0][1])
    if event.is_failure:
        return ""
    transaction.run(
        "UPDATE question SET answer=?, answered_by=?, answered_at=? WHERE session=? AND request=?",
        event.id,
        by,
        now_ms,
        session,
        event.answers,
    )
    return ""


def read_events(
    transaction: Transaction, session: str, after: int, limit: int, source: str = ""
) -> list[LoggedEvent]:
    rows = transaction.run(
        "SELECT seq, id, source, kind, body, created_at, status, sender FROM event"
        " WHERE session=? AND seq>? AND (source=? OR ?='') ORDER BY seq LIMIT ?",
        session,
        after,
        source,
        source,
        limit,
    )
    return [
        LoggedEvent(
            seq=int(row[0]),
            id=row[1],
            source=row[2],
            kind=row[3],
            body=bytes(row[4]),
            created_at_ms=int(row[5]),
            status=row[6],
            sender=row[7],
        )
        for row in rows
    ]


def closed_questions(transaction: Transaction, session: str) -> set[int]:
    """Return the numbers of the answered questions."""
    rows = transaction.run("SELECT seq FROM question WHERE session=? AND answer<>''", session)
    return {int(row[0]) for row in rows}


STATES = ("received", "processing", "processed")


def mark_delivered(
    transaction: Transaction,
    session: str,
    epoch: object,
    updates: Sequence[tuple[str, str]],
    now_ms: int,
) -> None:
    """Record the worker's progress with viewers' events. A state never regresses."""
    transaction.lock(session)
    beat(transaction, session, epoch, now_ms)
    for event_id, status in updates:
        earlier = STATES[: STATES.index(status)]
        marks = ", ".join("?" * (len(earlier) + 1))
        transaction.run(
            f"UPDATE event SET status=? WHERE session=? AND id=? AND status IN ({marks})",
            status,
            session,
            event_id,
            "",
            *earlier,
        )
