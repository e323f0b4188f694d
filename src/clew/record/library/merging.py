"""Merge two continuations of one session into a new session.

The continuations themselves are not changed. The first becomes the live conversation. Messages that
exist only in the second form a branch from the last common message. A note after the live
conversation tells the model about the branch, and lists the files that both changed. It contains a
summary of the branch if the caller has one written, or else the branch's last response.
"""

import uuid as uuids
from collections.abc import Callable, Iterable
from pathlib import Path

from msgspec import Struct

from clew.core.json_object import Json, list_of, object_of, text_of
from clew.core.messages import factories
from clew.core.messages.errors import SessionError
from clew.record.library.branches import SAID, read_branch
from clew.record.library.copies import fork, graft
from clew.record.transcript.load import load
from clew.record.transcript.log import Log
from clew.record.transcript.paths import SessionPaths, home_of
from clew.record.transcript.policy import Writer
from clew.record.transcript.record import Recorder
from clew.version import VERSION

# Tools that change a file, and the parameter with the file's path.
_CHANGES = {
    "Edit": "file_path", "MultiEdit": "file_path", "Write": "file_path",
    "NotebookEdit": "notebook_path",
}  # fmt: skip
# How much of the branch's last response the note quotes.
QUOTED = 4000


class MergedSession(Struct, frozen=True, kw_only=True):
    """The merged session, the sizes of its parts, and the files that each side changed."""

    path: Path
    shared: int
    only_first: int
    only_second: int
    changed: tuple[str, ...]
    conflicts: tuple[str, ...]
    summary: str = ""


def origin_of(message: Json) -> str:
    """Return the UUID of a message's original: forks keep the UUID, and grafts record it."""
    origin = object_of(message.get("graftedFrom")).get("messageUuid")
    return origin if isinstance(origin, str) else str(message["uuid"])


def merge(
    first: Path,
    second: Path,
    *,
    title: str,
    now: Callable[[], str],
    summarize: Callable[[list[Json]], str],
) -> MergedSession:
    """Write a session with both continuations.

    `summarize` returns a summary of the messages that only the second has, or an empty text. Raise `SessionError` if they have no messages in common, or the first has all of the second's.
    """
    sides = [
        [m for m in read_branch(path).messages if m.get("type") in SAID] for path in (first, second)
    ]
    origins = [{origin_of(message) for message in side} for side in sides]
    shared = [message for message in sides[0] if origin_of(message) in origins[1]]
    own = [message for message in sides[0] if origin_of(message) not in origins[1]]
    others = [message for message in sides[1] if origin_of(message) not in origins[0]]
    if not shared:
        raise SessionError(f"sessions {first.stem} and {second.stem} have no message in common")
    if not others:
        raise SessionError(f"session {first.stem} already has all messages of {second.stem}")
    changed, mine = find_changed_files(others), find_changed_files(own)
    conflicts = tuple(path for path in changed if path in mine)
    summary = summarize(others)
    merged = fork(first, None, title=title, at=now())
    leaf = load(merged.path).leaf_uuid
    _append(merged.path, now, lambda recorder: recorder.rewind(shared[-1]["uuid"]))
    try:
        graft(merged.path, second, others[0]["uuid"], None)
    except SessionError:
        _append(merged.path, now, lambda recorder: recorder.rewind(leaf))
        raise
    note = factories.warning(
        _tell(second.stem, others, changed, conflicts, summary), uuid=str(uuids.uuid4()), at=now()
    )

    def finish(recorder: Recorder) -> None:
        recorder.rewind(leaf)
        recorder.record([note])

    _append(merged.path, now, finish)
    return MergedSession(
        path=merged.path,
        shared=len(shared),
        only_first=len(own),
        only_second=len(others),
        changed=tuple(changed),
        conflicts=conflicts,
        summary=summary,
    )


def _append(path: Path, now: Callable[[], str], write: Callable[[Recorder], object]) -> None:
    loaded = load(path)
    last = loaded.messages[-1]
    cwd = text_of(last.get("cwd"))
    paths = SessionPaths(home=home_of(path), cwd=cwd, session_id=path.stem)
    paths.switch(path.stem, path.parent)
    log = Log()
    writer = Writer(
        session_id=path.stem, cwd=cwd, version=VERSION,
        git_branch=text_of(last.get("gitBranch")) or "HEAD", entrypoint="merge",
    )  # fmt: skip
    recorder = Recorder(paths=paths, log=log, writer=writer, now=now)
    recorder.resume(loaded)
    write(recorder)
    for trouble in log.close().troubles:
        raise OSError(str(trouble))


def find_changed_files(messages: Iterable[Json]) -> list[str]:
    """Return the files that tool calls of these messages changed, each once."""
    paths: dict[str, None] = {}
    for message in messages:
        for block in map(object_of, list_of(object_of(message.get("message")).get("content"))):
            name = _CHANGES.get(text_of(block.get("name")))
            if block.get("type") == "tool_use" and name:
                path = text_of(object_of(block.get("input")).get(name))
                if path:
                    paths[path] = None
    return list(paths)


def _tell(
    session_id: str,
    others: list[Json],
    changed: list[str],
    conflicts: tuple[str, ...],
    summary: str,
) -> str:
    texts = [
        block["text"]
        for message in others
        if message.get("type") == "assistant"
        for block in map(object_of, list_of(object_of(message.get("message")).get("content")))
        if block.get("type") == "text" and type(block.get("text")) is str
    ]
    words = [
        f"Another continuation of this session ({session_id}) was merged as a separate branch. "
        "Its messages are not in this conversation."
    ]
    if changed:
        words.append("It changed these files: " + ", ".join(changed))
    if conflicts:
        words.append(
            "Both continuations changed these files. Read them again before you edit them: "
            + ", ".join(conflicts)
        )
    if summary:
        words.append(f"A model summarized it as follows:\n{summary}")
    elif texts:
        words.append(f"Its last response was:\n{texts[-1][:QUOTED]}")
    return "\n\n".join(words)
