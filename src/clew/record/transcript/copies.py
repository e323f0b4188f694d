"""The lines of a session that begins as another does: the messages of one branch, what calls did to files,
and how commands ended.

Ids and times stay, the session's id is the new one, every parent is in the new file. What stands beside the
messages stands where it stood between them, that of other branches too: a working folder has one past.

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
from clew.record.transcript.light import is_uuid
from clew.record.transcript.links import Node
from clew.record.transcript.load import LoadedSession, load
from clew.record.transcript.paths import SessionPlace, find_session
from clew.record.transcript.source import open_source
from clew.system.files import is_folder, is_link, try_lock

# Where a session comes from, by the first line of its file, and which one was made of it by repair.


LONGEST_HEADER_BYTES = 1 << 16


def header_of(path: Path) -> dict[str, Any]:
    """The first line; an empty one where it is none of ours or cannot be read."""
    try:
        with path.open("rb") as file:
            return decode_object(file.readline(LONGEST_HEADER_BYTES))
    except OSError:
        return {}


def find_origins(home: Path, place: SessionPlace, loaded: LoadedSession) -> list[SessionPlace]:
    """The sessions that one is a copy of, or has parts of, as far as they are there: what calls said
    at length lies with them."""
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
    header = header_of(path)
    return [_id_in(header.get(key)) for key in ("forkedFrom", "repairedFrom")]


def _id_in(value: Any) -> str:
    return str(value.get("sessionId", "")) if type(value) is dict else ""


def find_repaired_copy(path: Path, loaded: LoadedSession) -> Path | None:
    """The repaired copy beside a file that holds the whole conversation `loaded` from it.

    Where somebody went on in the original after the repair, the copy stands for it no more.
    """
    wanted = {node.uuid for node in loaded.chain.nodes() if not node.is_boundary}
    for other in light.list_session_files(path.parent):
        made_of = header_of(other).get("repairedFrom")
        if type(made_of) is not dict or made_of.get("sessionId") != path.stem:
            continue
        if wanted <= set(load(other, reads_all=True).chain.links.index):
            return other
    return None


# A folder beside a session's file in which another is made of it, by one process at a time.


SUFFIX = ".repairing"


@contextmanager
def open_staging(path: Path) -> Iterator[Path]:
    """An empty folder, gone afterwards. Raises BlockingIOError where another process has it."""
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
            raise BlockingIOError(f"{folder} is another process's")
        if is_folder(folder) and os.path.samestat(folder.stat(), os.fstat(handle)):
            return handle
        os.close(handle)  # who had it took it away meanwhile


def _cleared(folder: Path) -> None:
    for path in folder.iterdir():
        if is_folder(path) and not is_link(path):
            shutil.rmtree(path)
        else:
            path.unlink()


_COPIED = ("file-change", "task-ended")
# A place in the original says nothing of the copy; one that failed is none to take back either.
_NO_REDO = -1


def copy_messages(
    pairs: Iterable[tuple[Node, Json]],
    loaded: LoadedSession,
    session_id: str,
    *,
    until: str | None = None,
) -> Iterator[Json]:
    """The messages of `loaded` as the only branch of a session, up to and with the entry `until`."""
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
            "parentUuid": parent if parent in seen or node.is_boundary else last,
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
    """The lines of these kinds in the whole of what was loaded in part, each with its place in it."""
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
