"""Backups of changed files in the format that other tools of the ecosystem use to rewind.

clew itself rewinds with `file-change` lines and contents stored by hash. For other tools, the first
change after a prompt adds a `file-history-snapshot` line for that prompt: it names, for each file
that the session has changed, a plain copy in `file-history/SESSION/` of the config home. A version
is copied once. The permission bits of a copy are those that the file had.

The format is described in docs/using/rewind.md.
"""

import os
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from clew.core.json_object import Json, object_of, text_of
from clew.core.messages.encoding import decode_object
from clew.record.rewind.changes import FileState, PathChange
from clew.record.rewind.disk import Blobs
from clew.record.rewind.others import state_of_backup
from clew.record.rewind.restore import steps_of
from clew.record.transcript.files import Files
from clew.record.transcript.paths import get_backup_dir
from clew.record.transcript.source import open_source

# The most files that snapshots name, because each snapshot names all of them.
FILES_MAX = 300
# From this many files on, each further file of the same turn gets its own line.
UPDATED_MAX = 20
_SNAPSHOT, _DELTA = b'"type":"file-history-snapshot"', b'"type":"file-history-delta"'


class BackupLine(Struct, frozen=True, kw_only=True):
    """A line to record: a snapshot with all files, or the backup of one file (`path`)."""

    prompt: str
    files: Json
    is_update: bool = False
    path: str = ""


class _File(Struct, kw_only=True):
    """A file in snapshots: its newest copy, that copy's state, and the file's current state."""

    backup: Json
    copied: FileState
    now: FileState


class PromptBackups:
    """The backups of one session. `cwd` is the folder that paths in lines are relative to."""

    def __init__(self, home: Path, session_id: str, cwd: str, blobs: Blobs) -> None:
        self._folder = get_backup_dir(home, session_id)
        self._cwd = cwd
        self._blobs = blobs
        self._files: dict[str, _File] = {}
        # The newest prompt with a snapshot.
        self.prompt: str | None = None

    def resume(self, transcript: Path) -> None:
        """Continue from the lines of a transcript, if it has any."""
        backups: dict[str, Json] = {}
        with open_source(transcript) as source:
            for _, _, raw in source.lines(0):
                entry = decode_object(raw) if _SNAPSHOT in raw or _DELTA in raw else {}
                if entry.get("type") == "file-history-snapshot":
                    snapshot = object_of(entry.get("snapshot"))
                    self.prompt = text_of(snapshot.get("messageId")) or self.prompt
                    backups |= object_of(snapshot.get("trackedFileBackups"))
                elif entry.get("type") == "file-history-delta":
                    backups[text_of(entry.get("trackingPath"))] = object_of(entry.get("backup"))
        states = {c.path: c.after for step in steps_of(transcript) for c in step.changes}
        for name, backup in backups.items():
            path = os.path.join(self._cwd, name)
            if type(backup) is dict:
                copied = state_of_backup(self._folder, backup)
                now = states.get(path, copied)
                self._files[path] = _File(backup=backup, copied=copied, now=now)

    def note(
        self, prompts: Sequence[str], changes: Sequence[PathChange], at: str
    ) -> list[BackupLine]:
        """Back up what `changes` replaced, and return the lines to record.

        `prompts` are the prompts since the newest one with a snapshot; the changes belong
        to the last of them. Raise `OSError` if a copy can't be written.
        """
        is_new = bool(prompts)
        if is_new:
            self._catch_up({change.path: change.before for change in changes}, at)
        lines = [BackupLine(prompt=prompt, files=self._all()) for prompt in prompts[:-1]]
        self.prompt = prompts[-1] if is_new else self.prompt
        added = []
        for change in changes:
            known = self._files.get(change.path)
            if known is not None:
                known.now = change.after
            elif len(self._files) < FILES_MAX and _is_of_file(change):
                self._files[change.path] = _File(
                    backup=self._copy(change.path, change.before, 1, at),
                    copied=change.before,
                    now=change.after,
                )
                added.append(change.path)
        prompt = self.prompt
        if prompt is None or not (is_new or added):
            return lines
        if is_new or len(self._files) <= UPDATED_MAX:
            return [*lines, BackupLine(prompt=prompt, files=self._all(), is_update=not is_new)]
        return [
            BackupLine(prompt=prompt, files=self._files[path].backup, path=self._name(path))
            for path in added
        ]

    def _catch_up(self, before: dict[str, FileState], at: str) -> None:
        """Copy each file that has changed since its newest copy."""
        for path, file in self._files.items():
            state = before.get(path, file.now)
            if not state.same(file.copied) and state.kind in ("absent", "file"):
                version = file.backup.get("version")
                number = version + 1 if type(version) is int else 1
                file.backup = self._copy(path, state, number, at)
                file.copied = file.now = state

    def _copy(self, path: str, state: FileState, version: int, at: str) -> Json:
        name = None
        data = self._blobs.get(state.sha256) if state.kind == "file" else None
        if data is not None:
            name = f"{sha256(path.encode('utf-8', 'surrogateescape')).hexdigest()[:16]}@v{version}"
            Files().make_folder(self._folder)
            target = self._folder / name
            target.unlink(missing_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            with os.fdopen(os.open(target, flags, 0o600), "wb") as file:
                file.write(data)
                os.fchmod(file.fileno(), state.mode & 0o777)
        return {
            "backupFileName": name,
            "version": version,
            "backupTime": at,
            "realParentDir": os.path.realpath(os.path.dirname(path)),
        }

    def _all(self) -> Json:
        return {self._name(path): file.backup for path, file in self._files.items()}

    def _name(self, path: str) -> str:
        """Return a path as lines spell it: relative if it is in the session's folder."""
        beginning = f"{self._cwd.rstrip('/')}/"
        return path.removeprefix(beginning)


def _is_of_file(change: PathChange) -> bool:
    kinds = (change.before.kind, change.after.kind)
    return "file" in kinds and change.before.kind in ("absent", "file")
