"""Copies of transcripts as operations of a transaction: lines, their positions and their chain.

The first part of a transcript's key is its owner and, for entries of Agent SDK programs, the
project. The invariants are those of `log`.
"""

import hashlib
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from clew.core.messages.text import format_count
from clew.serve.database import Transaction
from clew.serve.log import RefusedError, find_session, require_epoch

NO_LINES = bytes(32)


def extend_chain(chain: bytes, line: bytes) -> bytes:
    """Return the hash of all lines up to `line`; `chain` is the hash of the lines before."""
    return hashlib.sha256(chain + line).digest()


def make_project(owner: str, project: str = "") -> str:
    """Return the first part of a transcript's key. Owners' names contain no colon."""
    return f"{owner}:{project}"


def owner_of(project: str) -> str:
    return project.partition(":")[0]


def append_lines(
    transaction: Transaction,
    key: tuple[str, str, str],
    lines: Sequence[bytes],
    *,
    at: int | None,
    epoch: int | None,
    now_ms: int,
) -> tuple[int, bytes]:
    """Append lines after the first `at` lines; return the total number of lines and their hash.

    Lines that are already stored must be identical. If `at` is None, lines whose UUIDs are already
    stored are skipped.
    """
    transaction.lock("/".join(key))
    project, session, agent = key
    if epoch is not None:
        find_session(transaction, session, owner_of(project))
        require_epoch(transaction, session, epoch)
    count, chain = find_transcript(transaction, key)
    if at is None:
        return append_new(transaction, key, lines, count, chain, now_ms)
    if at > count:
        missing = format_count(at - count, "earlier line is", "earlier lines are")
        raise refuse_lines(count, chain, "gap", f"{missing} missing")
    stored = read_lines(transaction, key, at, len(lines)) if at < count else []
    if stored != list(lines[: len(stored)]):
        raise refuse_lines(count, chain, "differs", "the lines differ from the stored lines")
    new = lines[len(stored) :]
    rows = []
    uuids: set[str] = set()
    for number, line in enumerate(new, count + 1):
        chain = extend_chain(chain, line)
        uuid = uuid_of(line)
        # A repeated entry is kept, but its UUID refers to the first one.
        name = None if uuid is None or uuid in uuids else uuid
        uuids |= {uuid} if uuid is not None else set()
        rows.append((project, session, agent, number, name, line, chain))
    repeated = find_uuids(transaction, key, sorted(uuids))
    rows = [(*row[:4], None if row[4] in repeated else row[4], *row[5:]) for row in rows]
    insert_lines(transaction, key, rows, count + len(new), chain, now_ms)
    return count + len(new), chain


def append_new(
    transaction: Transaction,
    key: tuple[str, str, str],
    lines: Sequence[bytes],
    count: int,
    chain: bytes,
    now_ms: int,
) -> tuple[int, bytes]:
    """Append the lines whose UUIDs are not stored yet, and the lines without a UUID."""
    pairs = [(uuid_of(line), line) for line in lines]
    stored = find_uuids(transaction, key, sorted({uuid for uuid, _ in pairs if uuid is not None}))
    rows = []
    for uuid, line in pairs:
        if uuid is not None and uuid in stored:
            continue
        stored |= {uuid} if uuid is not None else set()
        chain = extend_chain(chain, line)
        count += 1
        rows.append((*key, count, uuid, line, chain))
    insert_lines(transaction, key, rows, count, chain, now_ms)
    return count, chain


def insert_lines(
    transaction: Transaction,
    key: tuple[str, str, str],
    rows: Sequence[Sequence[object]],
    count: int,
    chain: bytes,
    now_ms: int,
) -> None:
    if not rows:
        return
    transaction.run_many("INSERT INTO line VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    transaction.run(
        "INSERT INTO transcript VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (project, session, agent)"
        " DO UPDATE SET lines=excluded.lines, chain=excluded.chain, updated_at=excluded.updated_at",
        *key,
        count,
        chain,
        now_ms,
    )
    transaction.notify(key[1])


def refuse_lines(count: int, chain: bytes, reason: str, message: str) -> RefusedError:
    return RefusedError(409, reason, message, lines=count, chain=chain.hex())


def uuid_of(line: bytes) -> str | None:
    """Return an entry's UUID, if any."""
    try:
        return msgspec.json.decode(line, type=_Named).uuid
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


class _Named(Struct):
    uuid: str | None = None


# How many UUIDs one statement looks up.
LOOKED_UP = 500


def find_uuids(
    transaction: Transaction, key: tuple[str, str, str], uuids: Sequence[str]
) -> set[str]:
    stored: set[str] = set()
    for start in range(0, len(uuids), LOOKED_UP):
        part = uuids[start : start + LOOKED_UP]
        marks = ", ".join("?" * len(part))
        stored |= {
            row[0]
            for row in transaction.run(
                "SELECT uuid FROM line WHERE project=? AND session=? AND agent=?"
                f" AND uuid IN ({marks})",
                *key,
                *part,
            )
        }
    return stored


def find_transcript(transaction: Transaction, key: tuple[str, str, str]) -> tuple[int, bytes]:
    rows = transaction.run(
        "SELECT lines, chain FROM transcript WHERE project=? AND session=? AND agent=?", *key
    )
    return (int(rows[0][0]), bytes(rows[0][1])) if rows else (0, NO_LINES)


def chain_at(transaction: Transaction, key: tuple[str, str, str], count: int) -> bytes | None:
    """Return the hash of the first `count` lines, or None if there are fewer."""
    if count == 0:
        return NO_LINES
    rows = transaction.run(
        "SELECT chain FROM line WHERE project=? AND session=? AND agent=? AND seq=?", *key, count
    )
    return bytes(rows[0][0]) if rows else None


def read_lines(
    transaction: Transaction, key: tuple[str, str, str], after: int, limit: int
) -> list[bytes]:
    return [
        bytes(row[0])
        for row in transaction.run(
            "SELECT body FROM line WHERE project=? AND session=? AND agent=? AND seq>?"
            " ORDER BY seq LIMIT ?",
            *key,
            after,
            limit,
        )
    ]


def list_transcripts(
    transaction: Transaction, project: str, session: str = ""
) -> list[tuple[str, str, int, int]]:
    """Return the session, agent, number of lines and time of each transcript in a project."""
    rows = transaction.run(
        "SELECT session, agent, lines, updated_at FROM transcript"
        " WHERE project=? AND (session=? OR ?='') ORDER BY session, agent",
        project,
        session,
        session,
    )
    return [(row[0], row[1], int(row[2]), int(row[3])) for row in rows]


def delete_transcripts(
    transaction: Transaction, project: str, session: str, agent: str | None
) -> None:
    """Delete a transcript, or all transcripts of a session if `agent` is None."""
    where = "project=? AND session=?" + ("" if agent is None else " AND agent=?")
    values = (project, session) if agent is None else (project, session, agent)
    transaction.run(f"DELETE FROM line WHERE {where}", *values)
    transaction.run(f"DELETE FROM transcript WHERE {where}", *values)
