"""The server's database in an SQLite file: one writer thread, one commit for waiting operations.

`synchronous=FULL` with a write-ahead log makes an acknowledged write survive a power cut. Waiting
operations share a commit, so the cost of syncing does not grow with the number of clients.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from clew.core.messages.errors import ClewError
from clew.serve.database import Row, Transaction
from clew.serve.schema import VERSION_TABLE, require_version
from clew.serve.waiting import Committed, WriteQueue

Result = TypeVar("Result")

BUSY_S = 10.0
# A checkpoint syncs the entire file while a commit waits, so it happens once per 16 MB.
CHECKPOINT_PAGES = 4_000


class SqliteTransaction:
    """A transaction. `changed` collects the sessions to report after the commit."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.changed: list[str] = []

    def run(self, statement: str, *values: object) -> list[Row]:
        return self._connection.execute(statement, values).fetchall()

    def run_many(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        self._connection.executemany(statement, rows)

    def lock(self, name: str) -> None:
        """Do nothing, because there is only one writer."""

    def notify(self, session: str) -> None:
        self.changed.append(session)


def connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
    return connection


def migrate(connection: sqlite3.Connection) -> None:
    """Create or update the tables. Raise `UserError` if a newer version created them."""
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(VERSION_TABLE)
    [version] = connection.execute(
        "SELECT COALESCE(MAX(version), 0) FROM schema_version"
    ).fetchone()
    try:
        for number, statements in require_version(version):
            for statement in statements:
                connection.execute(statement)
            connection.execute("INSERT INTO schema_version VALUES (?)", (number,))
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


class SqliteDatabase:
    """A database in a file that only the user can read."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        self._writer = connect(path)
        migrate(self._writer)
        self._reader, self._looker = connect(path), connect(path)
        for connection in (self._reader, self._looker):
            connection.execute("PRAGMA query_only=1")
        self._loop = asyncio.get_running_loop()
        self._heard: list[Callable[[str], None]] = []
        self._queue = WriteQueue(self._commit, self._tell)
        self._reading = ThreadPoolExecutor(1, "reader")

    async def write(self, operation: Callable[[Transaction], Result]) -> Result:
        return await self._queue.run(operation)

    async def read(self, operation: Callable[[Transaction], Result]) -> Result:
        transaction = SqliteTransaction(self._reader)
        return await self._loop.run_in_executor(self._reading, operation, transaction)

    async def look(self, operation: Callable[[Transaction], Result]) -> Result:
        # Takes microseconds; a thread would cost more. Readers of a write-ahead log never wait.
        return operation(SqliteTransaction(self._looker))

    def listen(self, heard: Callable[[str], None]) -> None:
        self._heard.append(heard)

    async def aclose(self) -> None:
        await self._queue.aclose()
        await asyncio.to_thread(self._reading.shutdown)
        self._reader.close()
        self._looker.close()
        self._writer.close()

    def _tell(self, session: str) -> None:
        for heard in self._heard:
            heard(session)

    def _commit(self, batch: Sequence[Callable[[Transaction], Any]]) -> Committed:
        """Run operations in one transaction, in a thread; roll back only those that are refused."""
        results: list[tuple[object, BaseException | None]] = []
        changed: list[str] = []
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            for operation in batch:
                transaction = SqliteTransaction(self._writer)
                self._writer.execute("SAVEPOINT operation")
                try:
                    results.append((operation(transaction), None))
                    changed += transaction.changed
                except ClewError as error:
                    self._writer.execute("ROLLBACK TO operation")
                    results.append((None, error))
                self._writer.execute("RELEASE operation")
            self._writer.execute("COMMIT")
        finally:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
        return results, changed
