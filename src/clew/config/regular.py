"""Opens files of folders that nobody vouches for: a name there may be a pipe, a device or a terminal.

What is no regular file is an OSError at once: it must never be waited for, nor read without an end.
"""

import errno
import os
import stat
from pathlib import Path


def only_files(path: str, flags: int) -> int:
    """For `open(..., opener=only_files)`; a link leads to what counts."""
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return descriptor  # of a folder `open` says itself that it is one
    os.close(descriptor)
    raise OSError(errno.EINVAL, "is not a regular file", path)


def content(path: Path, most_bytes: int = -1) -> bytes:
    """What a file holds, or its beginning."""
    with open(path, "rb", opener=only_files) as file:
        return file.read(most_bytes)
