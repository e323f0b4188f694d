"""The registry of running sessions: one small file per process, below clew's private folder.

A process keeps its file locked while it lives, so the kernel reports which processes are alive. A
process ID could not, because it may have been reused. Readers remove the files of dead processes.

Decision: docs/decisions/050-transcript-lock.md
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from clew.record.transcript.paths import get_own_dir
from clew.system import clock
from clew.system.files import make_private


class Running(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A process and the session it has open; `status` is `busy` during a turn, otherwise `idle`."""

    pid: int
    session_id: str
    cwd: str
    status: str = "idle"
    name: str = ""
    started_at: str = ""
    version: str = ""

    def __str__(self) -> str:
        name = f" ({self.name})" if self.name else ""
        since = (
            f", since {clock.format_local_timestamp(self.started_at)}" if self.started_at else ""
        )
        return f"process {self.pid}{name} in {self.cwd}{since}"


class Registration:
    """A session's entry in the registry; each change replaces the file atomically.

    If the home is not writable, the session still runs, but other processes can't see it.
    """

    def __init__(self, home: Path, running: Running) -> None:
        self._folder = _folder(home)
        # A process can have several sessions open, so the name contains the session's ID.
        self._path = self._folder / f"{running.pid}-{running.session_id}.json"
        self.running = running
        self._fd = -1
        with contextlib.suppress(OSError):
            make_private(self._folder)
            for _ in list_running(home):
                pass  # The next listing removes the files of dead processes.
        self._write()

    def update(self, **changes: str) -> None:
        """Set the status or the name."""
        self.running = msgspec.structs.replace(self.running, **changes)
        self._write()

    def leave(self) -> None:
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)
            os.close(self._fd)
            self._fd = -1

    def _write(self) -> None:
        beside = self._path.with_suffix(".new")
        fd = -1
        try:
            # The file is locked before it gets its name, so that no reader mistakes it for a dead
            # process's file in the meantime.
            fd = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(fd, msgspec.json.encode(self.running))
            beside.rename(self._path)
        except OSError:
            if fd >= 0:
                os.close(fd)
                with contextlib.suppress(OSError):
                    beside.unlink(missing_ok=True)
            return
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = fd


def list_running(home: Path) -> Iterator[Running]:
    """Yield the running sessions, and remove the entries of dead processes."""
    for path in sorted(_folder(home).glob("*.json")):
        session = _read(path)
        if session is not None:
            yield session


def find_holder(home: Path, session_id: str) -> Running | None:
    """Return the other process that has a session open, or None if none is registered."""
    others = (r for r in list_running(home) if r.pid != os.getpid())
    return next((r for r in others if r.session_id == session_id), None)


def _read(path: Path) -> Running | None:
    with contextlib.suppress(OSError), path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            with contextlib.suppress(msgspec.MsgspecError):
                return msgspec.json.decode(file.read(), type=Running)
            return None
        path.unlink(missing_ok=True)
    return None


def _folder(home: Path) -> Path:
    return get_own_dir(home) / "running"
