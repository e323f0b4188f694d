"""Start children through one keeper process, so that none of them can outlive clew.

Owns the keeper (`watcher.py`) and the requests to start children. Must never fork this process: the
larger a process has become, the more a fork costs, and a fork copies what other threads hold.

Decision: docs/decisions/070-child-processes.md
"""

import asyncio
import contextlib
import errno
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from clew.core.messages.errors import OutsideError
from clew.system.process.programs import OWN_PROGRAMS, find_own_program
from clew.system.process.tree import GONE_WAIT_S, Child, frame_value
from clew.system.process.walls import Walls
from clew.system.process.watcher import CONTROL_FD, NOTHING_LEFT

SOURCE = Path(__file__).parents[3]
START_WAIT_S, WAKE_S = 20.0, 0.2
# Watchers that wait for their next child. Hooks of one event commonly run this many in parallel.
IDLE_MOST = 10


def keeper_command(*, adopts: bool) -> list[str]:
    program = (
        f"import sys; sys.path.append({str(SOURCE)!r}); "
        f"from clew.system.process.watcher import main; main({adopts=})"
    )
    return [sys.executable, "-I", "-S", "-c", program]


def own_environment() -> dict[str, str]:
    """Return the few variables that an interpreter needs to start.

    The keeper gets only these, so it has no key that a command could read from its environment.
    """
    wanted = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TMPDIR")
    return {name: os.environ[name] for name in wanted if name in os.environ}


def is_silent(sock: socket.socket) -> bool:
    """Return whether the other side of a socket is alive and has sent nothing.

    This is the state of a waiting watcher.
    """
    try:
        sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


class Launcher:
    """Starts all children of one clew process, and tracks those that have not ended.

    `adopts=False` turns off the adoption of orphans, as on systems that do not support it.
    """

    __slots__ = ("_adopts", "_control", "_idle", "_keeper", "_living")

    def __init__(self, *, adopts: bool = True) -> None:
        self._adopts = adopts
        self._control: socket.socket | None = None
        self._keeper = 0
        self._living: set[Child] = set()
        self._idle: list[socket.socket] = []

    @property
    def living(self) -> int:
        """The number of children that are still running or have running descendants."""
        return len(self._living)

    def start(self) -> None:
        """Start the keeper, unless it is running.

        If this is called early, the first child does not have to wait for an interpreter to start.
        """
        if self._control is not None:
            return
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            self._keeper = os.posix_spawn(
                sys.executable,
                keeper_command(adopts=self._adopts),
                own_environment(),
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, theirs.fileno(), CONTROL_FD),
                    *((os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in range(3)),
                ],
                setsid=True,
            )
        self._control = ours

    async def spawn(
        self,
        argv: Sequence[str],
        *,
        cwd: str | os.PathLike[str],
        env: Mapping[str, str],
        descriptors: Mapping[int, int],
        walls: Walls | None = None,
        leaves: int = NOTHING_LEFT,
        has_no_links: bool = False,
    ) -> Child:
        """Start `argv` in a new process session.

        `descriptors` maps the child's descriptors to descriptors of this process. Of 0, 1
        and 2, those that are not mapped become the null device. `walls` restrict the child
        (see `system.process.walls`), and `leaves` specifies which processes of its tree
        continue after clew. Raise OSError as exec would, if a restriction cannot be
        applied, or if `cwd` contains a link although it `has_no_links`.
        """
        import shutil

        path = env.get("PATH", os.defpath)
        if argv[0] in OWN_PROGRAMS:
            program = find_own_program(argv[0], path, folder=os.fspath(cwd))
        else:
            program = shutil.which(argv[0], path=path)
        if program is None:
            raise FileNotFoundError(f"program not found: {argv[0]}")
        if any("\0" in text for text in argv):
            raise OSError(errno.EINVAL, "an argument contains a NUL character")
        for name, value in env.items():
            if not name or "=" in name or "\0" in name + value:
                raise OSError(errno.EINVAL, f"invalid environment variable {name[:40]!r}")
        request = frame_value(
            (
                [os.fsencode(program), *map(os.fsencode, argv[1:])],
                os.fsencode(cwd),
                {os.fsencode(name): os.fsencode(value) for name, value in env.items()},
                list(descriptors),
                walls,
                leaves,
                has_no_links,
            )
        )
        child = Child(self._watcher(), leaves)
        self._living.add(child)
        child.when_gone(lambda: self._back(child))
        try:
            sent = socket.send_fds(child.sock, [request], list(descriptors.values()))
            if sent < len(request):
                await asyncio.get_running_loop().sock_sendall(child.sock, request[sent:])
        except BaseException:
            child.close()
            raise
        try:
            async with asyncio.timeout(START_WAIT_S), self._kept_awake():
                await child.wait_started()
        except TimeoutError:
            child.close()
            self._drop_keeper()
            raise OutsideError("the process that starts commands did not respond") from None
        except BaseException as error:
            if leaves > 0 and isinstance(error, asyncio.CancelledError):
                child.close()  # It starts, and continues without clew.
            else:
                # The child may have started despite the error.
                await child.finish(grace_s=0)
            raise
        return child

    def _watcher(self) -> socket.socket:
        """Return the socket to a waiting watcher, or to a new one if none is waiting."""
        if self._control is not None and not is_silent(self._control):
            self._drop_keeper()
        while self._idle:
            sock = self._idle.pop()
            if is_silent(sock):
                return sock
            sock.close()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            try:
                self._send([theirs.fileno()])
            except OSError:
                # The keeper is gone or stuck. Its watchers continue without it.
                self._drop_keeper()
                self._send([theirs.fileno()])
        return ours

    def _back(self, child: Child) -> None:
        self._living.discard(child)
        if child.sock.fileno() < 0:
            return
        if self._control is None or len(self._idle) >= IDLE_MOST:
            child.sock.close()
        else:
            self._idle.append(child.sock)

    def _send(self, descriptors: list[int]) -> None:
        self.start()
        assert self._control is not None
        self._wake()
        socket.send_fds(self._control, [b"+"], descriptors)

    @contextlib.asynccontextmanager
    async def _kept_awake(self) -> AsyncIterator[None]:
        """Wake the watcher repeatedly: a command may stop it before it reports the start."""

        async def waking() -> None:
            while True:
                await asyncio.sleep(WAKE_S)
                self._wake()

        task = asyncio.create_task(waking())
        try:
            yield
        finally:
            task.cancel()

    def _wake(self) -> None:
        """Continue the keeper with SIGCONT, and through it the watchers.

        A command may have stopped them.
        """
        if self._control is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._keeper, signal.SIGCONT)

    def _drop_keeper(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
            # Its watchers continue without it; killing it ensures that it cannot block us.
            os.kill(self._keeper, signal.SIGKILL)
            os.waitpid(self._keeper, 0)
        while self._idle:
            self._idle.pop().close()

    async def aclose(self, *, grace_s: float = 0.05) -> None:
        """End all children, and wait for a limited time until they are gone.

        Background hooks, and the daemons of hooks and servers, continue to run.
        """
        living = list(self._living)
        self._wake()
        for child in living:
            if child.leaves > 0:
                child.close()
            else:
                child.end(grace_s=grace_s)
        try:
            # A process that takes longer is stuck in the kernel. Its watcher stays until it can be
            # killed.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace_s + GONE_WAIT_S):
                    for child in living:
                        await child.wait_gone()
        finally:
            for child in living:
                child.close()
            await self._end_keeper()

    async def _end_keeper(self) -> None:
        """Let the keeper end the processes of killed watchers, then end the keeper."""
        if self._control is None:
            return
        self._control.shutdown(socket.SHUT_WR)
        try:
            with contextlib.suppress(TimeoutError, ConnectionError):
                async with asyncio.timeout(GONE_WAIT_S):
                    await asyncio.get_running_loop().sock_recv(self._control, 1)
        finally:
            self._drop_keeper()
