"""Replaces a file whole or not at all.

Owns the atomic replace: a new file beside the old one, made durable, renamed over it. A link is
followed, so that a settings file kept elsewhere stays a link. What is made anew is its owner's
alone; permission bits of what exists are kept. A reader sees the old text or the new, never half.
"""

import contextlib
import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from clew.config.there import is_there

# Whoever holds the lock for longer was stopped in the middle: nobody waits for that.
WAITS_S = 10.0
LOOK_S = 0.005


@contextlib.contextmanager
def alone(home: Path) -> Iterator[None]:
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
            while not locked(handle) and time.monotonic() < until_s:
                time.sleep(LOOK_S)  # the kernel waits for a lock without a bound, or not at all
        yield


def locked(handle: int) -> bool:
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
    for each in reversed([p for p in (folder, *folder.parents) if not is_there(p)]):
        each.mkdir(mode=0o700, exist_ok=True)


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
