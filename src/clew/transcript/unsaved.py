"""What a transcript's file did not take, read behind it: all that was said, for whoever goes on from it.

`home` is the config home, whose emergency copies are meant. Reads only: the writer brings them home
(rescue.py).

Decision: docs/decisions/051-durability.md
"""

from collections.abc import Iterator
from pathlib import Path

from clew.config.there import is_folder
from clew.transcript.files import Files
from clew.transcript.light import is_uuid
from clew.transcript.load import Loaded, load
from clew.transcript.paths import AGENT, copy_name, rescue_dirs
from clew.transcript.rescue import copies_of
from clew.transcript.source import reading


def copies(path: Path, home: Path) -> tuple[Path, ...]:
    """The emergency copies of a file that are there."""
    return tuple(copies_of(copy_name(path), rescue_dirs(home), Files()))


def kept_aside(home: Path) -> dict[str, list[Path]]:
    """The emergency copies of each session, of whatever folder; its own before its subagents'."""
    kept: dict[str, list[Path]] = {}
    for folder in rescue_dirs(home):
        if is_folder(folder) and Files().is_private(folder):
            for path in sorted(folder.glob("*.json*")):
                # A subagent's copy bears its session's id behind its own.
                session = path.stem.rpartition(".")[2]
                if is_uuid(session):
                    kept.setdefault(session, []).append(path)
    return {
        session: sorted(found, key=lambda path: path.name.startswith(AGENT))
        for session, found in kept.items()
    }


def with_unsaved(path: Path, home: Path) -> Loaded:
    """What a transcript's file holds, and behind it what the file could not take and nobody brought home yet."""
    return load(path, copies=copies(path, home))


def lines_of(path: Path, home: Path) -> Iterator[bytes]:
    """The same as lines, each without its end."""
    with reading(path, copies(path, home)) as source:
        for _, _, raw in source.lines(0):
            yield raw
