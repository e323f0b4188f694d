"""What a way back would do, to be read before it is done: each file, and what changes in it."""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from clew.messages.counts import count_of
from clew.rewind.blobs import Blobs
from clew.rewind.changes import Change, State
from clew.rewind.restore import Plan
from clew.tools.patch import patch_of_texts

# Of one file and of all of them; what is more is counted, not shown.
SHOWN_LINES = 40
SHOWN_LINES_WHOLE = 200
DIFFED_MAX_BYTES = 1 << 20


class FileChange(Struct, frozen=True, kw_only=True):
    """One file of a plan: what is done with it, and its lines, marked with + and -."""

    path: str
    verb: str
    lines: tuple[str, ...] = ()
    insertions: int = 0
    deletions: int = 0


def file_changes(planned: Plan, blobs: Blobs) -> list[FileChange]:
    return [_file_change(change, blobs) for change in planned.changes]


def _file_change(change: Change, blobs: Blobs) -> FileChange:
    before, after = _text(change.before, blobs), _text(change.after, blobs)
    if before is None or after is None or before == after:
        return FileChange(path=change.path, verb=change.verb)
    lines = [line for hunk in patch_of_texts(before, after) for line in _hunk(hunk)]
    return FileChange(
        path=change.path,
        verb=change.verb,
        lines=tuple(lines),
        insertions=sum(line.startswith("+") for line in lines),
        deletions=sum(line.startswith("-") for line in lines),
    )


def _hunk(hunk: dict[str, Any]) -> list[str]:
    head = f"@@ -{hunk['oldStart']},{hunk['oldLines']} +{hunk['newStart']},{hunk['newLines']} @@"
    return [head, *hunk["lines"]]


def _text(state: State, blobs: Blobs) -> str | None:
    """What a state says to a reader of text; None if it is none or too long to compare."""
    if state.kind != "file":
        return ""
    data = blobs.get(state.sha256) if state.size <= DIFFED_MAX_BYTES else None
    if data is None or b"\0" in data:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def standing_against(planned: Plan) -> list[str]:
    return [
        *(f"stands against it: {path}: {why}" for path, why in planned.foreign),
        *(f"cannot be brought back: {path}: {why}" for path, why in planned.lost),
    ]


def shown(planned: Plan, blobs: Blobs, where: str) -> str:
    """The whole preview; `where` says in words where the conversation would stand."""
    changes = file_changes(planned, blobs)
    lines = [*_files(changes), *standing_against(planned)]
    if not lines:
        lines = ["no file changes"]
    if planned.conversation:
        lines.append(f"the conversation would stand {where}")
    return "\n".join(lines)


def _files(changes: list[FileChange]) -> Iterator[str]:
    left = SHOWN_LINES_WHOLE
    for change in changes:
        yield f"would be {change.verb}: {change.path} (+{change.insertions} -{change.deletions})"
        room = min(left, SHOWN_LINES)
        yield from (f"    {line}" for line in change.lines[:room])
        if len(change.lines) > room:
            yield f"    ... {count_of(len(change.lines) - room, 'more line')}"
        left -= min(room, len(change.lines))
