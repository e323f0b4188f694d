"""Functions to list, read, rename, tag and fork stored sessions. They use only files."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from clew.core.json_object import Json
from clew.fronts.sdk.option_checks import check_label
from clew.record.library.copies import append_beside, fork
from clew.record.library.listing import list_newest_first
from clew.record.transcript import choose
from clew.record.transcript.examine import session_id_of
from clew.record.transcript.light import Outline
from clew.record.transcript.load import load
from clew.system.clock import get_timestamp
from clew.system.config.paths import find_config_home

Folder: TypeAlias = str | os.PathLike[str]
# A session: its ID, title or file, or an item of a list.
Named: TypeAlias = str | os.PathLike[str] | Outline


def list_sessions(
    cwd: Folder | None = None, *, everywhere: bool = False, home: Folder | None = None
) -> Iterator[Outline]:
    """Yield the sessions of a folder and of its repository's worktrees, newest first.

    Each session's file is read only when the iteration reaches it. `home` is the folder for
    settings and sessions. By default, it is determined by the process's environment.
    """
    return list_newest_first(find_home(home), place(cwd), everywhere=everywhere)


def session_messages(
    session: Named, cwd: Folder | None = None, *, home: Folder | None = None
) -> list[Json]:
    """Return the entries since the last compaction, which the model sees, as they are stored.

    `session` is the session's ID, title or file, or an item of `list_sessions`.
    """
    return load(found(session, cwd, home)).messages


def rename_session(
    session: Named, title: str, cwd: Folder | None = None, *, home: Folder | None = None
) -> None:
    """Set the title of a session. An empty title removes it."""
    check_label("title", title)
    path = found(session, cwd, home)
    line = {"type": "custom-title", "customTitle": title, "sessionId": session_id_of(path)}
    append_beside(path, line)


def tag_session(
    session: Named, tag: str, cwd: Folder | None = None, *, home: Folder | None = None
) -> None:
    """Set the tag of a session. An empty tag removes it."""
    check_label("tag", tag)
    path = found(session, cwd, home)
    append_beside(path, {"type": "tag", "tag": tag, "sessionId": session_id_of(path)})


def fork_session(
    session: Named,
    until: str | None = None,
    *,
    title: str = "",
    cwd: Folder | None = None,
    home: Folder | None = None,
) -> str:
    """Fork a session up to the message `until`, and return the new session's ID."""
    at = get_timestamp()
    return fork(found(session, cwd, home), until, title=title, at=at).path.stem


def found(session: Named, cwd: Folder | None, home: Folder | None = None) -> Path:
    if isinstance(session, Outline):
        return session.path
    return choose.resolve_session(find_home(home), place(cwd), os.fspath(session))


def find_home(home: Folder | None) -> Path:
    return find_config_home(os.environ, Path.cwd()) if home is None else Path(home).resolve()


def place(cwd: Folder | None) -> str:
    return str(Path(cwd or ".").resolve())
