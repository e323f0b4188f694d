"""Runs what blocks in a thread that nobody has to wait for.

Not the loop's executor: its threads are joined when the loop and the program end, so a name server
that does not answer would hold up a program that was told to stop.
"""

import asyncio
import contextlib
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

from clew.transport.seam import TransportError

T = TypeVar("T")


def aside(function: Callable[[], T]) -> "asyncio.Future[T]":
    """The future result of `function`; giving up on it leaves its thread to end by itself."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(results: list[T], error: BaseException | None) -> None:
        if future.done():
            return
        if results:
            future.set_result(results[0])
        else:
            future.set_exception(error or RuntimeError("the thread ended without a result"))

    def work() -> None:
        results: list[T] = []
        error: BaseException | None = None
        try:
            results.append(function())
        except (OSError, TransportError) as expected:
            error = expected
        finally:
            # What was not expected is told to the caller too, beside the thread's own report.
            error = error or sys.exc_info()[1]
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(settle, results, error)

    threading.Thread(target=work, daemon=True, name="aside").start()
    return future
