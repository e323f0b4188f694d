"""The interface of the server's database.

An operation is a function of a transaction. Operations of a session run one after another, in
threads. Everything that an operation wrote is durable when `write` returns.
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
        """Run a statement without results once for each row."""
        ...

    def lock(self, name: str) -> None:
        """Block other transactions that lock the same name until this one ends."""
        ...

    def notify(self, session: str) -> None:
        """After the commit, notify the listeners of all servers that a session changed."""
        ...


class Database(Protocol):
    async def write(self, operation: Callable[[Transaction], Result]) -> Result:
        """Run an operation that may write. If it raises, its changes are rolled back."""
        ...

    async def read(self, operation: Callable[[Transaction], Result]) -> Result:
        """Run a read-only operation on committed data."""
        ...

    async def look(self, operation: Callable[[Transaction], Result]) -> Result:
        """Read a few rows by key; a local database does this without a thread."""
        ...

    def listen(self, heard: Callable[[str], None]) -> None:
        """Call `heard` in the event loop with the ID of each changed session."""
        ...

    async def aclose(self) -> None: ...
