"""The lines of a session that begins as another does: the messages of one branch, what calls did to files,
and how commands ended.

Ids and times stay, the session's id is the new one, every parent is in the new file. What stands beside the
messages stands where it stood between them, that of other branches too: a working folder has one past.

Decision: docs/decisions/325-copies-of-sessions.md
"""

from collections.abc import Iterable, Iterator
from typing import Any

from clew.messages.encoding import decode
from clew.transcript.links import Node
from clew.transcript.load import Loaded
from clew.transcript.source import reading

Json = dict[str, Any]
_COPIED = ("file-change", "task-ended")
# A place in the original says nothing of the copy; one that failed is none to take back either.
_NO_REDO = -1


def copied(
    pairs: Iterable[tuple[Node, Json]],
    loaded: Loaded,
    session_id: str,
    *,
    until: str | None = None,
) -> Iterator[Json]:
    """The messages of `loaded` as the only branch of a session, up to and with the entry `until`."""
    lines = (
        (at, _without_redo(line) | {"sessionId": session_id})
        for at, line in beside(loaded, *_COPIED)
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


def beside(loaded: Loaded, *kinds: str) -> Iterator[tuple[int, Json]]:
    """The lines of these kinds in the whole of what was loaded in part, each with its place in it."""
    signs = [f'"type":"{kind}"'.encode() for kind in kinds]
    with reading(loaded.path, loaded.copies) as source:
        for _, at, raw in source.lines(0):
            head = raw[:200]
            if not any(sign in head for sign in signs):
                continue
            try:
                line = decode(raw)
            except ValueError:
                continue
            if type(line) is dict and line.get("type") in kinds:
                yield at, line


def _without_redo(line: Json) -> Json:
    rewind = line.get("rewind")
    if type(rewind) is not dict:
        return line
    return line | {"rewind": rewind | {"redoOf": _NO_REDO}}
