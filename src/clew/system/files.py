"""Replaces a file whole or not at all.

Owns the atomic replace: a new file beside the old one, made durable, renamed over it. A link is
followed, so that a settings file kept elsewhere stays a link. What is made anew is its owner's
alone; permission bits of what exists are kept. A reader sees the old text or the new, never half.
"""

import contextlib
import errno
import fcntl
import os
import stat
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from os.path import exists as is_there
from os.path import isdir as is_folder
from os.path import isfile as is_file
from os.path import islink as is_link
from pathlib import Path

# What lies at a path, asked without a fault: where nobody may look, there is nothing.


__all__ = ["is_file", "is_folder", "is_link", "is_there", "require_open_folder", "why_closed"]


def why_closed(folder: Path) -> str | None:
    """Why nobody may know what lies in a folder, and by which one of those above it; None where one may,
    and where there is no folder. A link to nothing stands for what is away, such as a disk."""
    ancestor = folder
    try:
        for ancestor in (*reversed(folder.parents), folder):
            (ancestor / "..").stat()  # only who may look into a folder finds the way back
        next(folder.iterdir(), None)
    except (FileNotFoundError, NotADirectoryError):
        # The method of a path that the linter wants raises where nobody may look.
        return f"{ancestor} is a link to what is not there" if is_link(ancestor) else None
    except OSError as error:
        return f"{ancestor} cannot be read: {error.strerror}"
    return None


def require_open_folder(folder: Path) -> None:
    """Raises `OSError` where nobody may know what lies in a folder."""
    closed = why_closed(folder)
    if closed is not None:
        raise PermissionError(closed)


# Opens files of folders that nobody vouches for: a name there may be a pipe, a device or a terminal.


def open_only_files(path: str, flags: int) -> int:
    """For `open(..., opener=only_files)`; a link leads to what counts."""
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return descriptor  # of a folder `open` says itself that it is one
    os.close(descriptor)
    raise OSError(errno.EINVAL, "is not a regular file", path)


def read_content(path: Path, most_bytes: int = -1) -> bytes:
    """What a file holds, or its beginning."""
    with open(path, "rb", opener=open_only_files) as file:
        return file.read(most_bytes)


# Whoever holds the lock for longer was stopped in the middle: nobody waits for that.
WAITS_S = 10.0
LOOK_S = 0.005


@contextlib.contextmanager
def hold_lock(home: Path) -> Iterator[None]:
    """Nobody else who asks for it changes files of this config home, or of a project's settings.

    For who reads a file to write it again with something more: else the later of two takes away
    what the earlier has added. Where a home cannot be made, or has no locks, nobody waits.
    The lock is on the config home, which is never replaced as the file is, for a project's file too: a
    lock next to that would leave something in the project.
    """
    with contextlib.ExitStack() as opened:
        with contextlib.suppress(OSError):
            make_private(home)
            handle = os.open(home, os.O_RDONLY)
            opened.callback(os.close, handle)
            until_s = time.monotonic() + WAITS_S
            while not try_lock(handle) and time.monotonic() < until_s:
                time.sleep(LOOK_S)  # the kernel waits for a lock without a bound, or not at all
        yield


def try_lock(handle: int) -> bool:
    """Takes the lock of an open file or folder, if nobody has it. Where there are no locks, nobody has."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def replace(path: Path, text: str, *, mode: int | None = None) -> None:
    """`mode` is for a file that must never be read by others, whoever made it."""
    target = path.resolve()
    make_private(target.parent)
    bits = mode if mode is not None else bits_of(target)
    handle, name = tempfile.mkstemp(prefix=".clew-", dir=target.parent)
    draft = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            os.fchmod(stream.fileno(), bits)
            stream.write(text.encode("utf-8"))
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def make_private(folder: Path) -> None:
    """Makes a folder and what is missing above it, each its owner's alone; the rest stays."""
    for ancestor in reversed([p for p in (folder, *folder.parents) if not is_there(p)]):
        ancestor.mkdir(mode=0o700, exist_ok=True)


def bits_of(path: Path) -> int:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return 0o600


def sync_folder(folder: Path) -> None:
    """Makes the rename durable; a file system that cannot is left as it is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(handle)
    finally:
        os.close(handle)


# Looks for markdown files in folders that nobody vouches for: within bounds, and through no folder twice.


MAX_FILES = 2_000
MAX_FOLDERS = 500
MAX_DEPTH = 5


def list_names(folder: Path, faults: list[str]) -> list[str]:
    """What lies in a folder, hidden names apart; none where there is no such folder."""
    try:
        names = sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        faults.append(f"{folder}: {error.strerror}")
        return []
    if len(names) > MAX_FILES:
        faults.append(f"{folder}: only the first {MAX_FILES} of {len(names)} are read")
    return [name for name in names[:MAX_FILES] if not name.startswith(".")]


def find_markdown(folder: Path, faults: list[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every markdown file, with the names of the folders it lies in and its own.

    What lies near goes before what lies deep, so that a folder without an end keeps nothing else out.
    """
    seen: set[tuple[int, int]] = set()
    waiting: deque[tuple[str, tuple[str, ...]]] = deque([(str(folder), ())])
    files = 0
    while waiting:
        current_folder, above = waiting.popleft()
        place = _place(current_folder)
        if place is None or place in seen:
            continue
        seen.add(place)
        if len(seen) > MAX_FOLDERS or files > MAX_FILES:
            faults.append(
                f"{folder}: too many folders or files; {current_folder} and others are not read"
            )
            return
        for name in list_names(Path(current_folder), faults):
            path = f"{current_folder}/{name}"
            if name.endswith(".md"):
                files += 1
                yield path, (*above, name.removesuffix(".md"))
            elif len(above) < MAX_DEPTH:
                waiting.append((path, (*above, name)))


def _place(path: str) -> tuple[int, int] | None:
    """Which folder this is, whatever it is called; None if it is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISDIR(status.st_mode) else None
