"""The server's database in PostgreSQL, which several servers can share.

Waiting operations share a transaction, as in `sqlite`. A name that an operation locks is locked for
all servers until the commit. `NOTIFY` tells all servers which sessions changed; a server that
misses a message reads the log at its next keep-alive.
"""

import asyncio
import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any, TypeVar

import psycopg

from clew.core.messages.errors import ClewError, UserError
from clew.serve.database import Row, Transaction
from clew.serve.log import RefusedError
from clew.serve.schema import VERSION_TABLE, require_version
from clew.serve.waiting import Committed, WriteQueue

Result = TypeVar("Result")
CHANNEL = "clew_serve"
# An arbitrary lock ID, so that servers that start together don't migrate at the same time.
MIGRATING = 742_917_003
READERS = 3
LISTEN_S = 1.0
CONNECT_S = 10
UNAVAILABLE = "the server's database is not available; try again"


def translate(statement: str) -> str:
    """Return a statement in PostgreSQL's dialect."""
    statement = statement.replace("%", "%%").replace("?", "%s")
    return re.sub(r"\bINTEGER\b", "BIGINT", re.sub(r"\bBLOB\b", "BYTEA", statement))


class PostgresTransaction:
    """A transaction. `changed` collects the sessions to report with the commit."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.changed: dict[str, None] = {}

    def run(self, statement: str, *values: object) -> list[Row]:
        cursor = self._connection.execute(translate(statement), values)
        return cursor.fetchall() if cursor.description is not None else []

    def run_many(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(translate(statement), rows)

    def lock(self, name: str) -> None:
        self._connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (name,))

    def notify(self, session: str) -> None:
        self.changed[session] = None


def connect(url: str) -> Any:
    try:
        return psycopg.connect(url, connect_timeout=CONNECT_S, application_name="clew serve")
    except psycopg.Error as error:
        # The message contains the host and database, but never the password.
        raise UserError(f"--db: {str(error).strip()}") from None


def migrate(connection: Any) -> None:
    """Create or update the tables. Raise `UserError` if a newer version created them."""
    with connection.transaction():
        transaction = PostgresTransaction(connection)
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATING,))
        transaction.run(VERSION_TABLE)
        [[version]] = transaction.run("SELECT COALESCE(MAX(version), 0) FROM schema_version")
        for number, statements in require_version(int(version)):
            for statement in statements:
                transaction.run(statement)
            transaction.run("INSERT INTO schema_version VALUES (?)", number)


class Connections:
    """One connection for each worker thread; broken connections are replaced."""

    def __init__(self, url: str, *, autocommit: bool = False) -> None:
        self._url = url
        self._autocommit = autocommit
        self._own = threading.local()
        self._all: list[Any] = []

    def get(self) -> Any:
        connection = getattr(self._own, "connection", None)
        if connection is None or connection.closed:
            connection = self._own.connection = connect(self._url)
            connection.autocommit = self._autocommit
            self._all.append(connection)
        return connection

    def close(self) -> None:
        for connection in self._all:
            connection.close()


class PostgresDatabase:
    """A PostgreSQL database, given by its URL."""

    def __init__(self, url: str) -> None:
        self._url = url
        with connect(url) as connection:
            migrate(connection)
        self._loop = asyncio.get_running_loop()
        self._connections = Connections(url)
        self._lookers = Connections(url, autocommit=True)
        self._queue = WriteQueue(self._commit)
        self._reading = ThreadPoolExecutor(READERS, "reader")
        self._heard: list[Callable[[str], None]] = []
        self._is_closing = threading.Event()
        self._listening = threading.Thread(target=self._listen, name="listener", daemon=True)
        self._listening.start()

    async def write(self, operation: Callable[[Transaction], Result]) -> Result:
        return await self._queue.run(operation)

    async def read(self, operation: Callable[[Transaction], Result]) -> Result:
        return await self._loop.run_in_executor(self._reading, self._read, operation)

    async def look(self, operation: Callable[[Transaction], Result]) -> Result:
        return await self._loop.run_in_executor(self._reading, self._look, operation)

    def listen(self, heard: Callable[[str], None]) -> None:
        self._heard.append(heard)

    async def aclose(self) -> None:
        self._is_closing.set()
        await self._queue.aclose()
        await asyncio.to_thread(self._reading.shutdown)
        await asyncio.to_thread(self._listening.join)
        self._connections.close()
        self._lookers.close()

    # -- in threads

    def _look(self, operation: Callable[[Transaction], Result]) -> Result:
        """Run one statement without a transaction, which would take three more statements."""
        return self._try_twice(lambda: operation(PostgresTransaction(self._lookers.get())))

    def _read(self, operation: Callable[[Transaction], Result]) -> Result:
        def read() -> Result:
            connection = self._connections.get()
            with connection.transaction():
                connection.execute("SET TRANSACTION READ ONLY, ISOLATION LEVEL REPEATABLE READ")
                return operation(PostgresTransaction(connection))

        return self._try_twice(read)

    def _try_twice(self, read: Callable[[], Result]) -> Result:
        """Read, and retry once in case the connection predates a restart of the database."""
        try:
            try:
                return read()
            except psycopg.OperationalError:
                return read()
        except (psycopg.OperationalError, UserError) as error:
            raise RefusedError(503, "unavailable", UNAVAILABLE) from error

    def _commit(self, batch: Sequence[Callable[[Transaction], Any]]) -> Committed:
        """Run operations in one transaction, or one by one after a deadlock."""
        try:
            return self._commit_together(batch)
        except psycopg.errors.DeadlockDetected:
            return [self._commit_one(operation) for operation in batch], []
        except (psycopg.OperationalError, UserError) as error:
            # It is unknown whether the commit succeeded. Every operation can be repeated.
            raise RefusedError(503, "unavailable", UNAVAILABLE) from error

    def _commit_one(
        self, operation: Callable[[Transaction], Any]
    ) -> tuple[object, BaseException | None]:
        while True:
            try:
                [result], _ = self._commit_together([operation])
            except psycopg.errors.DeadlockDetected:
                continue
            except (psycopg.OperationalError, UserError):
                return None, RefusedError(503, "unavailable", UNAVAILABLE)
            except ClewError as error:
                return None, error
            return result

    def _commit_together(self, batch: Sequence[Callable[[Transaction], Any]]) -> Committed:
        connection = self._connections.get()
        results: list[tuple[object, BaseException | None]] = []
        changed: dict[str, None] = {}
        with connection.transaction():
            for operation in batch:
                transaction = PostgresTransaction(connection)
                # An operation that fails alone is rolled back with the entire transaction.
                undone = connection.transaction() if len(batch) > 1 else nullcontext()
                try:
                    with undone:
                        results.append((operation(transaction), None))
                    changed |= transaction.changed
                except ClewError as error:
                    if len(batch) == 1:
                        raise
                    results.append((None, error))
            for session in changed:
                connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, session))
        return results, []

    def _listen(self) -> None:
        """Forward the notifications of all servers, including this one, until closed."""
        while not self._is_closing.is_set():
            try:
                with psycopg.connect(
                    self._url, autocommit=True, connect_timeout=CONNECT_S
                ) as connection:
                    connection.execute(f"LISTEN {CHANNEL}")
                    while not self._is_closing.is_set():
                        for notice in connection.notifies(timeout=LISTEN_S):
                            self._loop.call_soon_threadsafe(self._tell, notice.payload)
            except psycopg.Error:
                self._is_closing.wait(LISTEN_S)
            except RuntimeError:  # The event loop is closed.
                return

    def _tell(self, session: str) -> None:
        for heard in self._heard:
            heard(session)
