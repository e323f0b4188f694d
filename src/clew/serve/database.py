"""The interface of the server's database.

An operation is a function of a transaction. Operations run one after another per session, in
threads, and everything that an operation wrote is durable when `write` returns.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")
Row = Sequence[Any]


class Transaction(Protocol):
    """A transaction. Parameters are marked with `?` in both dialects."""

    def run(self, statement: str, *values: object) -> list[Row]:
        """Run a statement and return its rows."""
        ...

    def run_many(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        """Run a statement that returns nothing once for each row."""
        ...

    def lock(self, name: str) -> None:
        """Let no other transaction that locks the same name run until this one ends."""
        ...

    def notify(self, session: str) -> None:
        """Tell the listeners, of every server, that a session changed, once this is committed."""
        ...


class Database(Protocol):
    async def write(self, operation: Callable[[Transaction], Result]) -> Result:
        """Run an operation that may write. If it raises, it leaves no trace."""
        ...

    async def read(self, operation: Callable[[Transaction], Result]) -> Result:
        """Run an operation that only reads what is committed."""
        ...

    async def look(self, operation: Callable[[Transaction], Result]) -> Result:
        """Run a read of a few rows by their keys, without a thread if the database is local."""
        ...

    def listen(self, heard: Callable[[str], None]) -> None:
        """Call `heard`, in the event loop, with the ID of each session that changed."""
        ...

    async def aclose(self) -> None: ...
