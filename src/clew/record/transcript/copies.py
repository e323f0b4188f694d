"""The lines of a session derived from another: the messages of one branch, file changes, task ends.

IDs and times are kept, the session ID is replaced, and every parent is in the new file. File
changes and task ends keep their places between the messages. Those of other branches are included,
because the files in a working folder have only one history.

Decision: docs/decisions/325-copies-of-sessions.md
"""

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clew.core.json_object import Json
from clew.core.messages.encoding import decode_object
from clew.record.transcript import light
from clew.record.transcript.header import read_header
from clew.record.transcript.light import is_uuid
from clew.record.transcript.links import Node
from clew.record.transcript.load import load
from clew.record.transcript.loaded import LoadedSession
from clew.record.transcript.paths import SessionPlace, find_session
from clew.record.transcript.source import open_source
from clew.system.files import is_folder, is_link, try_lock

# Where a session was copied from, according to the first line of its file, and which session was
# repaired from another.


def find_origins(home: Path, place: SessionPlace, loaded: LoadedSession) -> list[SessionPlace]:
    """Return the existing sessions that this one was copied from or contains parts of.

    Their folders contain the long tool results that this session's messages refer to.
    """
    places: dict[str, SessionPlace] = {}
    wanted = [_id_in(message.get("graftedFrom")) for message in loaded.messages]
    wanted += _made_of(place.transcript)
    while wanted:
        session_id = wanted.pop()
        if not is_uuid(session_id) or session_id in (place.session_id, *places):
            continue
        for path in find_session(home, session_id)[:1]:
            places[session_id] = SessionPlace(session_id=session_id, project_dir=path.parent)
            wanted += _made_of(path)
    return list(places.values())


def _made_of(path: Path) -> list[str]:
    header = read_header(path)
    return [_id_in(header.get(key)) for key in ("forkedFrom", "repairedFrom")]


def _id_in(value: Any) -> str:
    return str(value.get("sessionId", "")) if type(value) is dict else ""


def find_repaired_copy(path: Path, loaded: LoadedSession) -> Path | None:
    """Return the repaired copy of `path` that has the entire conversation in `loaded`, or None.

    If the original was continued after the repair, the copy no longer replaces it.
    """
    wanted = {node.uuid for node in loaded.chain.nodes() if not node.is_boundary}
    for other in light.list_session_files(path.parent):
        made_of = read_header(other).get("repairedFrom")
        if type(made_of) is not dict or made_of.get("sessionId") != path.stem:
            continue
        if wanted <= set(load(other, reads_all=True).chain.links.index):
            return other
    return None


# A folder next to a session's file in which a copy is built, by one process at a time.


SUFFIX = ".repairing"


@contextmanager
def open_staging(path: Path) -> Iterator[Path]:
    """Yield an empty folder next to a session's file, and delete it afterward.

    Raise `BlockingIOError` if another process is using the folder.
    """
    folder = path.with_suffix(SUFFIX)
    handle = _claimed(folder)
    try:
        _cleared(folder)
        try:
            yield folder
        finally:
            shutil.rmtree(folder)
    finally:
        os.close(handle)


def _claimed(folder: Path) -> int:
    while True:
        folder.mkdir(mode=0o700, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        if not try_lock(handle):
            os.close(handle)
            raise BlockingIOError(f"{folder} is in use by another process")
        if is_folder(folder) and os.path.samestat(folder.stat(), os.fstat(handle)):
            return handle
        os.close(handle)  # The previous owner deleted the folder in the meantime.


def _cleared(folder: Path) -> None:
    for path in folder.iterdir():
        if is_folder(path) and not is_link(path):
            shutil.rmtree(path)
        else:
            path.unlink()


_COPIED = ("attribution-snapshot", "file-change", "task-ended")
# Offsets in the original mean nothing in the copy. A rewind that failed cannot be undone either.
_NO_REDO = -1


def copy_messages(
    pairs: Iterable[tuple[Node, Json]],
    loaded: LoadedSession,
    session_id: str,
    *,
    until: str | None = None,
) -> Iterator[Json]:
    """Yield the messages of `loaded`, up to and including `until`, as a session's only branch.

    Also yield the lines of the kinds in `_COPIED`.
    """
    lines = (
        (at, _without_redo(line) | {"sessionId": session_id})
        for at, line in read_side_lines(loaded, *_COPIED)
    )
    waiting = next(lines, None)
    seen: set[str] = set()
    last: str | None = None
    for node, message in pairs:
        while waiting is not None and waiting[0] < node.at:
            yield waiting[1]
            waiting = next(lines, None)
        parent = message.get("parentUuid")
        yield {
            "parentUuid": parent if _is_known(parent, seen) or node.is_boundary else last,
            **{key: value for key, value in message.items() if key != "parentUuid"},
            "uuid": node.uuid,
            "sessionId": session_id,
        }
        last = node.uuid
        seen.add(last)
        if last == until:
            break
    while waiting is not None:
        yield waiting[1]
        waiting = next(lines, None)


def read_side_lines(loaded: LoadedSession, *kinds: str) -> Iterator[tuple[int, Json]]:
    """Yield the lines of the given kinds with their offsets.

    Lines in parts of the file that were not loaded are included.
    """
    signs = [f'"type":"{kind}"'.encode() for kind in kinds]
    with open_source(loaded.path, loaded.copies) as source:
        for _, at, raw in source.lines(0):
            head = raw[:200]
            if not any(sign in head for sign in signs):
                continue
            line = decode_object(raw)
            if line.get("type") in kinds:
                yield at, line


def _without_redo(line: Json) -> Json:
    rewind = line.get("rewind")
    if type(rewind) is not dict:
        return line
    return line | {"rewind": rewind | {"redoOf": _NO_REDO}}


def _is_known(parent: object, seen: set[str]) -> bool:
    """Return whether a parent, which in a damaged file can be any JSON value, has been copied."""
    return isinstance(parent, str) and parent in seen
