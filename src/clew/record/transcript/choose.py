"""Resolve a session by ID, ID prefix, title or file, or find the newest session of a folder.

Only names, file ends and titles are read; no session is loaded. Two paths can share a folder name,
so the `cwd` in the entries decides.
"""

import json
import os
import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

from clew.core.json_object import text_of
from clew.core.messages.errors import SessionError
from clew.record.transcript.files import Files
from clew.record.transcript.light import (
    Outline,
    is_uuid,
    list_session_files,
    read_outline,
    read_outlines,
)
from clew.record.transcript.paths import (
    encode_path,
    find_session,
    get_project_dir,
    get_projects_dir,
    is_begun,
    rescue_dirs,
    resolve_folder,
)
from clew.record.transcript.recovery import copies_of
from clew.system.files import is_file, is_folder, why_closed

# Lists that abbreviate an ID show eight characters; a shorter string is more likely a word.
_PULL_REQUEST = re.compile(r"#\d+|https?://.+")
_BEGINNING = re.compile(r"[0-9a-f]{8}[0-9a-f-]{0,27}", re.I)


def list_folders(home: Path, cwd: str, *, everywhere: bool = False) -> list[Path]:
    """Return the session folder of a working directory, or all of them with `everywhere`."""
    if everywhere:
        return sorted(path for path in get_projects_dir(home).glob("*") if is_folder(path))
    return [get_project_dir(home, cwd)]


def of_folder(home: Path, cwd: str, *, everywhere: bool = False) -> Iterator[Outline]:
    """Yield the saved sessions, then the unsaved ones, of a working directory or of all of them."""
    yield from _saved(home, cwd, everywhere=everywhere)
    yield from list_unsaved(home, cwd, everywhere=everywhere)


def find_newest(home: Path, cwd: str) -> Outline | None:
    """Return the most recently written session of this folder, or None.

    Skip empty files and sessions of other folders. Raise `SessionError` if the newest session
    may be unreadable, because `--continue` must not start a conversation that lacks its
    history.
    """
    folder = get_project_dir(home, cwd)
    saved, copied = [next(listed, None) for listed in (_saved(home, cwd), list_unsaved(home, cwd))]
    later = takewhile(lambda path: saved is None or path != saved.path, list_session_files(folder))
    unread = (path for path in later if is_file(path) and not os.access(path, os.R_OK))
    closed = why_closed(folder) or next((f"{path} is not readable" for path in unread), None)
    if closed is not None:
        raise SessionError(f"{closed}, so the newest session can't be determined")
    return max(filter(None, [saved, copied]), key=lambda o: o.modified_at, default=None)


def _saved(home: Path, cwd: str, *, everywhere: bool = False) -> Iterator[Outline]:
    """Yield the saved sessions, newest first in each folder.

    Without `everywhere`, sessions of another path with the same folder name are left out.
    """
    current_folder = resolve_folder(cwd)
    for folder in list_folders(home, cwd, everywhere=everywhere):
        for saved_outline in read_outlines(folder):
            if (
                everywhere
                or saved_outline.cwd in (None, cwd)
                or _is_here(str(saved_outline.cwd), current_folder)
            ):
                yield saved_outline


def list_unsaved(home: Path, cwd: str, *, everywhere: bool = False) -> Iterator[Outline]:
    """Yield the sessions that exist only as recovery files, newest first."""
    files = Files()
    for folder in rescue_dirs(home):
        for saved_outline in read_outlines(folder) if is_folder(folder) else ():
            if everywhere or saved_outline.cwd in (cwd, resolve_folder(cwd)):
                places = find_session(home, saved_outline.session_id)
                if files.is_private(folder) and not any(map(is_begun, places)):
                    yield saved_outline


class UnknownSessionError(SessionError):
    """No session has the given name."""


def resolve_session(home: Path, cwd: str, name: str) -> Path:
    """Return the transcript that `name` refers to. Raise `SessionError` unless exactly one matches.

    Sessions of this folder come first; other folders are searched only if none matches.
    """
    if name.endswith(".jsonl"):
        path = Path(cwd, name).absolute()
        if not is_file(path):
            raise SessionError(f"{name}: file not found")
        return path
    paths = _by_id(home, cwd, name) or _by_title(home, cwd, name) or _by_beginning(home, cwd, name)
    if len(paths) == 1:
        return paths[0]
    if not paths and _PULL_REQUEST.fullmatch(name):
        return _by_pull_request(home, cwd, name)
    if not paths:
        closed = why_closed(get_project_dir(home, cwd))
        if closed is not None:
            raise SessionError(f"{closed}, so session {name!r} can't be looked up")
        raise UnknownSessionError(
            f"session {name!r} not found; `clew sessions list --all` lists all sessions"
        )
    listed = "\n  ".join(str(path) for path in paths)
    raise SessionError(
        f"{name!r} matches several sessions; specify one of these files:\n  {listed}"
    )


def _names_of_link(raw: bytes) -> tuple[str, ...]:
    """Return the names of the pull request that a transcript line links to, if any."""
    try:
        line = json.loads(raw)
    except ValueError:
        return ()  # The line is still being written.
    if type(line) is not dict or line.get("type") != "pr-link":
        return ()
    return f"#{line.get('prNumber')}", text_of(line.get("prUrl"))


def _by_pull_request(home: Path, cwd: str, name: str) -> Path:
    """Return the newest session of this folder that created a pull request: `#12`, or a URL."""
    for path in list_session_files(get_project_dir(home, cwd)):
        with path.open("rb") as lines:
            is_linked = any(name in _names_of_link(raw) for raw in lines if b'"pr-link"' in raw)
        if is_linked:
            return path
    raise SessionError(f"no session of this folder created pull request {name}")


def folder_of(home: Path, cwd: str, path: Path) -> Path:
    """Return the folder that a session belongs to, even if the file is a recovery file."""
    if path.parent not in rescue_dirs(home):
        return path.parent
    summary = read_outline(path)
    return get_project_dir(home, summary.cwd if summary is not None and summary.cwd else cwd)


def place_of_copy(home: Path, cwd: str, session_id: str, copy: Path) -> Path:
    """Return the path of the transcript that a recovery file belongs to.

    The transcript itself need not exist.
    """
    places = find_session(home, session_id)
    return places[0] if places else folder_of(home, cwd, copy) / f"{session_id}.jsonl"


def _by_id(home: Path, cwd: str, session_id: str) -> list[Path]:
    spellings = (session_id, session_id.lower(), session_id.upper())
    paths = next(filter(None, (find_session(home, spelling) for spelling in spellings)), [])
    if not paths and is_uuid(session_id):
        copies = copies_of(f"{session_id.lower()}.jsonl", rescue_dirs(home), Files())
        paths = [copy for copy in copies if is_file(copy)][:1]
    return _here_first(home, cwd, paths)


def _by_beginning(home: Path, cwd: str, letters: str) -> list[Path]:
    """Find sessions by an ID prefix, as shown in lists without room for the full ID."""
    if not is_beginning(letters):
        return []
    places = [get_projects_dir(home).glob("*"), rescue_dirs(home)]
    groups = (
        [path for folder in among for path in folder.glob(f"{letters.lower()}*.jsonl")]
        for among in places
    )
    return _here_first(home, cwd, sorted(next(filter(None, groups), [])))


def is_beginning(letters: str) -> bool:
    """Return whether a string could be the prefix of a session ID."""
    return _BEGINNING.fullmatch(letters) is not None


def _here_first(home: Path, cwd: str, paths: list[Path]) -> list[Path]:
    own_folder = get_project_dir(home, cwd)
    return [path for path in paths if path.parent == own_folder] or paths


def _by_title(home: Path, cwd: str, title: str) -> list[Path]:
    for everywhere in (False, True):
        listed = of_folder(home, cwd, everywhere=everywhere)
        if title and (paths := [o.path for o in listed if o.title == title]):
            return paths
    return []


def _is_here(cwd: str, folder: str) -> bool:
    """Return whether a session that was started in `cwd` belongs to `folder`.

    The session's file is assumed to be in the session folder of `folder`. The session belongs to
    `folder` unless `cwd` is another existing path with the same session folder.
    """
    return cwd == folder or encode_path(cwd) != encode_path(folder) or not is_folder(cwd)


def is_any(cwd: str, folders: list[str]) -> bool:
    """Return whether a session started in `cwd` belongs to one of these folders."""
    return any(_is_here(cwd, folder) for folder in folders)
