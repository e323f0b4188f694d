"""What a transcript's file did not take, read behind it: all that was said, for whoever goes on from it.

`home` is the config home, whose emergency copies are meant. Reads only: the writer brings them home
(rescue.py).
"""

from collections.abc import Iterator
from pathlib import Path

from clew.transcript.files import Files
from clew.transcript.load import Loaded, load
from clew.transcript.paths import copy_name, rescue_dirs
from clew.transcript.rescue import copies_of
from clew.transcript.source import reading


def copies(path: Path, home: Path) -> tuple[Path, ...]:
    """The emergency copies of a file that are there."""
    return tuple(copies_of(copy_name(path), rescue_dirs(home), Files()))


def with_unsaved(path: Path, home: Path) -> Loaded:
    """What a transcript's file holds, and behind it what the file could not take and nobody brought home yet."""
    return load(path, copies=copies(path, home))


def lines_of(path: Path, home: Path) -> Iterator[bytes]:
    """The same as lines, each without its end."""
    with reading(path, copies(path, home)) as source:
        for _, _, raw in source.lines(0):
            yield raw
