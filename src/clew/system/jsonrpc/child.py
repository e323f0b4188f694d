"""A peer that is a child process: messages over its standard input and output.

Owns the three pipes. Reading never stops and never blocks. The end of standard error is kept for
the user, and output that is not a message is reported. The launcher ends the child and its
descendants together with the session.
"""

import asyncio
import contextlib
import os
import re
from collections.abc import Callable, Mapping, Sequence

from clew.core.json_object import Json
from clew.core.messages.encoding import encode
from clew.system.jsonrpc.connection import Connection
from clew.system.jsonrpc.framing import Framing, Unframed
from clew.system.process.spawn import Launcher
from clew.system.process.tree import Child
from clew.system.process.watcher import DAEMONS_LEFT

READ_BYTES = 1 << 18
KEPT_ERRORS_BYTES = 8192
SHOWN_ERRORS = 500
# The most output without a valid message. A program that prints more does not speak the protocol.
MAX_GARBAGE_BYTES = 64 << 20
# The most output without the end of a message: far more than any message that would be accepted.
MAX_UNENDED_BYTES = 128 << 20
# The most data that may wait to be written to a child that does not read.
MAX_UNREAD_BYTES = 64 << 20
# How long a child may take to exit after its input was closed, and then after it was asked to end.
CLOSE_WAIT_S = 1.0
GRACE_S = 0.5
# How long the last output of the child may take to arrive after it has ended.
SETTLE_S = 0.05

_ID = re.compile(rb'"id"\s*:\s*(\d{1,15})\b')


class ChildLine:
    """The pipes to one child.

    The connection passed to `listen` receives the messages, and a notice when the child has ended.
    """

    def __init__(self, framing: Framing, frame: Callable[[bytes], bytes]) -> None:
        self._framing = framing
        self._frame = frame
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        self._child: Child | None = None
        self._input = self._output = self._errors = -1
        self._unsent = bytearray()
        self._is_writing = False
        self._kept = bytearray()
        self._garbage_bytes = 0
        self._unended_bytes = 0
        self._output_ended = asyncio.Event()
        self._lost_why = ""

    @property
    def errors(self) -> str:
        """The last part of the child's output on standard error."""
        return self._kept.decode("utf-8", "replace").strip()

    async def open(
        self,
        launcher: Launcher,
        argv: Sequence[str],
        *,
        cwd: str | os.PathLike[str],
        env: Mapping[str, str],
    ) -> None:
        """Start the child. Raise OSError if it cannot be started."""
        theirs: list[int] = []
        try:
            read_end, self._input = pipe(theirs, child_reads=True)
            write_end, self._output = pipe(theirs, child_reads=False)
            error_end, self._errors = pipe(theirs, child_reads=False)
            self._child = await launcher.spawn(
                argv,
                cwd=cwd,
                env=env,
                descriptors={0: read_end, 1: write_end, 2: error_end},
                leaves=DAEMONS_LEFT,
            )
        finally:
            for descriptor in theirs:
                os.close(descriptor)
            if self._child is None:
                self._close_pipes()

    def listen(self, connection: Connection) -> None:
        """Start passing the child's messages to the connection."""
        self._connection = connection
        if self._output >= 0:
            self._loop.add_reader(self._output, self._readable)
            self._loop.add_reader(self._errors, self._complained)

    async def ended(self) -> str:
        """Wait for the end of the messages, mark the connection as lost, and return the reason.

        The messages end when the child or its output ends, whichever is first. When the child ends,
        its last output may still be in the pipe, and a program that it started may keep the pipe
        open.
        """
        assert self._child is not None
        exit_seen = asyncio.ensure_future(self._child.wait())
        output_seen = asyncio.ensure_future(self._output_ended.wait())
        both = (exit_seen, output_seen)
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait(both, timeout=SETTLE_S)
        finally:
            for task in both:
                task.cancel()
        why = self._lost_why or "the server closed its output"
        if exit_seen.done() and not exit_seen.cancelled():
            how = exit_seen.result()
            why = f"the server ended with {how.signal or f'code {how.code}'}"
        error_text = self.errors[-SHOWN_ERRORS:]
        why = f"{why}: {error_text}" if error_text else why
        self._lose(why)
        return why

    def send(self, message: Json) -> None:
        """Send a message. Data that the pipe does not accept now is written later."""
        if self._input < 0:
            return
        self._unsent += self._frame(encode(message))
        if len(self._unsent) > MAX_UNREAD_BYTES:
            self._lose("the server does not read its input")
        elif not self._is_writing:
            self._write()

    async def aclose(self) -> None:
        """Close the input, which asks the child to exit. Then end the child and its descendants."""
        self._stop_writing()
        child, self._child = self._child, None
        try:
            if child is not None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(CLOSE_WAIT_S):
                        await child.wait()
        finally:
            if child is not None:
                await child.finish(grace_s=GRACE_S)
            self._close_pipes()

    # -- pipes

    def _readable(self) -> None:
        data = read_some(self._output)
        if data is None:
            return
        if not data:
            self._loop.remove_reader(self._output)
            self._take(self._framing.close())
            self._output_ended.set()
            return
        payloads = self._framing.feed(data)
        self._unended_bytes = 0 if payloads else self._unended_bytes + len(data)
        if self._unended_bytes > MAX_UNENDED_BYTES:
            self._lose("the server keeps printing output that is not a message")
        self._take(payloads)

    def _take(self, payloads: list[bytes | Unframed]) -> None:
        connection = self._connection
        if connection is None:
            return
        for payload in payloads:
            if isinstance(payload, Unframed):
                self._unframed(connection, payload)
            elif payload.lstrip(b" \t\xef\xbb\xbf\0").startswith((b"{", b"[")):
                self._garbage_bytes = 0
                connection.deliver_bytes(payload)
            else:
                # Programs often print other output before their first message.
                self._printed(connection, payload)

    def _unframed(self, connection: Connection, part: Unframed) -> None:
        match = _ID.search(part.head) if part.is_too_large else None
        if match is not None:
            connection.fail(int(match[1]), f"response too large ({part.why})")
        self._printed(connection, part.head)

    def _printed(self, connection: Connection, text: bytes) -> None:
        self._garbage_bytes += len(text)
        connection.odd(
            f"printed output that is not a message: {text[:120].decode('utf-8', 'replace')}"
        )
        if self._garbage_bytes > MAX_GARBAGE_BYTES:
            self._lose("the server keeps printing output that is not a message")

    def _complained(self) -> None:
        data = read_some(self._errors)
        if data is None:
            return
        if not data:
            self._loop.remove_reader(self._errors)
        self._kept += data
        del self._kept[:-KEPT_ERRORS_BYTES]

    def _write(self) -> None:
        """Write as much as the pipe accepts."""
        try:
            while self._unsent and self._input >= 0:
                written = os.write(self._input, memoryview(self._unsent)[: 1 << 16])
                del self._unsent[:written]
        except BlockingIOError:
            if not self._is_writing:
                self._is_writing = True
                self._loop.add_writer(self._input, self._write)
            return
        except OSError:
            self._unsent.clear()
            self._stop_writing()
            # The child has ended or is about to end. Its exit will be noticed in a moment.
            self._lost_why = self._lost_why or "the server closed its input"
            self._output_ended.set()
            return
        if self._is_writing:
            self._is_writing = False
            self._loop.remove_writer(self._input)

    def _stop_writing(self) -> None:
        if self._input < 0:
            return
        if self._is_writing:
            self._is_writing = False
            self._loop.remove_writer(self._input)
        os.close(self._input)
        self._input = -1

    def _close_pipes(self) -> None:
        self._stop_writing()
        for descriptor in (self._output, self._errors):
            if descriptor >= 0:
                self._loop.remove_reader(descriptor)
                os.close(descriptor)
        self._output = self._errors = -1

    def _lose(self, why: str) -> None:
        self._lost_why = self._lost_why or why
        self._output_ended.set()
        if self._connection is not None:
            self._connection.lose(why)


def pipe(theirs: list[int], *, child_reads: bool) -> tuple[int, int]:
    """Create a pipe and return the child's end and clew's end.

    The child's end is also added to `theirs`, to be closed later.
    """
    read_end, write_end = os.pipe()
    child, ours = (read_end, write_end) if child_reads else (write_end, read_end)
    os.set_blocking(ours, False)
    theirs.append(child)
    return child, ours


def read_some(descriptor: int) -> bytes | None:
    """Return the available data, `b""` at the end, or None if no data has arrived yet."""
    try:
        return os.read(descriptor, READ_BYTES)
    except BlockingIOError:
        return None
    except OSError:
        return b""
