"""Find every file with a conversation: the sessions of all projects, and their subagents.

Only names and metadata are read, and nothing is omitted: a file that no list shows is found too,
and `find_hidden_files` gives the reason.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop
from pathlib import Path

from msgspec import Struct

from clew.record.transcript import light
from clew.record.transcript.paths import get_own_dir, get_projects_dir
from clew.system.files import is_folder, is_there, read_content

# The worktrees of a repository, read from git's files without running git.


def list_worktrees(cwd: str) -> tuple[str, ...]:
    """Return this folder, and the corresponding folder in each other worktree of its repository."""
    folder = Path(cwd)
    root = next((folder for folder in (folder, *folder.parents) if is_there(folder / ".git")), None)
    if root is None:
        return (cwd,)
    common = _common(root / ".git")
    if common is None:
        return (cwd,)
    inside = folder.relative_to(root)
    roots = [common.parent] if common.name == ".git" else []
    for link in sorted(common.glob("worktrees/*/gitdir")):
        place = _line(link)
        if place is not None:
            roots.append(Path(link.parent, place).parent)
    others = [str(other / inside) for other in roots if other.resolve() != root.resolve()]
    return (cwd, *dict.fromkeys(others))


def _common(git: Path) -> Path | None:
    """Return the repository's common folder, which all worktrees share, or None."""
    if is_folder(git):
        return git
    line = _line(git)
    if line is None or not line.startswith("gitdir:"):
        return None
    mine = Path(git.parent, line.removeprefix("gitdir:").strip())
    up = _line(mine / "commondir")
    return None if up is None else Path(mine, up).resolve()


def _line(path: Path) -> str | None:
    try:
        return read_content(path).decode("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None


MISNAMED = "its name is not a session ID"
SIDECHAIN = "it is a subagent's transcript in the folder for sessions"
EMPTY = "it is empty"
# A file can have any timestamp, but the index can't store one after the year 2262.
LATEST_NS = 2**63 - 1
SILENT = "it contains no prompt and no title"


class TranscriptFile(Struct, frozen=True, kw_only=True):
    """A transcript and its metadata.

    `agent` is a subagent's ID, or empty for the session itself.
    """

    path: str
    folder: str
    session_id: str
    agent: str
    size: int
    mtime_ns: int
    inode: int


def list_transcripts(home: Path) -> Iterator[TranscriptFile]:
    """Yield all transcripts that are not archived.

    Each folder is scanned once, and each file needs one stat.
    """
    for folder in sorted(_folders(get_projects_dir(home))):
        yield from in_folder(folder)


def find_newest(folders: Iterable[str]) -> Iterator[str]:
    """Yield the session files of these folders, most recent first.

    Files are sorted only as far as the caller reads the result.
    """
    heap: list[tuple[int, str]] = []
    for folder in folders:
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name.endswith(".jsonl") and entry.is_file():
                        heap.append((-entry.stat().st_mtime_ns, entry.path))
        except OSError:
            continue
    heapify(heap)
    while heap:
        yield heappop(heap)[1]


def list_project_folders(home: Path) -> list[str]:
    return sorted(_folders(get_projects_dir(home)))


def find_archive_dir(home: Path) -> Path:
    return get_own_dir(home) / "archive"


def in_folder(folder: str) -> Iterator[TranscriptFile]:
    inside = _scan(folder)
    for entry in inside:
        if entry.name.endswith(".jsonl"):
            file = _found(entry, folder, entry.name[:-6], "")
            if file is not None:
                yield file
    for entry in inside:
        if light.is_uuid(entry.name) and entry.is_dir():
            yield from _agents(f"{entry.path}/subagents", folder, entry.name)


def _agents(place: str, folder: str, session_id: str) -> Iterator[TranscriptFile]:
    for entry in _scan(place):
        if entry.is_dir(follow_symlinks=False):
            yield from _agents(entry.path, folder, session_id)
        elif entry.name.startswith("agent-") and entry.name.endswith(".jsonl"):
            file = _found(entry, folder, session_id, entry.name[6:-6])
            if file is not None:
                yield file


def _folders(place: Path) -> list[str]:
    return [entry.path for entry in _scan(str(place)) if entry.is_dir()]


def _scan(place: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(place) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _found(
    entry: os.DirEntry[str], folder: str, session_id: str, agent: str
) -> TranscriptFile | None:
    try:
        state = entry.stat()
    except OSError:
        return None
    if not stat.S_ISREG(state.st_mode):
        return None
    return TranscriptFile(
        path=entry.path,
        folder=folder,
        session_id=session_id,
        agent=agent,
        size=state.st_size,
        mtime_ns=max(-LATEST_NS, min(state.st_mtime_ns, LATEST_NS)),
        inode=state.st_ino,
    )


def find_hidden_files(file: TranscriptFile, outline: light.Outline | None) -> str | None:
    """Return why lists do not show a session's file, or None if they show it."""
    if not light.is_uuid(file.session_id):
        return MISNAMED
    if outline is not None:
        return None
    if not file.size:
        return EMPTY
    ends = light.read_ends(Path(file.path))
    if ends is None:
        return "it is not readable"
    is_side = light.read_flag(ends.head.split(b"\n", 1)[0], "isSidechain")
    return SIDECHAIN if is_side else SILENT
