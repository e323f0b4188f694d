"""What a person keeps beyond clew's end: a record for each command that goes on without it.

A record is a file of clew's own: a line that says what runs, and a second that its watcher writes when
it has ended (`system.process.watcher`). The watcher holds the file locked for as long as it lives, so that the
kernel, and no process number that may be another's by now, says whether it runs. Where the watcher was
killed, the command is known by its number, its beginning and the machine's own. Must never signal a
process that is not the very one that was begun.

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

# Records of what ended are of use until the session hears of it; who never asks loses nothing else.
FORGOTTEN_S = 30 * 24 * 3600
# Names are made from session and task ids; nothing else in the folder is a record.
SUFFIX = ".jsonl"
# More than any command line has; what is larger is no record.
MOST_BYTES = 16 << 20
# Seconds that a calendar holds, and a status as the kernel gives it.
Moment: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=253_402_300_800)]
WaitStatus: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=2**16)]


class About(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What runs: as a task of which session, begun by which call, and where what it prints goes.

    `since` is when process `pid` began, as the kernel counts from the machine's own beginning, `boot`;
    0 and nothing where it does not say.
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
    # A person ended it, with a word and not with a signal of their own.
    called_off: bool = False

    @property
    def exit(self) -> ProcessExit:
        return exit_of(self.wait_status)


class KeptRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record as it stands: without an end and not running, nobody saw how it ended; running and
    not watched, nobody will."""

    path: Path
    about: About
    end: End | None
    is_running: bool
    is_watched: bool

    @property
    def name(self) -> str:
        return f"{self.about.session_id[:8]}/{self.about.task_id}"


class RecordFolder:
    """Where the records of one session's tasks are put."""

    def __init__(self, folder: Path, session_id: str) -> None:
        self._folder = folder
        self._session_id = session_id

    @property
    def is_used(self) -> bool:
        """Whether anything was ever kept: most people keep nothing."""
        return is_folder(self._folder)

    def here(self) -> list[KeptRecord]:
        """Those of this session."""
        return list(find_records(self._folder, f"{self._session_id}-"))

    def was_called_off(self, task_id: str) -> bool:
        """Whether a person ended one of this session from elsewhere."""
        record = read(self._path(task_id))
        return record is not None and record.end is not None and record.end.called_off

    def of_call(self, tool_use_id: str) -> KeptRecord | None:
        """What a call began, in whatever session."""
        return next(
            (k for k in find_records(self._folder) if k.about.tool_use_id == tool_use_id), None
        )

    async def put(
        self, task_id: str, hold: Hold, output: ProcessOutput, *, kind: str, title: str, command: str,
        cwd: str, tool_use_id: str,
    ) -> None:  # fmt: skip
        """Has a command go on without clew. Raises UserError where it cannot."""
        pid = await hold.begun()
        output.save()
        if output.descriptor < 0:
            raise UserError(f"what task {task_id} prints goes to no file, so it cannot be kept")
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
            raise UserError(f"task {task_id} cannot be kept: {error}") from None
        room = max(0, output.file_max_bytes - output.saved_bytes)
        try:
            is_kept = await hold.keep(record, output.descriptor, most_bytes=room)
        finally:
            os.close(record)
        if not is_kept:
            path.unlink(missing_ok=True)
            raise UserError(f"task {task_id} does not run")

    def _path(self, task_id: str) -> Path:
        return self._folder / f"{self._session_id}-{task_id}{SUFFIX}"

    def _made(self, path: Path, about: About) -> int:
        """Locked before it has its name: nobody may take it for what has ended between the two."""
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
    """The records there are, those that nobody needs any more taken away on the way."""
    for path in sorted(folder.glob(f"{beginning}*{SUFFIX}")):
        record = read(path)
        if record is None:
            continue
        if not record.is_running and _age_s(path) > FORGOTTEN_S:
            forget(record)
        else:
            yield record


def _age_s(path: Path) -> float:
    """0 where somebody else has taken it away meanwhile."""
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0


def read(path: Path) -> KeptRecord | None:
    """A record as it stands; None for what is none, or is gone."""
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
    """Asks it to end, with all that it started; its watcher makes it, if it does not. What nobody
    watches is made to at once."""
    about, now = record.about, read(record.path)
    # To kill(2) the groups 0 and 1 are our own and everybody.
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
        # First, for it is over for everybody from the moment at which it does not live.
        _was_called_off(now)
        for pid in (*find_descendants(about.pid), -about.pid):
            send_signal(pid, signal.SIGKILL)


def _was_called_off(record: KeptRecord) -> None:
    """Writes down how what nobody watched will have ended."""
    end = End(wait_status=signal.SIGKILL, ended_at=int(time.time()), called_off=True)
    with contextlib.suppress(OSError), record.path.open("ab") as file:
        file.write(msgspec.json.encode(end) + b"\n")


def goes_on(about: About) -> bool:
    """Whether the very process that was begun runs, since the same beginning of the machine."""
    return bool(about.boot) and about.boot == boot() and is_alive(about.pid, about.since)


def boot() -> str:
    """Which beginning of the machine this is; processes count from it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""
