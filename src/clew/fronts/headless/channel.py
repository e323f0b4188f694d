"""The channel to a host: `receive` returns its messages, `send` takes frames.

This module owns the standard input and output of a process that speaks the protocol. One thread
reads complete lines of any length; another one writes. Neither blocks the other or the turn, but a
host that reads slowly slows down the stream. The channel does not interpret the lines.

Decision: docs/decisions/140-host-protocol.md
"""

import asyncio
import contextlib
import os
import sys
import threading
from collections import deque
from collections.abc import Iterable
from typing import Protocol

from clew.core.json_object import Json
from clew.core.messages.errors import describe_error
from clew.core.stream.sse import LineSplitter
from clew.core.wire import MAX_FRAME_BYTES, Incoming, encode_frame, read_line
from clew.fronts.ends import is_connected

# How much output may wait for a slow reader before senders wait, too.
HIGH_WATER_BYTES = 1024 * 1024
READ_BYTES = 1 << 16


class HostChannel(Protocol):
    # The longest line that the host accepts.
    max_frame_bytes: int

    async def receive(self) -> Incoming | None:
        """Return the host's next message, or None if no more will come."""
        ...

    async def send(self, frame: Json) -> None:
        """Send a frame. If too many frames are queued, wait until there is room."""
        ...

    def post(self, frame: Json) -> None:
        """Send a frame without waiting, for code that cannot await."""
        ...

    def warn(self, words: str) -> None:
        """Print a warning for the operator of the program, separate from the frames."""
        ...

    def hurry(self) -> None:
        """Stop waiting for a slow reader, because the process has to end."""
        ...

    @property
    def is_broken(self) -> bool:
        """True if a frame could not be written although someone could read it."""
        ...

    def has_reader(self) -> bool:
        """Return whether a program could still read what is sent."""
        ...

    async def aclose(self) -> None:
        """Wait until all frames are written, or until it is clear that they cannot be written."""
        ...


class Input:
    """Standard input, read as lines. The reading thread does not keep the process alive."""

    def __init__(self, file: int, loop: asyncio.AbstractEventLoop, begin: bytes = b"") -> None:
        self._file = file
        self._loop = loop
        # Lines that were read before the event loop ran.
        self._begin = begin
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        threading.Thread(target=self._read, name="stdin", daemon=True).start()

    async def next(self) -> bytes | None:
        return await self._lines.get()

    def _read(self) -> None:
        splitter = LineSplitter()
        if self._begin:
            self._hand_on(splitter.feed(self._begin))
        while True:
            try:
                data = os.read(self._file, READ_BYTES)
            except OSError:
                data = b""
            lines = splitter.feed(data) if data else splitter.close()
            if not self._hand_on([*lines, *([] if data else [None])]) or not data:
                return

    def _hand_on(self, lines: Iterable[bytes | None]) -> bool:
        try:
            self._loop.call_soon_threadsafe(self._take, list(lines))
        except RuntimeError:  # The loop is closed, so no reader is left.
            return False
        return True

    def _take(self, lines: list[bytes | None]) -> None:
        for line in lines:
            self._lines.put_nowait(line)


class StandardOutput:
    """Standard output. One thread writes it, with a single call for each batch of frames."""

    def __init__(self, file: int, loop: asyncio.AbstractEventLoop) -> None:
        self._file = file
        self._loop = loop
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._changed = threading.Condition()
        self._is_closing = False
        self._is_in_haste = False
        # Why nothing more can be written.
        self.error: OSError | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._done = asyncio.Event()
        self._thread = threading.Thread(target=self._write, name="stdout", daemon=True)
        self._thread.start()

    def post(self, line: bytes) -> None:
        with self._changed:
            if self.error is not None:
                return
            self._waiting.append(line + b"\n")
            self._size += len(line) + 1
            if self._size > HIGH_WATER_BYTES and not self._is_in_haste:
                self._room.clear()
            self._changed.notify()

    def hurry(self) -> None:
        self._is_in_haste = True
        self._room.set()

    async def room(self) -> None:
        await self._room.wait()

    async def aclose(self) -> None:
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        await self._done.wait()

    def _write(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._is_closing:
                    self._changed.wait()
                batch = b"".join(self._waiting)
                self._waiting.clear()
            if not batch or not self._written(batch):
                self._tell(self._done)
                return
            with self._changed:
                self._size -= len(batch)
                is_low = self._size < HIGH_WATER_BYTES
            if is_low:
                self._tell(self._room)

    def _written(self, batch: bytes) -> bool:
        view = memoryview(batch)
        try:
            while view:
                view = view[os.write(self._file, view) :]
        except OSError as error:
            with self._changed:
                self.error = error
                self._waiting.clear()
            self._tell(self._room)
            return False
        return True

    def _tell(self, event: asyncio.Event) -> None:
        # A closed loop has no waiting senders.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(event.set)


class StdioChannel:
    """The channel of a process: JSON lines on standard input and output.

    `incoming`, if not None, contains all messages; standard input is then not read.
    """

    def __init__(self, incoming: Iterable[Incoming] | None = None) -> None:
        loop = asyncio.get_running_loop()
        self.max_frame_bytes = MAX_FRAME_BYTES
        self._said = None if incoming is None else deque(incoming)
        self._input = Input(0, loop) if incoming is None else None
        self._output = StandardOutput(1, loop)

    async def receive(self) -> Incoming | None:
        if self._said is not None:
            return self._said.popleft() if self._said else None
        assert self._input is not None
        line = await self._input.next()
        return None if line is None else read_line(line)

    async def send(self, frame: Json) -> None:
        self._output.post(encode_frame(frame, self.max_frame_bytes))
        await self._output.room()

    def post(self, frame: Json) -> None:
        self._output.post(encode_frame(frame, self.max_frame_bytes))

    def warn(self, words: str) -> None:
        sys.stderr.write(f"clew: {words}\n")

    def hurry(self) -> None:
        self._output.hurry()

    @property
    def is_broken(self) -> bool:
        # A reader who left, such as `head -1`, is no error.
        error = self._output.error
        return error is not None and not isinstance(error, BrokenPipeError)

    def has_reader(self) -> bool:
        return self._output.error is None and is_connected(1)

    async def aclose(self) -> None:
        await self._output.aclose()
        if self.is_broken and self._output.error is not None:
            self.warn(describe_error(self._output.error))
