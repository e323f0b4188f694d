"""Update the database: read what was appended to transcripts, and forget deleted ones.

Transcripts only grow, so a file with an unchanged beginning is read from where the last update
stopped. A file that was replaced is read from its beginning. Each step is committed, so an
interrupted update can continue.

Decision: docs/decisions/125-search-index.md
"""

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from clew.core.catalog.lookup import ModelCatalog
from clew.core.ledger.ledger import Ledger, find_charges
from clew.core.messages.encoding import decode
from clew.core.messages.messages import UserMessage
from clew.record.library.database import Prices, forget, hold_transaction, open_database
from clew.record.library.places import TranscriptFile, find_hidden_files, list_transcripts
from clew.record.library.words import collapse_spaces, text_of
from clew.record.transcript import light
from clew.record.transcript.source import TranscriptSource

STEP_BYTES = 64 << 20
SEAM_BYTES = 64
AUTOMERGE = 4  # SQLite's default
# Request logs by other programs, which take up most of the bytes in their files but contain no
# conversation.
_REQUEST_LOG = b'"type":"api-request'
# The share of deleted data in the index at which it is rebuilt.
GARBAGE_SHARE = 0.4

Tell = Callable[[int, int], None]


class Index:
    """The open database and the prices it uses."""

    def __init__(self, connection: sqlite3.Connection, prices: Prices) -> None:
        self.connection = connection
        self.prices = prices


@contextlib.contextmanager
def open_index(home: Path) -> Iterator[Index]:
    """Open the database; rebuild it if its costs were computed with other prices."""
    prices = Prices(home)
    with open_database(home) as connection:
        (mark,) = connection.execute("PRAGMA application_id").fetchone()
        (is_empty,) = connection.execute("SELECT NOT EXISTS (SELECT 1 FROM file)").fetchone()
    if mark != prices.mark and not is_empty:
        forget(home)
    with open_database(home) as connection:
        connection.execute(f"PRAGMA application_id = {prices.mark}")
        yield Index(connection, prices)


@contextlib.contextmanager
def open_whole_index(home: Path, tell: Tell | None = None) -> Iterator[sqlite3.Connection]:
    """Open an up-to-date database.

    If the home is not writable, a temporary database is used.
    """
    with contextlib.ExitStack() as opening:
        try:
            database = opening.enter_context(open_index(home))
            take_in(database, find_pending(database.connection, list_transcripts(home)), tell)
        except (OSError, sqlite3.Error):
            opening.close()
            folder = Path(opening.enter_context(tempfile.TemporaryDirectory()))
            connection = opening.enter_context(open_database(folder))
            database = Index(connection, Prices(home))
            take_in(database, find_pending(connection, list_transcripts(home)), tell)
        yield database.connection


class PendingFile(Struct, frozen=True, kw_only=True):
    """A file with data after `read_to` that is not yet in the index."""

    found: TranscriptFile
    read_to: int

    @property
    def size_bytes(self) -> int:
        return max(0, self.found.size - self.read_to)


def find_pending(
    connection: sqlite3.Connection, files: Iterable[TranscriptFile]
) -> list[PendingFile]:
    """Return the files that have to be read, oldest first, and forget deleted files."""
    known_rows = {
        row[0]: row[1:]
        for row in connection.execute("SELECT path, size, mtime_ns, inode, read_to FROM file")
    }
    waiting: list[PendingFile] = []
    for file in files:
        size, mtime_ns, inode, read_to = known_rows.pop(file.path, (-1, 0, 0, 0))
        if (size, mtime_ns, inode) != (file.size, file.mtime_ns, file.inode):
            waiting.append(PendingFile(found=file, read_to=0 if inode != file.inode else read_to))
    if known_rows:
        with hold_transaction(connection):
            for path in known_rows:
                _forget_file(connection, path)
    return sorted(waiting, key=lambda item: item.found.mtime_ns)


def find_unread_tails(connection: sqlite3.Connection) -> list[tuple[str, int]]:
    """Return the files whose last line is incomplete, and the offset of that line."""
    rows = connection.execute("SELECT path, read_to FROM file WHERE read_to < size")
    return [(path, read_to) for path, read_to in rows]


def take_in(index: Index, waiting: list[PendingFile], tell: Tell | None = None) -> None:
    """Add the data of pending files to the index; `tell` is called with the progress in bytes."""
    connection = index.connection
    total = sum(item.size_bytes for item in waiting)
    done = 0
    # Merging index segments during a large update would take half of the time.
    _automerge(connection, 0 if total > STEP_BYTES else AUTOMERGE)
    for step in _steps(waiting):
        with hold_transaction(connection):
            for item in step:
                _take_file(connection, item.found, index.prices)
                done += item.size_bytes
        if tell is not None:
            tell(done, total)
    if total > STEP_BYTES:
        _automerge(connection, AUTOMERGE)


def _automerge(connection: sqlite3.Connection, segments: int) -> None:
    connection.execute("INSERT INTO words (words, rank) VALUES ('automerge', ?)", (segments,))


def update(home: Path, tell: Tell | None = None, *, rebuilds: bool = False) -> int:
    """Update the index, and return how many bytes were read.

    With `rebuilds`, the index is rebuilt completely.
    """
    if rebuilds:
        forget(home)
    with open_index(home) as database:
        if is_worn(database.connection):
            database.connection.close()
            return update(home, tell, rebuilds=True)
        waiting = find_pending(database.connection, list_transcripts(home))
        take_in(database, waiting, tell)
        return sum(item.size_bytes for item in waiting)


def is_worn(connection: sqlite3.Connection) -> bool:
    (last,) = connection.execute("SELECT coalesce(max(id), 0) FROM entry").fetchone()
    (live,) = connection.execute("SELECT coalesce(sum(entries), 0) FROM file").fetchone()
    return bool(last > 1000 and last - live > last * GARBAGE_SHARE)


def _steps(waiting: list[PendingFile]) -> Iterator[list[PendingFile]]:
    step: list[PendingFile] = []
    size = 0
    for item in waiting:
        step.append(item)
        size += item.size_bytes
        if size >= STEP_BYTES:
            yield step
            step, size = [], 0
    if step:
        yield step


def _forget_file(connection: sqlite3.Connection, path: str) -> None:
    for (number,) in connection.execute("SELECT id FROM file WHERE path = ?", (path,)).fetchall():
        # The words remain, but the file of their entries is gone from the database, so no result
        # includes them.
        connection.execute("DELETE FROM charge WHERE file = ?", (number,))
        connection.execute("DELETE FROM tool WHERE file = ?", (number,))
        connection.execute("DELETE FROM file WHERE id = ?", (number,))


class _Read(Struct, kw_only=True):
    """The data from new lines of one file."""

    rows: list[tuple[int, int, str | None, str, str]] = []
    counted: list[dict[str, Any]] = []
    bad_lines: int = 0
    prompts: int = 0
    read_to: int = 0


def _take_file(connection: sqlite3.Connection, file: TranscriptFile, prices: Prices) -> None:
    try:
        fd = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        _forget_file(connection, file.path)
        return
    try:
        source = TranscriptSource(fd)
        number, read_to = _known(connection, file, source)
        read = _lines(source, read_to)
        seam = source.read(max(0, read.read_to - SEAM_BYTES), min(SEAM_BYTES, read.read_to))
    finally:
        os.close(fd)
    number = _keep(connection, file, number, read, seam)
    _keep_charges(connection, number, read, prices.catalog)


def _known(
    connection: sqlite3.Connection, file: TranscriptFile, source: TranscriptSource
) -> tuple[int | None, int]:
    """Return the file's number and how far it was read.

    For a new or replaced file, return (None, 0).
    """
    row = connection.execute(
        "SELECT id, read_to, seam, inode FROM file WHERE path = ?", (file.path,)
    ).fetchone()
    if row is None:
        return None, 0
    number, read_to, seam, inode = row
    is_same = inode == file.inode and source.size >= read_to
    if is_same and source.read(max(0, read_to - SEAM_BYTES), min(SEAM_BYTES, read_to)) == seam:
        return number, read_to
    _forget_file(connection, file.path)
    return None, 0


def _lines(source: TranscriptSource, start: int) -> _Read:
    read = _Read(read_to=start)
    for _, at, raw in source.lines(start):
        if at + len(raw) >= source.size:
            break  # An unterminated line may be incomplete.
        read.read_to = at + len(raw) + 1
        if _REQUEST_LOG in raw[:200]:
            continue
        try:
            entry = decode(raw)
        except ValueError:
            read.bad_lines += bool(raw.strip())
            continue
        if type(entry) is not dict:
            read.bad_lines += 1
            continue
        _take_entry(read, entry, at, len(raw))
    return read


def _take_entry(read: _Read, entry: dict[str, Any], at: int, size: int) -> None:
    kind = entry.get("type")
    if kind == "assistant" or kind == "request-cost":
        read.counted.append(entry)
    text = text_of(entry)
    if text:
        uuid = entry.get("uuid")
        read.rows.append(
            (at, size, uuid if type(uuid) is str else None, str(kind), collapse_spaces(text))
        )
        read.prompts += kind == "user" and UserMessage(entry).face == "typed"


def _keep(
    connection: sqlite3.Connection,
    file: TranscriptFile,
    number: int | None,
    read: _Read,
    seam: bytes,
) -> int:
    outline = light.read_outline(Path(file.path))
    state = {
        "path": file.path,
        "folder": file.folder,
        "session_id": file.session_id,
        "agent": file.agent or None,
        "size": file.size,
        "mtime_ns": file.mtime_ns,
        "inode": file.inode,
        "read_to": read.read_to,
        "seam": seam,
        "hidden": None if file.agent else find_hidden_files(file, outline),
        "modified_at": file.mtime_ns / 1e9,
        **_facts(file, outline),
    }
    if number is None:
        columns = [*state, "entries", "prompts", "bad_lines"]
        marks = ", ".join("?" * len(columns))
        cursor = connection.execute(
            f"INSERT INTO file ({', '.join(columns)}) VALUES ({marks})",
            [*state.values(), 0, 0, 0],
        )
        number = int(cursor.lastrowid or 0)
    else:
        assignments = ", ".join(f"{column} = ?" for column in state)
        connection.execute(f"UPDATE file SET {assignments} WHERE id = ?", [*state.values(), number])
    _keep_entries(connection, number, read)
    return number


def _facts(file: TranscriptFile, outline: light.Outline | None) -> dict[str, Any]:
    names = ("title", "custom_title", "first_prompt", "cwd", "git_branch", "tag", "created_at")
    if outline is not None:
        return {name: getattr(outline, name) for name in names}
    ends = light.read_ends(Path(file.path))
    head = b"" if ends is None else ends.head
    return dict.fromkeys(names) | {
        "first_prompt": light.find_first_prompt(head),
        "cwd": light.find_string_field(head, "cwd"),
        "created_at": light.find_string_field(head, "timestamp"),
    }


def _keep_entries(connection: sqlite3.Connection, number: int, read: _Read) -> None:
    (last,) = connection.execute("SELECT coalesce(max(id), 0) FROM entry").fetchone()
    places = [
        (last + n, number, at, size, uuid, kind)
        for n, (at, size, uuid, kind, _) in enumerate(read.rows, 1)
    ]
    connection.executemany("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?)", places)
    connection.executemany(
        "INSERT INTO words (rowid, text) VALUES (?, ?)",
        ((last + n, row[4]) for n, row in enumerate(read.rows, 1)),
    )
    connection.execute(
        "UPDATE file SET entries = entries + ?, prompts = prompts + ?, bad_lines = bad_lines + ?"
        " WHERE id = ?",
        (len(read.rows), read.prompts, read.bad_lines, number),
    )


def _keep_charges(
    connection: sqlite3.Connection, number: int, read: _Read, catalog: ModelCatalog
) -> None:
    ledger = Ledger(find_charges(read.counted, catalog))
    connection.executemany(
        "INSERT INTO charge VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
        " usd = coalesce(excluded.usd, usd), tokens = excluded.tokens",
        (
            (
                number,
                charge.message_id,
                charge.request_id,
                charge.model,
                charge.at,
                None if charge.usd is None else float(charge.usd),
                charge.tokens.total,
            )
            for charge in ledger
        ),
    )
    calls: dict[str, int] = {}
    for charge in ledger:
        for name in charge.calls:
            calls[name] = calls.get(name, 0) + 1
    connection.executemany(
        "INSERT INTO tool VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET calls = calls + excluded.calls",
        ((number, name, count) for name, count in calls.items()),
    )
