"""A folder beside a session's file in which another is made of it, by one process at a time.

The kernel gives it back when a process ends: what a killed one left there goes with the next.

Decision: docs/decisions/053-transcript-repair.md
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clew.config.there import is_folder, is_link
from clew.config.write import locked

SUFFIX = ".repairing"


@contextmanager
def staging(path: Path) -> Iterator[Path]:
    """An empty folder, gone afterwards. Raises BlockingIOError where another process has it."""
    folder = path.with_suffix(SUFFIX)
    handle = _claimed(folder)
    try:
        _cleared(folder)
        try:
            yield folder
        finally:
            shutil.rmtree(folder)
    finally:
        os.close(handle)


def _claimed(folder: Path) -> int:
    while True:
        folder.mkdir(mode=0o700, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        if not locked(handle):
            os.close(handle)
            raise BlockingIOError(f"{folder} is another process's")
        if is_folder(folder) and os.path.samestat(folder.stat(), os.fstat(handle)):
            return handle
        os.close(handle)  # who had it took it away meanwhile


def _cleared(folder: Path) -> None:
    for each in folder.iterdir():
        if is_folder(each) and not is_link(each):
            shutil.rmtree(each)
        else:
            each.unlink()
