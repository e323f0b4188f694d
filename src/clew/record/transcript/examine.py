"""Check every line of a session's file against the rules of check.py, without changing it."""

from pathlib import Path

import msgspec

from clew.record.transcript.check import BrokenRule, check, check_line
from clew.record.transcript.light import is_uuid
from clew.record.transcript.links import LinkNote
from clew.record.transcript.load import load
from clew.record.transcript.loaded import LoadedSession
from clew.record.transcript.source import TranscriptSource


class Examination(msgspec.Struct, frozen=True, kw_only=True):
    """A file, its content, and the rules it violates."""

    path: Path
    loaded: LoadedSession
    findings: list[BrokenRule]

    @property
    def problems(self) -> list[BrokenRule]:
        """The findings, except those that are only notes."""
        return [finding for finding in self.findings if finding.severity != "note"]

    @property
    def errors(self) -> list[BrokenRule]:
        return [finding for finding in self.findings if finding.severity == "error"]


def examine(path: Path) -> Examination:
    """Read and check a file. Raise `OSError` only if the file is unreadable."""
    loaded = load(path, reads_all=True)
    notes = [*loaded.line_notes, *_line_notes(path)]
    findings = check(
        loaded.chain,
        loaded.messages,
        notes,
        session_id=_expected_id(path),
        written_ahead=len(loaded.owed),
        stands_before_all=loaded.stands_before_all,
        markers=loaded.side.markers,
    )
    return Examination(path=path, loaded=loaded, findings=findings)


def _expected_id(path: Path) -> str | None:
    """Return the ID of the session that a file's entries must name, or None if any is valid.

    Any session is valid for a subagent's file next to the sessions, as older versions wrote it.
    """
    session_id = session_id_of(path)
    return None if session_id.startswith("agent-") else session_id


def session_id_of(path: Path) -> str:
    """Return the ID of the session that a file belongs to.

    That is the file's name, or for a subagent's file the name of the session's folder.
    """
    if is_uuid(path.stem):
        return path.stem
    return next((folder.name for folder in path.parents if is_uuid(folder.name)), path.stem)


def _line_notes(path: Path) -> list[LinkNote]:
    notes: list[LinkNote] = []
    with path.open("rb", buffering=0) as file:
        source = TranscriptSource(file.fileno())
        for number, at, raw in source.lines(0):
            is_last = at + len(raw) >= source.size
            notes += check_line(raw, number, at, is_last=is_last)
    return notes
