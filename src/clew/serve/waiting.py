"""The queue of the database's writer: operations that arrive together share a commit.

This keeps the cost of syncing independent of the number of clients.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias, TypeVar

from clew.serve.database import Transaction

Result = TypeVar("Result")
Operation: TypeAlias = Callable[[Transaction], Any]
# The result or error of each operation, and the changed sessions.
Committed: TypeAlias = tuple[list[tuple[object, BaseException | None]], list[str]]

# The most operations per commit.
MOST_TOGETHER = 256


class WriteQueue:
    """A queue with one writer thread, in which `commit` runs each batch in a transaction."""

    def __init__(
        self,
        commit: Callable[[Sequence[Operation]], Committed],
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._commit = commit
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._waiting: list[tuple[Operation, asyncio.Future[Any]]] = []
        self._is_writing = False
        self._thread = ThreadPoolExecutor(1, "writer")

    async def run(self, operation: Callable[[Transaction], Result]) -> Result:
        future: asyncio.Future[Result] = self._loop.create_future()
        self._waiting.append((operation, future))
        self._write_next()
        return await future

    async def aclose(self) -> None:
        await asyncio.to_thread(self._thread.shutdown)

    def _write_next(self) -> None:
        if self._is_writing or not self._waiting:
            return
        batch, self._waiting = self._waiting[:MOST_TOGETHER], self._waiting[MOST_TOGETHER:]
        self._is_writing = True
        operations = [operation for operation, _ in batch]
        futures = [future for _, future in batch]
        job = self._loop.run_in_executor(self._thread, self._commit, operations)
        job.add_done_callback(lambda job: self._settle(futures, job))

    def _settle(
        self, futures: "list[asyncio.Future[Any]]", job: "asyncio.Future[Committed]"
    ) -> None:
        self._is_writing = False
        self._write_next()
        failure = job.exception()
        if failure is not None:
            # For example, the disk is full: nothing of the batch is stored or acknowledged.
            for future in futures:
                settle(future, None, failure)
            return
        results, changed = job.result()
        for future, (result, error) in zip(futures, results, strict=True):
            settle(future, result, error)
        for session in dict.fromkeys(changed):
            self._tell(session)


def settle(future: "asyncio.Future[Any]", result: object, error: BaseException | None) -> None:
    if future.done():  # The client has disconnected.
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
