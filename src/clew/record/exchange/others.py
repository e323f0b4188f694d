"""Up-to-date copies of other agents' sessions, so that lists and searches include them.

The importers write the copies to a separate config home, the folder `clew/others` in the user's
config home. The agents' own files are only read: a session that has changed is copied again, and
the copy of a session that its agent has deleted stays. `sources.json` records which files were
read.

Decision: docs/decisions/327-sessions-of-other-agents.md
"""

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from clew.core.json_object import list_of, object_of, text_of
from clew.core.messages.encoding import decode, encode
from clew.core.messages.errors import SessionError, UserError, describe_error
from clew.permissions.session_rules import load_current_rules
from clew.record.exchange.agents_here import list_sources
from clew.record.exchange.bring import ImportedSession, bring, bring_all
from clew.record.exchange.formats.conversion import read_seconds
from clew.record.transcript import choose
from clew.record.transcript.paths import find_session, get_others_dir
from clew.system.clock import get_timestamp
from clew.system.config.environment import freeze
from clew.system.config.flags import find_flag_state
from clew.system.files import is_folder, make_private, replace

# A file is not read again for this many times as long as reading it took.
PAUSE = 10


def require_importers(environ: Mapping[str, str], cwd: Path) -> None:
    """Raise `UserError` if a feature flag turned imports off."""
    standing = load_current_rules(environ, cwd)
    state = find_flag_state("importers", standing.settings, freeze(standing.environ))
    if not state.is_on:
        raise UserError(f"imports are turned off by {state.source} (see clew config flags)")


class SourceNews(Struct, frozen=True, kw_only=True):
    """The new and changed sessions in one file of an agent, and why others are refused."""

    agent: str
    path: str
    sessions: tuple[ImportedSession, ...] = ()
    refused: tuple[str, ...] = ()


class OtherSessions:
    """The copies that belong to a config home; `home` is the config home that contains them."""

    def __init__(self, owner: Path) -> None:
        self._owner = owner
        self.home = get_others_dir(owner)
        self._due_s: dict[str, float] = {}

    def holds(self, path: Path) -> bool:
        """Return whether a file is one of the copies."""
        return path.is_relative_to(self.home)

    def is_double(self, path: Path, session_id: str) -> bool:
        """Return whether a file is a copy of a session that clew has imported."""
        return self.holds(path) and bool(find_session(self._owner, session_id))

    def refresh(
        self, environ: Mapping[str, str], user_home: Path, cwd: Path, clock: Callable[[], float]
    ) -> Iterator[tuple[SourceNews, int, int]]:
        """Copy new and changed sessions, and report each file.

        For each file, yield its news, its number, and the number of files to read.
        """
        require_importers(environ, cwd)
        with self._hold() as known:
            waiting = [
                (agent, path)
                for agent, path in list_sources(environ, user_home, cwd, self._owner)
                if _stamp(path) != object_of(known.get(str(path))).get("stamp")
                and self._due_s.get(str(path), 0) <= clock()
            ]
            for number, (agent, path) in enumerate(waiting, 1):
                began_s = clock()
                yield self._read(agent, path, cwd, known), number, len(waiting)
                self._due_s[str(path)] = clock() + PAUSE * (clock() - began_s)

    def find(self, name: str, cwd: str) -> Path | None:
        """Return the copy of a session, or None; update it if the agent's file has changed."""
        if not is_folder(self.home):
            return None
        try:
            path = choose.resolve_session(self.home, cwd, name)
        except choose.UnknownSessionError:
            return None
        with self._hold() as known:
            for source, fields in list(known.items()):
                if path.stem in list_of(fields.get("sessions")):
                    stamp = _stamp(Path(source))
                    if stamp and stamp != fields.get("stamp"):
                        self._read(text_of(fields.get("agent")), Path(source), Path(cwd), known)
        return next(iter(find_session(self.home, path.stem)), path)

    def adopt(self, name: str, cwd: str) -> Path | None:
        """Import the copy of a session into clew's own sessions, and return its transcript.

        Return None if there is no such copy.
        """
        path = self.find(name, cwd)
        if path is None:
            return None
        return bring(self._owner, path, cwd, now=get_timestamp, has_new_id=False).path

    def read_agents(self) -> dict[str, str]:
        """Return the name of each session's agent, by session ID."""
        return {
            text_of(session): text_of(fields.get("agent"))
            for fields in self._sources().values()
            for session in list_of(fields.get("sessions"))
        }

    def _read(self, agent: str, path: Path, cwd: Path, sources: dict[str, Any]) -> SourceNews:
        before = list_of(object_of(sources.get(str(path))).get("sessions"))
        # A file that grows in the meantime is read again the next time.
        fields = {"agent": agent, "stamp": _stamp(path), "sessions": before}
        sources[str(path)] = fields
        try:
            copied, refused = bring_all(
                self._owner, path, str(cwd), now=get_timestamp, has_new_id=False, mirror=self.home
            )
        except (SessionError, OSError) as error:
            return SourceNews(agent=agent, path=str(path), refused=(describe_error(error),))
        for session in copied:
            _date(session, path)
        copied_ids = [session.path.stem for session in copied]
        copied_ids += [session.known.stem for session in refused if session.known]
        fields["sessions"] = list(dict.fromkeys([*before, *copied_ids]))
        return SourceNews(
            agent=agent,
            path=str(path),
            sessions=tuple(copied),
            refused=tuple(s.reason for s in refused if not s.known and not s.is_empty),
        )

    def _sources(self) -> dict[str, Any]:
        try:
            value = object_of(decode((self.home / "sources.json").read_bytes()))
        except (OSError, ValueError):
            return {}
        return {path: object_of(fields) for path, fields in value.items()}

    @contextmanager
    def _hold(self) -> Iterator[dict[str, Any]]:
        """Yield the records of the sources, locked, and save them if they have changed."""
        make_private(self.home)
        handle = os.open(self.home, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            sources = self._sources()
            before = encode(sources)
            try:
                yield sources
            finally:
                if (after := encode(sources)) != before:
                    replace(self.home / "sources.json", after.decode())
        finally:
            os.close(handle)


def _stamp(path: Path) -> list[int]:
    """Return a value that changes with a file, or with a database's write-ahead log next to it."""
    stamp: list[int] = []
    for file in (path, path.with_name(f"{path.name}-wal")):
        try:
            state = file.stat()
        except OSError:
            continue
        stamp += [state.st_size, state.st_mtime_ns, state.st_ino]
    return stamp


def _date(session: ImportedSession, source: Path) -> None:
    """Set a copy's time to that of its last message, or else of its source.

    Lists sort by this time.
    """
    moment_s = read_seconds(session.ended_at) or source.stat().st_mtime
    os.utime(session.path, (moment_s, moment_s))
