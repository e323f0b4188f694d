"""What lies on the disk and how much of it; putting aside, and taking away what was named by a person.

Nothing here is called but by a person's word: no age, no size and no start of clew removes anything.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from clew.config.there import is_file, is_folder, is_link, is_there
from clew.library.database import database_path, forget
from clew.library.indexing import Tell
from clew.library.places import archive_dir, transcripts
from clew.messages.errors import SessionError
from clew.rewind.blobs import Blobs, blobs_dir
from clew.transcript.files import Files
from clew.transcript.paths import own_dir, projects_dir

_CHANGE = b'"type":"file-change"'
_NAMED = re.compile(rb'"sha256":"([0-9a-f]{64})"')


class Size(Struct, frozen=True, kw_only=True):
    """A kind of thing that clew keeps."""

    name: str
    path: str
    files: int
    size_bytes: int


def sizes(home: Path) -> list[Size]:
    """Every kind, and each project's sessions; files of other programs are not counted."""
    own = own_dir(home)
    found = [
        _size("index", database_path(home).parent),
        _size("contents of files", blobs_dir(home)),
        _size("backups", own / "backups"),
        _size("emergency copies", own / "unsaved"),
        _size("prompts", own / "prompts"),
        _size("archive", archive_dir(home)),
    ]
    folders = sorted(p for p in projects_dir(home).glob("*") if is_folder(p))
    return [*found, *(_size("project", folder) for folder in folders)]


def _size(name: str, folder: Path) -> Size:
    files = [path for path in folder.rglob("*") if is_file(path) and not is_link(path)]
    total = sum(path.stat().st_size for path in files)
    return Size(name=name, path=str(folder), files=len(files), size_bytes=total)


def archive(home: Path, path: Path) -> Path:
    """Puts a session aside: no list shows it, nothing of it is lost. Answers where it is."""
    return _move(path, archive_dir(home) / path.parent.name)


def unarchive(home: Path, path: Path) -> Path:
    return _move(path, projects_dir(home) / path.parent.name)


def archived(home: Path) -> list[Path]:
    return sorted(archive_dir(home).glob("*/*.jsonl"))


def _move(path: Path, folder: Path) -> Path:
    files = Files()
    target = folder / path.name
    beside, beside_target = path.with_suffix(""), target.with_suffix("")
    if is_there(target) or is_there(beside_target):
        raise SessionError(f"{target} is there already")
    fd = files.open(path)
    try:
        if not files.lock(fd):
            raise SessionError(f"session {path.stem} is open in another process; end it first")
        files.make_folder(folder)
        if is_folder(beside):
            beside.rename(beside_target)
        path.rename(target)
        files.sync_folder(folder)
    finally:
        files.close(fd)
    return target


class Removable(Struct, frozen=True, kw_only=True):
    """Something that can be taken away, and what goes with it."""

    kind: str
    name: str
    size_bytes: int


def removable(home: Path, kind: str, tell: Tell | None = None) -> Iterator[Removable]:
    """What `prune KIND` would take away."""
    match kind:
        case "index":
            for path in sorted(database_path(home).parent.glob("*")):
                yield Removable(kind=kind, name=str(path), size_bytes=path.stat().st_size)
        case "contents":
            named = _named_contents(home, tell)
            for name, size in Blobs(blobs_dir(home)).each():
                if name not in named:
                    yield Removable(kind=kind, name=name, size_bytes=size)
        case "backups":
            for path in sorted((own_dir(home) / "backups").glob("*.jsonl")):
                yield Removable(kind=kind, name=str(path), size_bytes=path.stat().st_size)
        case "archive":
            for path in archived(home):
                yield Removable(kind=kind, name=str(path), size_bytes=_with_folder(path))


def session(path: Path) -> Removable:
    return Removable(kind="session", name=str(path), size_bytes=_with_folder(path))


def remove(home: Path, what: Removable) -> None:
    """Takes one thing away for good."""
    match what.kind:
        case "index":
            forget(home)
        case "contents":
            Blobs(blobs_dir(home)).remove(what.name)
        case "backups":
            Path(what.name).unlink(missing_ok=True)
        case _:
            _remove_session(Path(what.name))


def _remove_session(path: Path) -> None:
    files = Files()
    fd = files.open(path)
    try:
        if not files.lock(fd):
            raise SessionError(f"session {path.stem} is open in another process; end it first")
        path.unlink()
        if is_folder(path.with_suffix("")):
            shutil.rmtree(path.with_suffix(""))
    finally:
        files.close(fd)


def _with_folder(path: Path) -> int:
    beside = path.with_suffix("")
    inside = [p for p in beside.rglob("*") if is_file(p)] if is_folder(beside) else []
    return sum(p.stat().st_size for p in [path, *inside])


def _named_contents(home: Path, tell: Tell | None) -> set[str]:
    """The contents that any session can still go back to, archived ones too."""
    found: set[str] = set()
    paths = [one.path for one in transcripts(home)]
    paths += [str(p) for p in archive_dir(home).rglob("*.jsonl")]
    paths += [str(p) for p in own_dir(home).glob("unsaved/*.jsonl")]
    for number, path in enumerate(paths, 1):
        with Path(path).open("rb") as file:
            for line in file:
                if _CHANGE in line:
                    found.update(name.decode() for name in _NAMED.findall(line))
        if tell is not None:
            tell(number, len(paths))
    return found
