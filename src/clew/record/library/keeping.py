"""Disk usage; archiving, deletion, erasure and relocation of sessions on request.

All of this runs only at the user's command: clew never deletes anything because of its age or size,
or at startup.
"""

import os
import re
import shutil
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from clew.core.messages.encoding import decode, encode
from clew.core.messages.errors import SessionError
from clew.record.kept_commands import find_records as records
from clew.record.kept_commands import forget as forget_record
from clew.record.library.database import find_database, forget
from clew.record.library.indexing import Tell
from clew.record.library.places import find_archive_dir, list_transcripts
from clew.record.rewind.disk import Blobs, blobs_dir
from clew.record.transcript import light
from clew.record.transcript.files import OPEN_ELSEWHERE, Files
from clew.record.transcript.load import load
from clew.record.transcript.paths import (
    get_backup_dir,
    get_others_dir,
    get_own_dir,
    get_project_dir,
    get_projects_dir,
    home_of,
    resolve_folder,
)
from clew.system.files import is_file, is_folder, is_link, is_there

_CHANGE = b'"type":"file-change"'
_NAMED = re.compile(rb'"sha256":"([0-9a-f]{64})"')


class Size(Struct, frozen=True, kw_only=True):
    """The disk usage of one kind of stored data."""

    name: str
    path: str
    files: int
    size_bytes: int


def measure_sizes(home: Path) -> list[Size]:
    """Return the size of every kind of stored data and of each project's sessions.

    Other programs' files are excluded.
    """
    own = get_own_dir(home)
    entries = [
        _size("index", find_database(home).parent),
        _size("file contents", blobs_dir(home)),
        _size("backups", own / "backups"),
        _size("recovery files", own / "unsaved"),
        _size("prompts", own / "prompts"),
        _size("archive", find_archive_dir(home)),
        _size("others", get_others_dir(home)),
    ]
    folders = sorted(p for p in get_projects_dir(home).glob("*") if is_folder(p))
    return [*entries, *(_size("project", folder) for folder in folders)]


def _size(name: str, folder: Path) -> Size:
    files = [path for path in folder.rglob("*") if is_file(path) and not is_link(path)]
    total = sum(path.stat().st_size for path in files)
    return Size(name=name, path=str(folder), files=len(files), size_bytes=total)


def archive(home: Path, path: Path) -> Path:
    """Archive a session and return its new path.

    Lists no longer show the session, but nothing is lost.
    """
    return _move(path, find_archive_dir(home) / path.parent.name)


def unarchive(home: Path, path: Path) -> Path:
    return _move(path, get_projects_dir(home) / path.parent.name)


def list_archived(home: Path) -> list[Path]:
    return sorted(find_archive_dir(home).glob("*/*.jsonl"))


def _move(path: Path, folder: Path) -> Path:
    files = Files()
    target = folder / path.name
    beside, beside_target = path.with_suffix(""), target.with_suffix("")
    if is_there(target) or is_there(beside_target):
        raise SessionError(f"{target} already exists")
    fd = files.open(path)
    try:
        if not files.lock(fd):
            raise SessionError(f"session {path.stem} {OPEN_ELSEWHERE}; close it first")
        files.make_folder(folder)
        if is_folder(beside):
            beside.rename(beside_target)
        path.rename(target)
        files.sync_folder(folder)
    finally:
        files.close(fd)
    return target


class Removable(Struct, frozen=True, kw_only=True):
    """Something that can be deleted, with the total size of its files."""

    kind: str
    name: str
    size_bytes: int


def find_removable(home: Path, kind: str, tell: Tell | None = None) -> Iterator[Removable]:
    """Yield what `prune KIND` would delete."""
    match kind:
        case "index":
            for path in sorted(find_database(home).parent.glob("*")):
                yield Removable(kind=kind, name=str(path), size_bytes=path.stat().st_size)
        case "contents":
            names = _named_contents(home, tell)
            for name, size in Blobs(blobs_dir(home)).each():
                if name not in names:
                    yield Removable(kind=kind, name=name, size_bytes=size)
        case "backups":
            for path in sorted((get_own_dir(home) / "backups").glob("*.jsonl")):
                yield Removable(kind=kind, name=str(path), size_bytes=path.stat().st_size)
        case "archive":
            for path in list_archived(home):
                yield Removable(kind=kind, name=str(path), size_bytes=_with_folder(path))
        case "others":
            copies = _size(kind, get_others_dir(home))
            if copies.files:
                yield Removable(kind=kind, name=copies.path, size_bytes=copies.size_bytes)


def size_session(path: Path) -> Removable:
    return Removable(kind="session", name=str(path), size_bytes=_with_folder(path))


def remove(home: Path, what: Removable) -> None:
    """Permanently delete an item, such as one that `find_removable` yields."""
    match what.kind:
        case "index":
            forget(home)
        case "contents":
            Blobs(blobs_dir(home)).remove(what.name)
        case "backups":
            Path(what.name).unlink(missing_ok=True)
        case "others":
            shutil.rmtree(what.name)
        case _:
            _remove_session(home, Path(what.name))


def _remove_session(home: Path, path: Path) -> None:
    files = Files()
    fd = files.open(path)
    try:
        if not files.lock(fd):
            raise SessionError(f"session {path.stem} {OPEN_ELSEWHERE}; close it first")
        path.unlink()
        for folder in (path.with_suffix(""), get_backup_dir(home, path.stem)):
            if is_folder(folder):
                shutil.rmtree(folder)
    finally:
        files.close(fd)


def _with_folder(path: Path) -> int:
    beside = path.with_suffix("")
    inside = [p for p in beside.rglob("*") if is_file(p)] if is_folder(beside) else []
    return sum(p.stat().st_size for p in [path, *inside])


def _named_contents(home: Path, tell: Tell | None) -> set[str]:
    """Return the names of the stored contents of files that a session can still restore.

    Archived sessions are included.
    """
    names: set[str] = set()
    paths = [transcript.path for transcript in list_transcripts(home)]
    paths += [str(p) for p in find_archive_dir(home).rglob("*.jsonl")]
    paths += [str(p) for p in get_own_dir(home).glob("unsaved/*.jsonl")]
    for number, path in enumerate(paths, 1):
        with Path(path).open("rb") as file:
            for line in file:
                if _CHANGE in line:
                    names.update(name.decode() for name in _NAMED.findall(line))
        if tell is not None:
            tell(number, len(paths))
    return names


# Permanent, offline erasure of text from a session. This is the only code that rewrites a
# transcript, and only at the user's command.


ERASED = "[erased]"
# Shorter text occurs in too many unrelated places.
SHORTEST = 4
# Fields that identify and link entries; they contain no conversation text.
_FIXED = frozenset(
    (
        "type", "subtype", "role", "uuid", "parentUuid", "logicalParentUuid", "sessionId", "id",
        "tool_use_id", "requestId", "sourceToolAssistantUUID", "leafUuid", "messageUuid", "timestamp",
        "agentId", "version", "signature", "media_type", "model", "stop_reason", "toolUseId",
    )
)  # fmt: skip
_FREE = frozenset(("input", "toolUseResult"))


class Erasure(Struct, frozen=True, kw_only=True):
    """The erasure of text from one file: the number of affected lines, and the new content."""

    path: Path
    lines: int
    content: list[bytes]


def find_erasures(path: Path, text: str) -> Iterator[Erasure]:
    """Yield an erasure for each file of the session that contains the text."""
    if len(text.strip()) < SHORTEST:
        raise SessionError(f"the text must have at least {SHORTEST} characters")
    beside = path.with_suffix("")
    for file in [path, *sorted(beside.rglob("*.jsonl"))]:
        content = file.read_bytes().split(b"\n")
        without = [_without(line, text) for line in content]
        changed = sum(a != b for a, b in zip(content, without, strict=True))
        if changed:
            yield Erasure(path=file, lines=changed, content=without)
    large_files = [p for p in beside.rglob("*") if is_file(p) and p.suffix != ".jsonl"]
    large_files += filter(is_file, get_backup_dir(home_of(path), path.stem).glob("*"))
    for file in sorted(large_files):
        large = file.read_bytes()
        if text.encode() in large:
            erased_content = large.replace(text.encode(), ERASED.encode())
            yield Erasure(path=file, lines=large.count(text.encode()), content=[erased_content])


def erase(home: Path, path: Path, plan: list[Erasure]) -> None:
    """Carry out the erasures. Raise `SessionError` if the session is open in another process."""
    files = Files()
    fd = files.open(path)
    try:
        if not files.lock(fd):
            raise SessionError(f"session {path.stem} {OPEN_ELSEWHERE}; close it first")
        _let_go_of_kept(get_own_dir(home) / "kept", path.stem)
        for erasure in plan:
            _write_beside(erasure)
        if plan[0].path == path and _live(_beside(path)) != _live(path):
            raise SessionError(
                f"session {path.stem} would no longer load as before; nothing was erased"
            )
        for erasure in plan:
            _beside(erasure.path).rename(erasure.path)
            files.sync_folder(erasure.path.parent)
    finally:
        for erasure in plan:
            _beside(erasure.path).unlink(missing_ok=True)
        files.close(fd)
    # The search index contains the text too.
    forget(home)


def _let_go_of_kept(folder: Path, session_id: str) -> None:
    """Delete the records of kept commands, which may contain the text.

    Raise `SessionError` if one of the commands is still running.
    """
    kept_records = list(records(folder, f"{session_id}-"))
    for record in kept_records:
        if record.is_running:
            raise SessionError(
                f"background task {record.name} is still running; "
                f"stop it with clew tasks stop {record.name}"
            )
    for record in kept_records:
        forget_record(record)


def _beside(path: Path) -> Path:
    return path.with_name(path.name + ".erasing")


def _live(path: Path) -> list[Any]:
    return [message.get("uuid") for message in load(path).messages]


def _write_beside(erasure: Erasure) -> None:
    fd = os.open(_beside(erasure.path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(b"\n".join(erasure.content))
        file.flush()
        os.fchmod(file.fileno(), erasure.path.stat().st_mode & 0o777)
        os.fsync(file.fileno())


def _without(line: bytes, text: str) -> bytes:
    try:
        entry = decode(line)
    except ValueError:
        return line.replace(text.encode(), ERASED.encode())
    changed = _scrubbed(entry, text)
    return line if changed == entry else encode(changed)


def _all(value: Any, text: str) -> Any:
    """Replace the text in every string of a tool's input or output, including keys."""
    if isinstance(value, dict):
        return {key.replace(text, ERASED): _all(item, text) for key, item in value.items()}
    if isinstance(value, list):
        return [_all(item, text) for item in value]
    return value.replace(text, ERASED) if isinstance(value, str) else value


def _scrubbed(value: Any, text: str) -> Any:
    match value:
        case str():
            return value.replace(text, ERASED)
        case list():
            return [_scrubbed(item, text) for item in value]
        case dict():
            changed = {
                key: item if key in _FIXED else (_all if key in _FREE else _scrubbed)(item, text)
                for key, item in value.items()
            }
            if "tool_use" in str(value.get("type")):
                changed["name"] = value.get("name")
            if changed != value and value.get("type") in ("thinking", "redacted_thinking"):
                # The signature would not match the changed text.
                return {"type": "text", "text": ERASED}
            return changed
    return value


# Projects that were moved or renamed: find their sessions and move them too.


class Gone(Struct, frozen=True, kw_only=True):
    """A missing working folder and the number of its sessions."""

    cwd: str
    sessions: int


class Move(Struct, frozen=True, kw_only=True):
    """A planned move of a session: its transcript and, if it has one, the folder next to it."""

    session_id: str
    cwd: str
    source: Path
    target: Path


class Relocated(Struct, frozen=True, kw_only=True):
    """The result of a move; `kept` lists the sessions that were not moved, and why."""

    moved: list[Move]
    kept: list[tuple[Move, str]]


def find_gone(home: Path) -> Iterator[Gone]:
    """Yield the missing working folders of sessions, by descending number of sessions."""
    counts: dict[str, int] = {}
    for path, cwd in _sessions(home):
        if path.parent == get_project_dir(home, cwd):  # Otherwise the session was moved already.
            counts[cwd] = counts.get(cwd, 0) + 1
    for cwd, sessions in sorted(counts.items(), key=lambda item: -item[1]):
        if not is_folder(cwd):
            yield Gone(cwd=cwd, sessions=sessions)


def find_moved_sessions(home: Path, cwd: str) -> list[Gone]:
    """Return up to three missing folders with the same name or parent as `cwd`.

    One of them may have been moved or renamed to `cwd`.
    """
    folder = Path(cwd)
    return [
        missing
        for missing in find_gone(home)
        if Path(missing.cwd).name == folder.name or Path(missing.cwd).parent == folder.parent
    ][:3]


def plan_moves(home: Path, old: str, new: str) -> list[Move]:
    """Return the moves for every session of the folder `old` and the folders below it."""
    moves: list[Move] = []
    brought = get_project_dir(home, old)
    for path, cwd in _sessions(home):
        if cwd == old or cwd.startswith(f"{old}/"):
            below = cwd[len(old) :]
        elif path.parent == brought and not is_folder(cwd):
            below = ""  # An earlier move brought the session to `old`.
        else:
            continue
        target = get_project_dir(home, resolve_folder(new) + below) / path.name
        if target != path:
            moves.append(Move(session_id=path.stem, cwd=cwd, source=path, target=target))
    return moves


def move_sessions(home: Path, moves: list[Move]) -> Relocated:
    """Move sessions one by one.

    A session that is open, or whose target exists, is not moved.
    """
    moved: list[Move] = []
    refusals: list[tuple[Move, str]] = []
    files = Files()
    for move in moves:
        beside = move.source.with_suffix("")
        if is_there(move.target) or is_there(move.target.with_suffix("")):
            refusals.append((move, "the target already exists"))
            continue
        fd = files.open(move.source)
        try:
            if not files.lock(fd):
                refusals.append((move, f"it {OPEN_ELSEWHERE}"))
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
    return Relocated(moved=moved, kept=refusals)


def _note(home: Path, move: Move) -> None:
    """Record the session's old and new path before the move."""
    path = get_own_dir(home) / "relocated.jsonl"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    line = {"sessionId": move.session_id, "from": str(move.source), "to": str(move.target)}
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(msgspec.json.encode(line) + b"\n")


def _sessions(home: Path) -> Iterator[tuple[Path, str]]:
    """Yield each session's file and the working folder in its first lines."""
    for transcript in list_transcripts(home):
        if not transcript.agent and light.is_uuid(transcript.session_id):
            cwd = _cwd(transcript.path)
            if cwd:
                yield Path(transcript.path), cwd


def _cwd(path: str) -> str | None:
    """Read the working folder from the first 4 KiB, or else from the head of the file; or None."""
    try:
        with FileIO(path) as file:
            head = file.read(4096)
    except OSError:
        return None
    match = re.search(rb'"cwd"\s*:\s*"', head)
    if match and (value := light.find_string_field(head, "cwd")) is not None:
        return value
    ends = light.read_ends(Path(path))
    return None if ends is None else light.find_string_field(ends.head, "cwd")
