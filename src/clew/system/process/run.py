"""Run one command to its end, keeping its output, with a time limit and cancellation."""

import array
import asyncio
import contextlib
import fcntl
import mmap
import os
import sys
import termios
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import BinaryIO

from msgspec import Struct

from clew.system.process.output import ProcessOutput
from clew.system.process.spawn import Launcher
from clew.system.process.tree import Child, ProcessExit
from clew.system.process.walls import Walls
from clew.system.process.watcher import NOTHING_LEFT

# Input for a child's descriptor: bytes in an anonymous file, in memory where the system supports
# that.


@contextmanager
def hold_data(data: bytes) -> Iterator[int]:
    """Yield a descriptor from which `data` can be read. Raise OSError if the disk is too full."""
    with nameless() as file:
        file.write(data)
        file.seek(0)
        yield file.fileno()


def nameless() -> BinaryIO:
    if hasattr(os, "memfd_create"):
        # A tenth of a file's cost, and independent of a full disk.
        return os.fdopen(os.memfd_create("clew"), "w+b")
    import tempfile

    return tempfile.TemporaryFile()


READ_BYTES = 1 << 18
PIPE_BYTES = 1 << 18
TICK_S = 1.0
# After a cancellation the user is waiting; after a timeout the command may still clean up.
CANCEL_GRACE_S = 0.05
TIMEOUT_GRACE_S = 1.0
# A process that survives a pipeline for a moment is not treated as a background process.
SETTLE_S = 0.05


class FinishedCommand(Struct, frozen=True, kw_only=True):
    """The end of a command.

    `left` is the number of processes that the command left running, which end with clew.
    `called_off` means that the command was kept and the user ended it from another process.
    `is_unseen` means that the command's watcher was killed, so its exit status is unknown.
    """

    exit: ProcessExit
    is_unseen: bool = False
    called_off: bool = False
    timed_out: bool = False
    left: int = 0


class Hold:
    """The means to keep a running command beyond its time limit or beyond the end of clew."""

    __slots__ = ("_child", "_known", "_limit", "_streams", "has_limit", "when_unwatched")

    def __init__(self) -> None:
        self.has_limit = True
        # Called when the command continues but its end will not be observed.
        self.when_unwatched: Callable[[], object] | None = None
        # Set once the command has started or failed to start.
        self._known = asyncio.Event()
        self._child: Child | None = None
        self._limit: asyncio.Timeout | None = None
        self._streams: Sequence[Stream] = ()

    def lift_limit(self) -> None:
        self.has_limit = False
        if self._limit is not None:
            self._limit.reschedule(None)

    async def begun(self) -> int:
        """Wait until the command has started. Return its process ID, or 0 if it could not start."""
        await self._known.wait()
        return 0 if self._child is None else self._child.pid

    async def keep(self, record: int, file: int, *, most_bytes: int) -> bool:
        """Let the command continue without clew. Return False if the command is not running.

        The parameters are those of `Child.keep`.
        """
        # The command may have closed its output and still be running.
        pipes = [stream.read_end for stream in self._streams if stream.read_end >= 0]
        child = self._child
        return child is not None and await child.keep(record, file, pipes, most_bytes=most_bytes)

    def give_up(self) -> None:
        """Stop keeping the command, so that it ends with clew or earlier."""
        if self._child is not None:
            self._child.is_kept = False

    def began(self, child: Child, streams: "Sequence[Stream]") -> None:
        self._child, self._streams = child, streams
        child.when_unwatched = self.when_unwatched
        self._known.set()

    def over(self) -> None:
        """Record that the command has ended or could not start."""
        self._known.set()

    def limited(self, limit: asyncio.Timeout) -> None:
        self._limit = limit
        if not self.has_limit:
            limit.reschedule(None)


class Stream:
    """The reading end of a child's pipe. Passes what arrives to a `ProcessOutput`."""

    __slots__ = ("_loop", "_output", "read_end", "write_end")
    # One buffer shared by all streams: a new one would cost page faults, and each read is processed
    # before the next one. It takes no memory until something is read.
    _buffer = memoryview(mmap.mmap(-1, READ_BYTES))

    def __init__(self, output: ProcessOutput) -> None:
        self.read_end, self.write_end = os.pipe()
        os.set_blocking(self.read_end, False)
        if sys.platform == "linux":
            # Once an unprivileged user has many pipes, further ones cannot be large. A small one
            # also works.
            with contextlib.suppress(PermissionError):
                fcntl.fcntl(self.read_end, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._output: ProcessOutput | None = output
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self.read_end, self._read, READ_BYTES)

    def close_write_end(self) -> None:
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1

    def settle(self) -> None:
        """Read the output so far, without waiting for processes that still hold the pipe."""
        waiting = array.array("i", [0])
        if self.read_end >= 0:
            fcntl.ioctl(self.read_end, termios.FIONREAD, waiting)
        while waiting[0] > 0 and self.read_end >= 0:
            waiting[0] -= self._read(waiting[0])
        # From here on the pipe is only drained, so that a background process does not block on it.
        self._output = None

    def close(self) -> None:
        self.close_write_end()
        if self.read_end >= 0:
            self._loop.remove_reader(self.read_end)
            os.close(self.read_end)
            self.read_end = -1

    def _read(self, size: int) -> int:
        try:
            count = self._output.take_from(self.read_end, size) if self._output else None
            if count is None:
                count = os.readv(self.read_end, [self._buffer[:size]])
                if self._output is not None:
                    self._output.feed(self._buffer[:count])
        except BlockingIOError:
            return size
        if not count:
            self.close()
        return count


async def run(
    launcher: Launcher,
    argv: Sequence[str],
    *,
    cwd: str | os.PathLike[str],
    env: Mapping[str, str],
    stdout: ProcessOutput,
    stderr: ProcessOutput | None = None,
    descriptors: Mapping[int, int] | None = None,
    timeout_s: float | None = None,
    tick: Callable[[], Awaitable[None]] | None = None,
    walls: Walls | None = None,
    hold: Hold | None = None,
    leaves: int = NOTHING_LEFT,
    has_no_links: bool = False,
) -> FinishedCommand:
    """Run a command, and return how it ended.

    Cancelling the call ends the command unless it is kept, or may continue after clew
    (`leaves`). Without `stderr`, both streams go to `stdout` in the order they were written.
    `tick` is awaited every second. Raise OSError if the program cannot be started, or if `cwd`
    contains a link although it `has_no_links`.
    """
    streams: list[Stream] = []
    child: Child | None = None
    try:
        streams += (Stream(output) for output in (stdout, stderr) if output is not None)
        targets = {1: streams[0].write_end, 2: streams[-1].write_end, **(descriptors or {})}
        child = await launcher.spawn(
            argv,
            cwd=cwd,
            env=env,
            descriptors=targets,
            walls=walls,
            leaves=leaves,
            has_no_links=has_no_links,
        )
        for stream in streams:
            child.when_gone(stream.close)
            stream.close_write_end()
        if hold is not None:
            hold.began(child, streams)
        return await follow(child, timeout_s, tick, hold)
    except BaseException as error:
        is_left = child is not None and leaves > 0 and isinstance(error, asyncio.CancelledError)
        if child is not None and (child.is_kept or is_left):
            child.close()
        elif child is not None:
            await child.finish(grace_s=CANCEL_GRACE_S)
        raise
    finally:
        for stream in streams:
            if child is None:
                stream.close()
            else:
                stream.settle()
        for output in (stdout, stderr):
            if output is not None:
                output.close()


async def follow(
    child: Child,
    timeout_s: float | None,
    tick: Callable[[], Awaitable[None]] | None,
    hold: Hold | None,
) -> FinishedCommand:
    try:
        async with asyncio.timeout(timeout_s) as limit:
            if hold is not None:
                hold.limited(limit)
            ended = await ticking(child, tick)
    except TimeoutError:
        await child.finish(grace_s=TIMEOUT_GRACE_S)
        return FinishedCommand(exit=await ended_or_killed(child), timed_out=True)
    if child.left and not child.is_gone:
        await child.gone_within(SETTLE_S)
    return FinishedCommand(
        exit=ended,
        called_off=child.is_called_off,
        is_unseen=child.is_unwatched,
        left=0 if child.is_gone else child.left,
    )


async def ticking(child: Child, tick: Callable[[], Awaitable[None]] | None) -> ProcessExit:
    while tick is not None:
        try:
            async with asyncio.timeout(TICK_S):
                return await child.wait()
        except TimeoutError:
            await tick()
    return await child.wait()


async def ended_or_killed(child: Child) -> ProcessExit:
    if not child.is_gone:
        # The process is stuck in the kernel, where no signal reaches it. Closing leaves it to its
        # watcher.
        child.close()
    return await child.wait()


# Small programs whose output is needed within a time limit.


class Programs:
    """Runs small programs in a folder and an environment. None of them outlives `aclose`."""

    def __init__(
        self, cwd: str, environ: Mapping[str, str], launcher: Launcher | None = None
    ) -> None:
        self.cwd = cwd
        self.environ = environ
        self._launcher = launcher or Launcher()

    async def printed(
        self,
        argv: Sequence[str],
        *,
        data: bytes = b"",
        timeout_s: float = 5.0,
        most_bytes: int = 1 << 20,
        env: Mapping[str, str] | None = None,
    ) -> bytes | None:
        """Run a program, and return its standard output.

        Return None if the program failed, wrote too much or exceeded the time limit.
        """
        stdout, stderr = ProcessOutput(keep_bytes=most_bytes), ProcessOutput(keep_bytes=1)
        with hold_data(data) as source:
            try:
                done = await run(
                    self._launcher,
                    argv,
                    cwd=self.cwd,
                    env={**self.environ, **(env or {})},
                    stdout=stdout,
                    stderr=stderr,
                    descriptors={0: source},
                    timeout_s=timeout_s,
                )
            except OSError:
                return None
        if done.timed_out or done.exit.code != 0 or stdout.left_out:
            return None
        return bytes(stdout.head) + stdout.tail

    async def aclose(self) -> None:
        await self._launcher.aclose()
