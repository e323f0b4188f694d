"""Projects that were moved or renamed: their sessions are found again and brought along.

A session lies in a folder named after its working folder. Bringing it along renames the files; not
a byte in them changes, and where each was is kept, so that the way back is known.
"""

import os
import re
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

import msgspec
from msgspec import Struct

from clew.record.library.places import transcripts
from clew.record.transcript import light
from clew.record.transcript.files import Files
from clew.record.transcript.paths import canonical, own_dir, project_dir
from clew.system.files import is_folder, is_there


class Gone(Struct, frozen=True, kw_only=True):
    """A working folder that is not there any more, and how many sessions it has."""

    cwd: str
    sessions: int


class Move(Struct, frozen=True, kw_only=True):
    """A session that is brought along: its transcript, and the folder beside it if it has one."""

    session_id: str
    cwd: str
    source: Path
    target: Path


class Relocated(Struct, frozen=True, kw_only=True):
    """`kept` are sessions that stay where they are, and why."""

    moved: list[Move]
    kept: list[tuple[Move, str]]


def gone(home: Path) -> Iterator[Gone]:
    """The working folders of sessions that no longer exist, most sessions first."""
    counts: dict[str, int] = {}
    for path, cwd in _sessions(home):
        if path.parent == project_dir(home, cwd):  # else it was brought along already
            counts[cwd] = counts.get(cwd, 0) + 1
    for cwd, sessions in sorted(counts.items(), key=lambda item: -item[1]):
        if not is_folder(cwd):
            yield Gone(cwd=cwd, sessions=sessions)


def moved_here(home: Path, cwd: str) -> list[Gone]:
    """Folders that are gone and had this one's name, or stood beside it."""
    here = Path(cwd)
    return [
        one
        for one in gone(home)
        if Path(one.cwd).name == here.name or Path(one.cwd).parent == here.parent
    ][:3]


def plan(home: Path, old: str, new: str) -> list[Move]:
    """Every session of `old`, a path, and of the folders below it, and where it belongs in `new`."""
    moves: list[Move] = []
    brought = project_dir(home, old)
    for path, cwd in _sessions(home):
        if cwd == old or cwd.startswith(f"{old}/"):
            below = cwd[len(old) :]
        elif path.parent == brought and not is_folder(cwd):
            below = ""  # it came to `old` from elsewhere, by an earlier move
        else:
            continue
        target = project_dir(home, canonical(new) + below) / path.name
        if target != path:
            moves.append(Move(session_id=path.stem, cwd=cwd, source=path, target=target))
    return moves


def carry_out(home: Path, moves: list[Move]) -> Relocated:
    """Renames one by one; a session that is open or has a namesake at the target stays."""
    moved: list[Move] = []
    kept: list[tuple[Move, str]] = []
    files = Files()
    for move in moves:
        beside = move.source.with_suffix("")
        if is_there(move.target) or is_there(move.target.with_suffix("")):
            kept.append((move, "there is one of its name already"))
            continue
        fd = files.open(move.source)
        try:
            if not files.lock(fd):
                kept.append((move, "it is open in another process"))
                continue
            files.make_folder(move.target.parent)
            _note(home, move)
            if is_folder(beside):
                beside.rename(move.target.with_suffix(""))
            move.source.rename(move.target)
            files.sync_folder(move.target.parent)
            moved.append(move)
        finally:
            files.close(fd)
    return Relocated(moved=moved, kept=kept)


def _note(home: Path, move: Move) -> None:
    """Where it was, before it is moved."""
    path = own_dir(home) / "relocated.jsonl"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    line = {"sessionId": move.session_id, "from": str(move.source), "to": str(move.target)}
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(msgspec.json.encode(line) + b"\n")


def _sessions(home: Path) -> Iterator[tuple[Path, str]]:
    """Each session's file and the working folder its first lines name."""
    for transcript in transcripts(home):
        if not transcript.agent and light.is_uuid(transcript.session_id):
            cwd = _cwd(transcript.path)
            if cwd:
                yield Path(transcript.path), cwd


def _cwd(path: str) -> str | None:
    """From the first bytes, for thousands of files; the head of the file if they do not say."""
    try:
        with FileIO(path) as file:
            head = file.read(4096)
    except OSError:
        return None
    match = re.search(rb'"cwd"\s*:\s*"', head)
    if match and (value := light.string_field(head, "cwd")) is not None:
        return value
    ends = light.read_ends(Path(path))
    return None if ends is None else light.string_field(ends.head, "cwd")
