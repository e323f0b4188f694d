"""The lines of a session that begins as another does: the messages of one branch, and what calls did to files.

Ids and times stay, the session's id is the new one, every parent is in the new file. Changes of files
stand where they stood between the messages, those of other branches too: a working folder has one past.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from clew.messages.encoding import decode
from clew.transcript.links import Node
from clew.transcript.source import Source

Json = dict[str, Any]
_CHANGE = b'"type":"file-change"'
# A place in the original says nothing of the copy; one that failed is none to take back either.
_NO_REDO = -1


def copied(
    pairs: Iterable[tuple[Node, Json]], path: Path, session_id: str, *, until: str | None = None
) -> Iterator[Json]:
    """The messages of `path` as the only branch of a session, up to and with the entry `until`."""
    changes = file_changes(path, session_id)
    waiting = next(changes, None)
    seen: set[str] = set()
    last: str | None = None
    for node, message in pairs:
        while waiting is not None and waiting[0] < node.at:
            yield waiting[1]
            waiting = next(changes, None)
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
        waiting = next(changes, None)


def file_changes(path: Path, session_id: str) -> Iterator[tuple[int, Json]]:
    """What calls did to files, and the ways back, each with its place in `path`."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for _, at, raw in Source(fd).lines(0):
            if _CHANGE not in raw[:200]:
                continue
            try:
                line = decode(raw)
            except ValueError:
                continue
            if type(line) is dict and line.get("type") == "file-change":
                yield at, _without_redo(line) | {"sessionId": session_id}
    finally:
        os.close(fd)


def _without_redo(line: Json) -> Json:
    rewind = line.get("rewind")
    if type(rewind) is not dict:
        return line
    return line | {"rewind": rewind | {"redoOf": _NO_REDO}}
