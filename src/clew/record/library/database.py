"""The database of sessions: the metadata of every file, and the full-text index.

The database is derived and disposable: if it is damaged or of another version, it is deleted and
rebuilt. It is in clew's private folder. Rows are only added. Data that a transcript no longer
contains is marked as deleted, and the database is rebuilt once too much data is marked.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec

from clew.core.catalog.added import load_models
from clew.core.catalog.lookup import ModelCatalog
from clew.record.transcript.paths import get_own_dir
from clew.system.config.layers import merge
from clew.system.config.load import load_settings
from clew.system.config.paths import find_places

# The prices that the database of a config home uses: clew's, and those in the user's settings.


class Prices:
    """The prices that apply to a config home.

    `mark` identifies the prices: costs computed with a different mark are computed again.
    """

    def __init__(self, home: Path) -> None:
        environ = {"CLEW_CONFIG_DIR": str(home), "HOME": str(home)}
        settings = load_settings(find_places(environ, home), sources=("user",))
        self._models: Any = merge(settings.layers).get("models")

    @property
    def mark(self) -> int:
        if not self._models:
            return 0
        # SQLite stores only 31 bits.
        return crc32(msgspec.json.encode(self._models, order="deterministic")) & 0x7FFFFFFF or 1

    @cached_property
    def catalog(self) -> ModelCatalog:
        return load_models({"models": self._models})[0]


# Also incremented when the definition of a word changes (words.py).
VERSION = 5
WAIT_S = 5.0

_SCHEMA = """
CREATE TABLE file (
  id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, folder TEXT NOT NULL, session_id TEXT NOT NULL,
  agent TEXT, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, inode INTEGER NOT NULL,
  read_to INTEGER NOT NULL, seam BLOB NOT NULL, hidden TEXT, title TEXT, custom_title TEXT,
  first_prompt TEXT, cwd TEXT, git_branch TEXT, tag TEXT, created_at TEXT, modified_at REAL NOT NULL,
  entries INTEGER NOT NULL, prompts INTEGER NOT NULL, bad_lines INTEGER NOT NULL
) STRICT;
CREATE INDEX file_session ON file (session_id);
CREATE TABLE entry (
  id INTEGER PRIMARY KEY, file INTEGER NOT NULL, at INTEGER NOT NULL, size INTEGER NOT NULL,
  uuid TEXT, kind TEXT NOT NULL
) STRICT;
CREATE TABLE charge (
  file INTEGER NOT NULL, message TEXT NOT NULL, request TEXT NOT NULL, model TEXT NOT NULL,
  at TEXT NOT NULL, usd REAL, tokens INTEGER NOT NULL, PRIMARY KEY (file, message, request)
) STRICT, WITHOUT ROWID;
CREATE TABLE tool (
  file INTEGER NOT NULL, name TEXT NOT NULL, calls INTEGER NOT NULL, PRIMARY KEY (file, name)
) STRICT, WITHOUT ROWID;
CREATE VIRTUAL TABLE words USING fts5 (
  text, content = '', tokenize = "unicode61 remove_diacritics 0"
);
INSERT INTO words (words, rank) VALUES ('pgsz', 8000);
INSERT INTO words (words, rank) VALUES ('hashsize', 33554432);
"""


def find_database(home: Path) -> Path:
    return get_own_dir(home) / "index" / "sessions.db"


@contextlib.contextmanager
def open_database(home: Path) -> Iterator[sqlite3.Connection]:
    """Open the database; create it if it is missing, and rebuild it if it is unusable.

    Raise `OSError` or `sqlite3.Error` if the disk is not writable.
    """
    path = find_database(home)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    connection = _connected(path)
    try:
        yield connection
    finally:
        connection.close()


def forget(home: Path) -> None:
    """Delete the database; it is rebuilt when it is needed again."""
    _remove(find_database(home))


def _connected(path: Path) -> sqlite3.Connection:
    try:
        return _checked(path)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise
        _remove(path)
    except sqlite3.DatabaseError:
        _remove(path)
    return _checked(path)


def _checked(path: Path) -> sqlite3.Connection:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = OFF")  # rebuilt if a power failure damages it
        connection.execute("PRAGMA cache_size = -65536")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version != VERSION:
            with hold_transaction(connection):
                (version,) = connection.execute("PRAGMA user_version").fetchone()
                if version == 0:
                    for statement in filter(str.strip, _SCHEMA.split(";\n")):
                        connection.execute(statement)
                    connection.execute(f"PRAGMA user_version = {VERSION}")
                elif version != VERSION:
                    raise sqlite3.DatabaseError("the index has a different version")
        connection.execute("SELECT id FROM file LIMIT 1")
    except BaseException:
        connection.close()
        raise
    return connection


def _remove(path: Path) -> None:
    for name in ("", "-wal", "-shm"):
        path.with_name(path.name + name).unlink(missing_ok=True)


@contextlib.contextmanager
def hold_transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run the body in a transaction with exclusive write access; an exception rolls it back."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
