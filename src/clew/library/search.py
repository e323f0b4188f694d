"""Full-text search over all sessions: what the index knows, and the rest read from the files.

The answer is complete whatever state the index is in: it is brought up to date where that is a matter
of moments, and what it does not know yet is searched in the files themselves.

Decision: docs/decisions/125-search-index.md
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from clew.config.clock import written_here
from clew.library.indexing import Pending, index, pending, take_in, unread_tails
from clew.library.places import Found, transcripts
from clew.library.scan import Line, line_of, scan
from clew.library.words import Query, fts_of
from clew.transcript import light
from clew.transcript.paths import canonical, project_dir

# So much is taken into the index before an answer; more is searched where it lies.
AT_ONCE_BYTES = 8 << 20


class Scope(Struct, frozen=True, kw_only=True):
    """Which files are searched: those of a folder's name, of one session, or all."""

    folders: tuple[str, ...] | None = None
    session_id: str | None = None
    agents: bool = True

    def holds(self, found: Found) -> bool:
        return (
            (self.folders is None or found.folder in self.folders)
            and (self.session_id is None or found.session_id == self.session_id)
            and (self.agents or not found.agent)
        )


class Hit(Struct, frozen=True, kw_only=True):
    """An entry that answers, the session it stands in, and what is around the words."""

    session_id: str
    agent: str
    path: str
    title: str
    cwd: str
    uuid: str | None
    kind: str
    speaker: str
    timestamp: str | None
    at: int
    snippet: str


class Result(Struct, frozen=True, kw_only=True):
    """`behind_bytes` were searched in files because the index does not know them yet; `unread` are files
    that cannot be read."""

    hits: list[Hit]
    behind_bytes: int
    without_index: str
    unread: tuple[str, ...] = ()


def search(
    home: Path,
    query: Query,
    scope: Scope,
    *,
    limit: int,
    use_index: bool = True,
    reads_files: bool = True,
) -> Result:
    """The newest answers first, at most `limit` of them; with `reads_files` off what the index does not
    know yet is left out, for who asks with each letter."""
    files = list(transcripts(home))
    by_path = {found.path: found for found in files}
    reason = "" if use_index else "as was asked"
    if use_index:
        try:
            found = _by_index(home, query, scope, files, by_path, limit, reads_files=reads_files)
            return replace(found, unread=_unread(files, scope)) if reads_files else found
        except (OSError, sqlite3.Error, UnicodeEncodeError) as error:
            reason = str(error)  # a path that is no text cannot be kept in the index
    if not reads_files:
        return Result(hits=[], behind_bytes=sum(one.size for one in files), without_index=reason)
    mine = sorted(filter(scope.holds, files), key=lambda one: -one.mtime_ns)
    lines = _first(scan(query, [(one.path, 0) for one in mine]), limit)
    behind = sum(one.size for one in mine)
    return Result(
        hits=_hits(lines, by_path),
        behind_bytes=behind,
        without_index=reason,
        unread=_unread(files, scope),
    )


def _unread(files: list[Found], scope: Scope) -> tuple[str, ...]:
    mine = (one.path for one in files if scope.holds(one))
    return tuple(path for path in mine if not os.access(path, os.R_OK))


def _by_index(
    home: Path,
    query: Query,
    scope: Scope,
    files: list[Found],
    by_path: dict[str, Found],
    limit: int,
    *,
    reads_files: bool,
) -> Result:
    with index(home) as found:
        connection = found.connection
        waiting = pending(connection, files)
        if sum(one.size_bytes for one in waiting) <= AT_ONCE_BYTES:
            take_in(found, waiting)
            waiting = []
        behind = _behind(waiting, unread_tails(connection), by_path, scope)
        lines = _first(scan(query, behind), limit) if reads_files else []
        known = _indexed(connection, query, scope, limit, {one.found.path for one in waiting})
        named = _named(connection, {line.path for line in [*lines, *known]}, by_path)
    order = {line.path: by_path[line.path].mtime_ns for line in [*lines, *known]}
    merged = sorted(
        {(line.path, line.at): line for line in [*known, *lines]}.values(),
        key=lambda line: (-order[line.path], line.path, -line.at),
    )
    sizes = sum(by_path[path].size - start for path, start in behind)
    return Result(hits=_hits(merged[:limit], by_path, named), behind_bytes=sizes, without_index="")


def _behind(
    waiting: list[Pending],
    tails: list[tuple[str, int]],
    by_path: dict[str, Found],
    scope: Scope,
) -> list[tuple[str, int]]:
    """Where the index does not reach: files to be searched from an offset on, newest first."""
    starts = dict(tails) | {one.found.path: 0 for one in waiting}
    mine = [by_path[path] for path in starts if path in by_path and scope.holds(by_path[path])]
    return [(one.path, starts[one.path]) for one in sorted(mine, key=lambda one: -one.mtime_ns)]


def _indexed(
    connection: sqlite3.Connection, query: Query, scope: Scope, limit: int, stale: set[str]
) -> list[Line]:
    """Answers of the index, the latest written first; each is read from its file to be shown."""
    where, values = ["words MATCH ?"], [fts_of(query)]
    if scope.folders is not None:
        where.append(f"folder IN ({', '.join('?' * len(scope.folders))})")
        values += scope.folders
    if scope.session_id is not None:
        where.append("session_id = ?")
        values.append(scope.session_id)
    if not scope.agents:
        where.append("agent IS NULL")
    rows = connection.execute(
        "SELECT path, at, entry.size FROM words JOIN entry ON entry.id = words.rowid"
        f" JOIN file ON file.id = entry.file WHERE {' AND '.join(where)} ORDER BY words.rowid DESC",
        values,
    )
    found: list[Line] = []
    for path, at, size in rows:
        line = None if path in stale else _read(query, path, at, size)
        if line is not None:
            found.append(line)
            if len(found) >= limit:
                break
    return found


def _read(query: Query, path: str, at: int, size: int) -> Line | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return line_of(query, path, at, os.pread(fd, size, at))
    finally:
        os.close(fd)


def _first(lines: Iterator[Line], limit: int) -> list[Line]:
    return [line for line, _ in zip(lines, range(limit), strict=False)]


Named = dict[str, tuple[str, str]]


def _named(connection: sqlite3.Connection, paths: set[str], by_path: dict[str, Found]) -> Named:
    """Title and working folder of the sessions that these files belong to, as far as known."""
    homes = {_home_of(by_path[path]) for path in paths}
    marks = ", ".join("?" * len(homes))
    rows = connection.execute(
        f"SELECT path, coalesce(title, ''), coalesce(cwd, '') FROM file WHERE path IN ({marks})",
        list(homes),
    )
    return {path: (title, cwd) for path, title, cwd in rows}


def _hits(
    lines: Iterable[Line], by_path: dict[str, Found], named: Named | None = None
) -> list[Hit]:
    known = {} if named is None else dict(named)
    hits = []
    for line in lines:
        found = by_path[line.path]
        home = _home_of(found)
        if home not in known:
            outline = light.outline(Path(home))
            known[home] = (outline.title, outline.cwd or "") if outline else ("", "")
        title, cwd = known[home]
        hits.append(
            Hit(
                session_id=found.session_id,
                agent=found.agent,
                path=line.path,
                title=title,
                cwd=cwd,
                uuid=line.uuid,
                kind=line.kind,
                speaker=line.speaker,
                timestamp=line.timestamp,
                at=line.at,
                snippet=line.snippet,
            )
        )
    return hits


def _home_of(found: Found) -> str:
    """The session's own transcript, whichever of its files was found."""
    return f"{found.folder}/{found.session_id}.jsonl"


def folders_of(home: Path, cwds: Iterable[str]) -> tuple[str, ...]:
    """The folders of sessions of these working folders."""
    return tuple(str(project_dir(home, canonical(cwd))) for cwd in cwds)


def told(found: Result) -> Iterator[str]:
    """The answers for people, below the session they stand in."""
    last = None
    for hit in found.hits:
        if hit.path != last:
            last = hit.path
            agent = f", subagent {hit.agent}" if hit.agent else ""
            yield f"{hit.session_id}  {hit.title}{agent}  ({hit.cwd})"
        yield f"  {written_here(hit.timestamp or '')} {hit.uuid or '-'} {hit.speaker}: {hit.snippet}"
    if not found.hits:
        yield "nothing found"
