"""Records of background commands that keep running after clew exits.

A record is a file with one line that describes the command. The command's watcher
(`system.process.watcher`) appends a second line when the command ends. The watcher locks the file
for as long as the watcher runs, so the lock shows whether the command is still watched. A process
ID could not show this, because it may have been reused. If the watcher was killed, the command is
identified by its process ID, its start time and the boot ID of the machine. This module must never
signal a process other than the one that was started.

Decision: docs/decisions/245-kept-commands.md
"""

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec

from clew.core.messages.errors import UserError
from clew.system.files import is_folder, make_private, open_only_files
from clew.system.process.output import ProcessOutput
from clew.system.process.run import Hold
from clew.system.process.tree import ProcessExit, exit_of, is_alive, read_parent, read_start_ticks
from clew.system.process.watcher import find_descendants, send_signal

# The record of an ended command is useful only until its session reports the result. A session that
# is never resumed does not need it.
FORGOTTEN_S = 30 * 24 * 3600
# Names are made from session and task IDs. No other file in the folder is a record.
SUFFIX = ".jsonl"
# No command line is this long; a larger file is not a record.
MOST_BYTES = 16 << 20
# Seconds within the range of a calendar date, and a wait status as returned by the kernel.
Moment: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=253_402_300_800)]
WaitStatus: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=2**16)]


class About(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A kept command: its session, task, tool call, process and output file.

    `since` is the start time of process `pid` in clock ticks since `boot`, the boot ID of the
    machine. `since` is 0 and `boot` is empty on platforms that do not report them.
    """

    session_id: str
    task_id: str
    kind: str
    title: str
    command: str
    cwd: str
    file: str
    tool_use_id: str
    pid: int
    since: int
    kept_at: Moment
    boot: str = ""


class End(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    wait_status: WaitStatus
    ended_at: Moment
    # Whether the user stopped the command with a clew command, not with a signal.
    called_off: bool = False

    @property
    def exit(self) -> ProcessExit:
        return exit_of(self.wait_status)


class KeptRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record of a kept command, and the command's current state.

    If the command has no `end` and is not running, its exit status is unknown. If it is running but
    not watched, its exit status will never be known.
    """

    path: Path
    about: About
    end: End | None
    is_running: bool
    is_watched: bool

    @property
    def name(self) -> str:
        return f"{self.about.session_id[:8]}/{self.about.task_id}"


class RecordFolder:
    """The folder with the records of one session's tasks."""

    def __init__(self, folder: Path, session_id: str) -> None:
        self._folder = folder
        self._session_id = session_id

    @property
    def is_used(self) -> bool:
        """True if any command was ever kept; most users keep none."""
        return is_folder(self._folder)

    def here(self) -> list[KeptRecord]:
        """Return the records of this session."""
        return list(find_records(self._folder, f"{self._session_id}-"))

    def was_called_off(self, task_id: str) -> bool:
        """Return whether the user stopped this session's task with a clew command."""
        record = read(self._path(task_id))
        return record is not None and record.end is not None and record.end.called_off

    def of_call(self, tool_use_id: str) -> KeptRecord | None:
        """Return the record of the command that a tool call started, in any session, or None."""
        return next(
            (k for k in find_records(self._folder) if k.about.tool_use_id == tool_use_id), None
        )

    async def put(
        self, task_id: str, hold: Hold, output: ProcessOutput, *, kind: str, title: str, command: str,
        cwd: str, tool_use_id: str,
    ) -> None:  # fmt: skip
        """Record a command and keep it running after clew exits.

        Raise `UserError` if that is impossible.
        """
        pid = await hold.begun()
        output.save()
        if output.descriptor < 0:
            raise UserError(f"task {task_id} can't be kept: its output is not written to a file")
        about = About(
            session_id=self._session_id,
            task_id=task_id,
            kind=kind,
            title=title,
            command=command,
            cwd=cwd,
            file=str(output.path),
            tool_use_id=tool_use_id,
            pid=pid,
            since=read_start_ticks(pid),
            kept_at=int(time.time()),
            boot=boot(),
        )
        path = self._path(task_id)
        try:
            record = self._made(path, about)
        except OSError as error:
            raise UserError(f"task {task_id} can't be kept: {error}") from None
        room = max(0, output.file_max_bytes - output.saved_bytes)
        try:
            is_kept = await hold.keep(record, output.descriptor, most_bytes=room)
        finally:
            os.close(record)
        if not is_kept:
            path.unlink(missing_ok=True)
            raise UserError(f"task {task_id} is not running")

    def _path(self, task_id: str) -> Path:
        return self._folder / f"{self._session_id}-{task_id}{SUFFIX}"

    def _made(self, path: Path, about: About) -> int:
        """Create a record and return its locked descriptor.

        The file is locked before it gets its name, because a reader that found it unlocked would
        consider the command ended.
        """
        make_private(self._folder)
        beside = path.with_suffix(".new")
        record = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        try:
            fcntl.flock(record, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(record, msgspec.json.encode(about) + b"\n")
            os.fsync(record)
            beside.rename(path)
        except OSError:
            os.close(record)
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)
            raise
        return record


def find_records(folder: Path, beginning: str = "") -> Iterator[KeptRecord]:
    """Yield the records in a folder, and delete those that have expired."""
    for path in sorted(folder.glob(f"{beginning}*{SUFFIX}")):
        record = read(path)
        if record is None:
            continue
        if not record.is_running and _age_s(path) > FORGOTTEN_S:
            forget(record)
        else:
            yield record


def _age_s(path: Path) -> float:
    """Return the age of a file, or 0 if another process has deleted it."""
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0


def read(path: Path) -> KeptRecord | None:
    """Return the state of a record, or None if the file is missing or not a record."""
    try:
        with open(path, "rb", opener=open_only_files) as file:
            is_watched = is_locked(file.fileno())
            first, _, rest = file.read(MOST_BYTES).partition(b"\n")
        about = msgspec.json.decode(first, type=About)
        last = rest.partition(b"\n")[0]
        end = msgspec.json.decode(last, type=End) if last.strip() else None
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    is_running = (is_watched and end is None) or goes_on(about)
    return KeptRecord(path=path, about=about, end=end, is_running=is_running, is_watched=is_watched)


def is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def forget(record: KeptRecord) -> None:
    with contextlib.suppress(OSError):
        record.path.unlink(missing_ok=True)


def call_off(record: KeptRecord) -> None:
    """Stop a command and all processes it started.

    The watcher terminates the command, and kills it if it does not exit. If there is no
    watcher, the command is killed at once.
    """
    about, now = record.about, read(record.path)
    # For kill(2), group 0 is the caller's own group and group 1 means every process.
    if (
        now is None
        or not now.is_running
        or about.pid <= 1
        or read_start_ticks(about.pid) != about.since
    ):
        return
    watcher = read_parent(about.pid) if now.is_watched else 0
    if watcher > 1:
        send_signal(watcher, signal.SIGTERM)
    else:
        # Write the end first: once the process is dead, other readers see the record as ended.
        _was_called_off(now)
        for pid in (*find_descendants(about.pid), -about.pid):
            send_signal(pid, signal.SIGKILL)


def _was_called_off(record: KeptRecord) -> None:
    """Record that a command was stopped, because it has no watcher to record this."""
    end = End(wait_status=signal.SIGKILL, ended_at=int(time.time()), called_off=True)
    with contextlib.suppress(OSError), record.path.open("ab") as file:
        file.write(msgspec.json.encode(end) + b"\n")


def goes_on(about: About) -> bool:
    """Return whether the command's own process, started since the last boot, is still running."""
    return bool(about.boot) and about.boot == boot() and is_alive(about.pid, about.since)


def boot() -> str:
    """Return the boot ID of the machine; start times of processes are relative to that boot."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""
