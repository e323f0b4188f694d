"""Which session a person means: the newest of a folder, an id or its beginning, a title, or a file.

Looks at names, ends and titles only; nothing is loaded. A folder's name can stand for two paths, so
the `cwd` that the entries carry has the last word.
"""

import os
import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

from clew.core.messages.errors import SessionError
from clew.record.transcript.files import Files
from clew.record.transcript.light import Outline, is_uuid, outline, outlines, session_files
from clew.record.transcript.paths import (
    canonical,
    encoded,
    find_session,
    is_begun,
    project_dir,
    projects_dir,
    rescue_dirs,
)
from clew.record.transcript.recovery import copies_of
from clew.system.files import is_file, is_folder, why_closed

# Where a list shows the beginning of an id, it shows eight letters; fewer are more likely a word.
_BEGINNING = re.compile(r"[0-9a-f]{8}[0-9a-f-]{0,27}", re.I)


def folders(home: Path, cwd: str, *, everywhere: bool = False) -> list[Path]:
    """Where the sessions of a working folder lie; `everywhere`, those of every one."""
    if everywhere:
        return sorted(path for path in projects_dir(home).glob("*") if is_folder(path))
    return [project_dir(home, cwd)]


def of_folder(home: Path, cwd: str, *, everywhere: bool = False) -> Iterator[Outline]:
    """The sessions of a working folder, or of every one: the saved, then the unsaved."""
    yield from _saved(home, cwd, everywhere=everywhere)
    yield from unsaved(home, cwd, everywhere=everywhere)


def newest(home: Path, cwd: str) -> Outline | None:
    """The session of this folder that was written last; empty files and other folders' are passed.

    Raises `SessionError` where that may be one that cannot be read: `--continue` must not begin a
    conversation that has forgotten everything.
    """
    folder = project_dir(home, cwd)
    saved, copied = [next(listed, None) for listed in (_saved(home, cwd), unsaved(home, cwd))]
    later = takewhile(lambda path: saved is None or path != saved.path, session_files(folder))
    unread = (path for path in later if is_file(path) and not os.access(path, os.R_OK))
    closed = why_closed(folder) or next((f"{path} cannot be read" for path in unread), None)
    if closed is not None:
        raise SessionError(f"{closed}; so which session is the newest is not known")
    return max(filter(None, [saved, copied]), key=lambda o: o.modified_at, default=None)


def _saved(home: Path, cwd: str, *, everywhere: bool = False) -> Iterator[Outline]:
    """Newest first in each folder; what shares a folder's name and not its path is told apart."""
    here = canonical(cwd)
    for folder in folders(home, cwd, everywhere=everywhere):
        for found in outlines(folder):
            if everywhere or found.cwd in (None, cwd) or _is_here(str(found.cwd), here):
                yield found


def unsaved(home: Path, cwd: str, *, everywhere: bool = False) -> Iterator[Outline]:
    """Sessions of which nothing but an emergency copy was saved, newest first."""
    files = Files()
    for folder in rescue_dirs(home):
        for found in outlines(folder) if is_folder(folder) else ():
            if everywhere or found.cwd in (cwd, canonical(cwd)):
                places = find_session(home, found.session_id)
                if files.is_private(folder) and not any(map(is_begun, places)):
                    yield found


def named(home: Path, cwd: str, name: str) -> Path:
    """The transcript that `name` means; raises `SessionError` if there is none, or more than one.

    This folder's sessions come first; what they do not have is looked for in all others.
    """
    if name.endswith(".jsonl"):
        path = Path(cwd, name).absolute()
        if not is_file(path):
            raise SessionError(f"{name}: No such file")
        return path
    found = _by_id(home, cwd, name) or _by_title(home, cwd, name) or _by_beginning(home, cwd, name)
    if len(found) == 1:
        return found[0]
    if not found:
        closed = why_closed(project_dir(home, cwd))
        if closed is not None:
            raise SessionError(f"{closed}; so whether there is a session {name!r} is not known")
        raise SessionError(f"no session {name!r}; `clew sessions list --all` lists what there is")
    listed = "\n  ".join(str(path) for path in found)
    raise SessionError(f"{name!r} means several sessions; name one file:\n  {listed}")


def folder_of(home: Path, cwd: str, path: Path) -> Path:
    """The folder that a session belongs into; an emergency copy lies outside of it."""
    if path.parent not in rescue_dirs(home):
        return path.parent
    found = outline(path)
    return project_dir(home, found.cwd if found is not None and found.cwd else cwd)


def place_of_copy(home: Path, cwd: str, session_id: str, copy: Path) -> Path:
    """Where the transcript lies, or would, of which there is an emergency copy."""
    places = find_session(home, session_id)
    return places[0] if places else folder_of(home, cwd, copy) / f"{session_id}.jsonl"


def _by_id(home: Path, cwd: str, session_id: str) -> list[Path]:
    spellings = (session_id, session_id.lower(), session_id.upper())
    found = next(filter(None, (find_session(home, spelling) for spelling in spellings)), [])
    if not found and is_uuid(session_id):
        copies = copies_of(f"{session_id.lower()}.jsonl", rescue_dirs(home), Files())
        found = [copy for copy in copies if is_file(copy)][:1]
    return _here_first(home, cwd, found)


def _by_beginning(home: Path, cwd: str, letters: str) -> list[Path]:
    """As lists show an id where the whole of it has no room."""
    if not is_beginning(letters):
        return []
    places = [projects_dir(home).glob("*"), rescue_dirs(home)]
    found = (
        [path for folder in among for path in folder.glob(f"{letters.lower()}*.jsonl")]
        for among in places
    )
    return _here_first(home, cwd, sorted(next(filter(None, found), [])))


def is_beginning(letters: str) -> bool:
    """Whether a word can be how an id begins."""
    return _BEGINNING.fullmatch(letters) is not None


def _here_first(home: Path, cwd: str, found: list[Path]) -> list[Path]:
    here = project_dir(home, cwd)
    return [path for path in found if path.parent == here] or found


def _by_title(home: Path, cwd: str, title: str) -> list[Path]:
    for everywhere in (False, True):
        listed = of_folder(home, cwd, everywhere=everywhere)
        if title and (found := [o.path for o in listed if o.title == title]):
            return found
    return []


def _is_here(cwd: str, here: str) -> bool:
    """Whether a session of this folder's name is this folder's: a moved one is, a neighbour's not."""
    return cwd == here or encoded(cwd) != encoded(here) or not is_folder(cwd)


def is_any(cwd: str, folders: list[str]) -> bool:
    """Whether a session that was begun in `cwd` belongs to one of these folders."""
    return any(_is_here(cwd, here) for here in folders)
