"""A child and its descendants: how it ended, what is still running, and how to end it.

The watcher (`watcher.py`) owns the process tree; this module is clew's end of the socket to it.
When clew closes the socket or dies, the watcher ends the tree. If a watcher is killed, the keeper
ends its tree. If the keeper is killed too, clew ends the processes that it still finds.

Decision: docs/decisions/070-child-processes.md
"""

import asyncio
import contextlib
import marshal
import os
import signal
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from clew.core.messages.errors import OutsideError
from clew.system.process.watcher import NOTHING_LEFT, find_descendants, send_signal

# The kernel's data about a process: its start time and its parent. Missing on systems without /proc.


def read_start_ticks(pid: int) -> int:
    """Return when a process started, in the kernel's ticks, or 0 if that is unknown."""
    words = stat(pid)
    return int(words[19]) if words else 0


def is_alive(pid: int, since: int) -> bool:
    """Return whether the process that started at `since` still has this ID and is no zombie."""
    words = stat(pid)
    return bool(words) and int(words[19]) == since != 0 and words[0] not in (b"Z", b"X")


def read_parent(pid: int) -> int:
    words = stat(pid)
    return int(words[1]) if words else 0


def stat(pid: int) -> list[bytes]:
    """Return the fields of /proc/PID/stat after the name, or an empty list if it cannot be read.

    The name may contain any characters.
    """
    try:
        data = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return []
    return data.rpartition(b")")[2].split()


# How long to wait for the end of a tree after it was killed.
GONE_WAIT_S = 2.0
# How often to check a child without a watcher, and how long the keeper has to end such a child
# first.
LOOK_S = 0.1
KEEPER_S = 1.0

# A shell reports a command that a signal ended as 128 plus the signal number.
SIGNALLED = 128


class ProcessExit(Struct, frozen=True, kw_only=True):
    """The end of a process.

    `code` is the exit code that a shell would report. `signal` is the name of the signal that ended
    the process, if one did.
    """

    code: int
    signal: str | None = None


def name_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def exit_of(wait_status: int) -> ProcessExit:
    if os.WIFSIGNALED(wait_status):
        number = os.WTERMSIG(wait_status)
        return ProcessExit(code=SIGNALLED + number, signal=name_signal(number))
    return ProcessExit(code=os.WEXITSTATUS(wait_status))


def frame_value(message: Any) -> bytes:
    """Return a message to a watcher: its length in four bytes, and a marshalled value."""
    packed = marshal.dumps(message)
    return len(packed).to_bytes(4, "little") + packed


class Child:
    """A child process and its descendants.

    `wait` waits for the end of the child itself, `wait_gone` also for the end of its descendants.
    """

    __slots__ = (
        "_buffer",
        "_ended",
        "_gone",
        "_is_left",
        "_kept",
        "_loop",
        "_since",
        "_started",
        "_when_gone",
        "is_called_off",
        "is_kept",
        "is_unwatched",
        "leaves",
        "left",
        "pid",
        "sock",
        "when_unwatched",
    )

    def __init__(self, sock: socket.socket, leaves: int = NOTHING_LEFT) -> None:
        self.sock = sock
        # What continues after clew (see `watcher`).
        self.leaves = leaves
        self.pid = 0
        # When the process started. Another process may get its number later.
        self._since = 0
        # The child is kept, and its watcher is gone.
        self._is_left = False
        # How many descendants were still running when the child itself ended.
        self.left = 0
        # The child continues when clew ends or closes the socket.
        self.is_kept = False
        # The child ended because another process told its watcher to end it.
        self.is_called_off = False
        # The child was kept, its watcher was killed, and it continues. Its end will not be
        # observed.
        self.is_unwatched = False
        self.when_unwatched: Callable[[], object] | None = None
        self._buffer = b""
        self._loop = asyncio.get_running_loop()
        self._started: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[ProcessExit] = self._loop.create_future()
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self._kept: asyncio.Future[None] = self._loop.create_future()
        self._when_gone: list[Callable[[], object]] = []
        self._loop.add_reader(sock, self._read)

    @property
    def is_gone(self) -> bool:
        return self._gone.done()

    async def wait_started(self) -> None:
        """Wait until the program has started. Raise OSError if it could not be started."""
        await asyncio.shield(self._started)

    async def wait(self) -> ProcessExit:
        return await asyncio.shield(self._ended)

    async def wait_gone(self) -> None:
        await asyncio.shield(self._gone)

    def when_gone(self, callback: Callable[[], object]) -> None:
        if self.is_gone:
            callback()
        else:
            self._when_gone.append(callback)

    def end(self, *, grace_s: float) -> None:
        """Ask the tree to end (SIGTERM), and kill it (SIGKILL) after the grace period.

        The watcher measures the time, so the tree is killed even if the caller is gone.
        """
        if self._is_left:
            self._kill()
        elif not self.is_gone:
            try:
                self.sock.send(frame_value(max(0, round(grace_s * 1000))))
            except OSError:
                self.close()

    async def finish(self, *, grace_s: float) -> None:
        """End the tree, and wait for a limited time until it is gone, even in a cancelled task.

        A process that takes longer is stuck in the kernel. Its watcher stays until the process can
        be killed.
        """
        self.end(grace_s=grace_s)
        await self.gone_within(grace_s + GONE_WAIT_S)

    async def gone_within(self, wait_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self.wait_gone()

    async def keep(self, record: int, file: int, pipes: Sequence[int], *, most_bytes: int) -> bool:
        """Let the child continue without clew. Return False if the child has already ended.

        How the child ends is written to `record`. Once clew is gone, the child's output from the
        pipes is written to `file`, at most `most_bytes`.
        """
        if not self.is_gone:
            order = frame_value({"most": most_bytes})
            try:
                socket.send_fds(self.sock, [order], [record, file, *pipes])
            except OSError:
                self.close()
            await asyncio.wait([self._kept, self._gone], return_when=asyncio.FIRST_COMPLETED)
        self.is_kept = self._kept.done()
        return self.is_kept

    def close(self) -> None:
        """Close the socket.

        The watcher then kills whatever is still running, unless the child is kept.
        """
        if not self.is_gone:
            self._over(is_sound=False)

    def _over(self, *, is_sound: bool) -> None:
        """Record that all processes of the tree have ended.

        `is_sound` means that the watcher itself reported this, so it can start another child.
        """
        self._loop.remove_reader(self.sock)
        if not is_sound:
            self.sock.close()
        if not self._started.done():
            self._started.set_exception(
                OutsideError("the process that watches the command was killed")
            )
            self._started.exception()
        if not self._ended.done():
            self._ended.set_result(exit_of(signal.SIGKILL))
        self._gone.set_result(None)
        for callback in self._when_gone:
            callback()

    def _read(self) -> None:
        try:
            data = self.sock.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            self._told(line.split())
        if not data:
            self._lost()

    def _lost(self) -> None:
        """Handle the loss of the watcher: kill the tree, in case no other process does.

        A kept child that is still running continues without a watcher.
        """
        if not self.is_gone and self.is_kept and is_alive(self.pid, self._since):
            self._is_left = True
            self._loop.remove_reader(self.sock)
            self._loop.call_later(LOOK_S, self._look, self._loop.time() + KEEPER_S)
            return
        if not self.is_gone and not self.is_kept:
            self._kill()
        self.close()

    def _look(self, told_at: float) -> None:
        """Check repeatedly on a kept child that has lost its watcher.

        The child continues, and its output is read as long as clew runs.
        """
        if self.is_gone:
            return
        if not is_alive(self.pid, self._since):
            # The child's last output is read until then.
            self._loop.call_later(LOOK_S, self.close)
            return
        if not self.is_unwatched and self._loop.time() >= told_at:
            self.is_unwatched = True
            if self.when_unwatched is not None:
                self.when_unwatched()
        self._loop.call_later(LOOK_S, self._look, told_at)

    def _kill(self) -> None:
        if self._since == read_start_ticks(self.pid) != 0:
            for pid in (*find_descendants(self.pid), self.pid, -self.pid):
                send_signal(pid, signal.SIGKILL)

    def _told(self, words: list[bytes]) -> None:
        match words:
            case [b"forked", pid]:
                self.pid = int(pid)
                self._since = read_start_ticks(self.pid)
            case [b"started"]:
                self._settle(self._started)
            case [b"off"]:
                self.is_called_off = True
            case [b"left"]:
                # Daemons continue, and their watcher with them.
                self._over(is_sound=False)
            case [b"kept"]:
                self._settle(self._kept)
            case [b"failed", number]:
                error = OSError(int(number), os.strerror(int(number)))
                if not self._started.done():
                    self._started.set_exception(error)
                    self._started.exception()
            case [b"ended", status, left]:
                self.left = int(left)
                if not self._ended.done():
                    self._ended.set_result(exit_of(int(status)))
            case [b"gone"]:
                self._over(is_sound=True)
            case _:
                self.close()

    @staticmethod
    def _settle(future: "asyncio.Future[None]") -> None:
        if not future.done():
            future.set_result(None)
