"""Work in a thread that nobody has to wait for: its result, its error, and leaving it behind."""

import asyncio
import socket
import threading

import pytest

from clew.system.transport.connection import aside
from clew.system.transport.seam import TransportError


def fails(error: Exception) -> None:
    raise error


def test_a_result_and_an_expected_error_come_back() -> None:
    async def main() -> None:
        assert await aside(lambda: threading.current_thread().name) == "aside"
        for error in (socket.gaierror(-2, "unknown"), TransportError("tls", "no")):
            with pytest.raises(type(error)):
                await aside(lambda error=error: fails(error))

    asyncio.run(main())


def test_an_error_nobody_expected_reaches_the_caller_too(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[threading.ExceptHookArgs] = []

    async def main() -> None:
        await aside(lambda: fails(ZeroDivisionError()))

    monkeypatch.setattr(threading, "excepthook", reported.append)
    with pytest.raises(ZeroDivisionError):
        asyncio.run(main())
    for thread in [t for t in threading.enumerate() if t.name == "aside"]:
        thread.join(20)
    assert [args.exc_type for args in reported] == [ZeroDivisionError]


def test_a_program_that_gave_up_ends_while_the_thread_still_blocks() -> None:
    begun, release = threading.Event(), threading.Event()

    def blocks() -> None:
        begun.set()
        release.wait()

    async def main() -> None:
        task = asyncio.ensure_future(asyncio.wait_for(aside(blocks), None))
        assert await aside(lambda: begun.wait(20))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert not release.is_set()
    threads = [t for t in threading.enumerate() if t.name == "aside"]
    assert threads
    release.set()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
