"""A proxy that treats connections badly: cuts, delays, repeats and reorders requests, or partitions.

It runs in a thread of its own. Each connection draws its fate from a seeded random source.
"""

import asyncio
import random
import socket
import threading
from collections import Counter
from collections.abc import Callable
from typing import Self

# Only short exchanges are repeated; a long one is a stream.
REPEATED_MAX_BYTES = 1 << 20


class FaultProxy:
    """A proxy to `target`. `chance` is the share of connections that something happens to.

    With `is_per_request`, each request gets a connection of its own, and so its own fate.
    """

    def __init__(
        self, target: str, *, seed: int, chance: float = 0.3, is_per_request: bool = False
    ) -> None:
        self._is_per_request = is_per_request
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._random = random.Random(seed)
        self.chance = chance
        self.counts: Counter[str] = Counter()
        self._stop, self._whole = asyncio.Event(), asyncio.Event()
        self._whole.set()
        self._loop = asyncio.new_event_loop()
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def part(self) -> None:
        """Let nothing through in either direction, without a word to either side."""
        self.counts["partitions"] += 1
        self._loop.call_soon_threadsafe(self._whole.clear)

    def heal(self) -> None:
        """Let everything through again; connections of before are gone."""
        self._loop.call_soon_threadsafe(self._whole.set)
        self._loop.call_soon_threadsafe(self._drop_all)

    def cut_all(self) -> None:
        self.counts["cuts of all"] += 1
        self._loop.call_soon_threadsafe(self._drop_all)

    # -- in the thread

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        host, _, port = self.address.rpartition(":")
        server = await asyncio.start_server(self._connect, host, int(port))
        self._started.set()
        async with server:
            await self._stop.wait()
        self._drop_all()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _drop_all(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._open.add(writer)
        try:
            await self._carry(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        except asyncio.CancelledError:
            # asyncio would print a traceback for each connection that is still open at the end.
            if not self._stop.is_set():
                raise
        finally:
            self._tasks.discard(task)
            self._open.discard(writer)
            writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection(*self._target)
        self._open.add(up_writer)
        fate = "none"
        if self._random.random() < self.chance:
            fate = self._random.choice(
                ("lose request", "lose response", "delay", "repeat", "repeat late", "drip")
            )
            self.counts[fate] += 1
        budget = self._random.randint(1, 3_000)
        sent = bytearray()
        try:
            async with asyncio.TaskGroup() as group:
                up = self._pump(reader, up_writer, fate, "lose request", budget, sent.extend)
                down = self._pump(up_reader, writer, fate, "lose response", budget, lambda _: None)
                group.create_task(up)
                group.create_task(down)
        except* (OSError, EOFError):
            pass
        finally:
            self._open.discard(up_writer)
            up_writer.transport.abort()
        if fate.startswith("repeat") and len(sent) <= REPEATED_MAX_BYTES:
            if fate == "repeat late":  # It overtakes nothing, and comes after what was sent later.
                await asyncio.sleep(self._random.uniform(0.5, 3.0))
            await self._repeat(bytes(sent))

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        fate: str,
        loses: str,
        budget: int,
        note: Callable[[bytes], None],
    ) -> None:
        is_first = self._is_per_request and loses == "lose request"
        while data := await reader.read(1 << 16):
            if is_first:
                data, is_first = data.replace(b"\r\n", b"\r\nconnection: close\r\n", 1), False
            note(data)
            await self._whole.wait()
            if fate == "delay":
                await asyncio.sleep(self._random.uniform(0.0, 0.5))
            if fate == loses:
                data, budget = data[:budget], budget - len(data)
            pieces = [data]
            if fate == "drip":
                pieces = [data[at : at + 7] for at in range(0, min(len(data), 700), 7)]
                pieces.append(data[700:])
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            if fate == loses and budget <= 0:
                raise EOFError
        raise EOFError

    async def _repeat(self, sent: bytes) -> None:
        """Send the bytes of a connection again, and ignore what comes back."""
        try:
            reader, writer = await asyncio.open_connection(*self._target)
        except OSError:
            return
        writer.write(sent)
        try:
            async with asyncio.timeout(2):
                await writer.drain()
                while await reader.read(1 << 16):
                    pass
        except (TimeoutError, OSError):
            pass
        finally:
            writer.transport.abort()
