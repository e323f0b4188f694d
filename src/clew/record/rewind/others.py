"""Backups that another program recorded in a session, for a rewind by clew.

Programs of the ecosystem copy a file before its first change after a prompt, and name the copies in
`file-history-snapshot` and `file-history-delta` lines. clew writes such lines too, beside its own
`file-change` lines (backups.py); only the other programs' are read here.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec import Struct

from clew.core.json_object import Json, list_of, object_of, text_of
from clew.record.rewind.changes import ABSENT, ChangeStep, FileState, PathChange
from clew.record.rewind.disk import read_state

LINES = ("file-history-snapshot", "file-history-delta")
# The input fields with the path of a file that a tool changes.
EDITS = {
    "Write": "file_path",
    "Edit": "file_path",
    "MultiEdit": "file_path",
    "NotebookEdit": "notebook_path",
}
NO_COPY = "the program that recorded the session kept no copy of it"
GONE = "the copy that the other program made is missing"
MOVED = "its folder is now another one, through a link"


class OtherBackup(Struct, frozen=True, kw_only=True):
    """A copy of a file as it was before the changes that followed a prompt."""

    prompt: str
    path: str
    backup: Json
    at: int


class OtherEdit(Struct, frozen=True, kw_only=True):
    """A call of another program that changed a file."""

    tool_use_id: str
    path: str
    at: int


class OtherHistory(Struct, kw_only=True):
    """What another program recorded about the files of a session, and the session's first folder."""

    cwd: str = ""
    backups: list[OtherBackup] = []
    edits: list[OtherEdit] = []
    failed: set[str] = set()
    # Whether clew has written to the session. Later calls are clew's, which records changes itself.
    is_over: bool = False

    def add(self, entry: Json, at: int) -> None:
        """Take in one line of the transcript."""
        kind = entry.get("type")
        self.is_over |= kind in ("clew-session", "prompt-hashes")
        self.cwd = self.cwd or text_of(entry.get("cwd"))
        # Lines of clew contain the session's ID.
        if kind in LINES and "sessionId" not in entry:
            self.backups += backups_of(entry, at)
        elif not self.is_over and kind in ("assistant", "user"):
            message = object_of(entry.get("message"))
            for block in list_of(message.get("content")):
                self._take_block(object_of(block), at)

    def _take_block(self, block: Json, at: int) -> None:
        if block.get("type") == "tool_result" and block.get("is_error") is True:
            self.failed.add(text_of(block.get("tool_use_id")))
        field = EDITS.get(text_of(block.get("name")))
        if block.get("type") == "tool_use" and field is not None:
            path = text_of(object_of(block.get("input")).get(field))
            self.edits.append(OtherEdit(tool_use_id=text_of(block.get("id")), path=path, at=at))

    def place(self, path: str) -> str:
        """Return a path as it is on this machine; relative paths belong to the session's folder."""
        return os.path.normpath(os.path.join(self.cwd, path))

    def unrecorded(self, place: int) -> list[str]:
        """Return the files that were changed after an offset, but never backed up."""
        known = {self.place(backup.path) for backup in self.backups}
        changed = (e.path for e in self.edits if e.at > place and e.tool_use_id not in self.failed)
        return sorted({self.place(path) for path in changed if path} - known)


def backups_of(entry: Json, at: int) -> list[OtherBackup]:
    """Return the backups that a line names."""
    snapshot = object_of(entry.get("snapshot"))
    if entry["type"] == "file-history-delta":
        prompt: Any = entry.get("snapshotMessageId")
        named: Json = {text_of(entry.get("trackingPath")): entry.get("backup")}
    else:
        prompt, named = snapshot.get("messageId"), object_of(snapshot.get("trackedFileBackups"))
    return [
        OtherBackup(prompt=text_of(prompt), path=path, backup=backup, at=at)
        for path, backup in named.items()
        if path and type(backup) is dict
    ]


def state_of_backup(folder: Path, backup: Json) -> FileState:
    """Return the state that a copy in `folder` has; absent if there was no file."""
    copy = find_copy(folder, backup)
    if copy is None:
        return ABSENT
    try:
        data = copy.read_bytes()
        mode = copy.stat().st_mode & 0o7777
    except OSError:
        return FileState(kind="unkept", why=GONE)
    return FileState(kind="file", sha256=sha256(data).hexdigest(), size=len(data), mode=mode)


def find_copy(folder: Path, backup: Json) -> Path | None:
    """Return the path of a copy, or None if there was no file."""
    name = backup.get("backupFileName")
    return folder / name if type(name) is str and name == os.path.basename(name) else None


def steps_of_others(
    history: OtherHistory, places: Mapping[str, int], own: Sequence[ChangeStep], folder: Path
) -> tuple[list[ChangeStep], dict[str, Path]]:
    """Return the changes between the backups as steps, and the copy of each content by its hash.

    Each step is in effect right after its prompt. After the last backup of a file, its next known
    state is the one that clew recorded, or else the current one.
    """
    by_path: dict[str, dict[int, OtherBackup]] = {}
    for backup in history.backups:
        if backup.prompt in places:
            turns = by_path.setdefault(history.place(backup.path), {})
            turns.setdefault(places[backup.prompt], backup)
    steps: list[ChangeStep] = []
    copies: dict[str, Path] = {}
    for path, turns in by_path.items():
        ordered = sorted(turns.items())
        states = [_known_state(path, backup, folder, copies) for _, backup in ordered]
        states.append(_state_behind(path, ordered[-1][0], own))
        for (place, backup), before, after in zip(ordered, states, states[1:], strict=False):
            if not before.same(after):
                change = PathChange(path=path, before=before, after=after)
                steps.append(
                    ChangeStep(
                        at=backup.at,
                        since=place + 1,
                        tool_use_id="",
                        message_uuid=backup.prompt,
                        timestamp="",
                        changes=(change,),
                    )
                )
    return steps, copies


def _known_state(path: str, other: OtherBackup, folder: Path, copies: dict[str, Path]) -> FileState:
    parent = text_of(other.backup.get("realParentDir"))
    if parent and os.path.realpath(os.path.dirname(path)) != parent:
        return FileState(kind="unkept", why=MOVED)
    state = state_of_backup(folder, other.backup)
    copy = find_copy(folder, other.backup)
    if state.kind == "file" and copy is not None:
        copies[state.sha256] = copy
    return state


def _state_behind(path: str, place: int, own: Iterable[ChangeStep]) -> FileState:
    for step in own:
        if step.since > place:
            for change in step.changes:
                if change.path == path:
                    return change.before
    return read_state(path, None)
