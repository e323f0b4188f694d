"""Full-text search over all sessions, from the index or else from the files.

The result is complete whatever the state of the index. A quick update is made first, and files that
the index does not cover are searched directly.

Decision: docs/decisions/125-search-index.md
"""

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from io import FileIO
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from clew.core.messages.encoding import decode_object
from clew.record.library.indexing import (
    PendingFile,
    find_pending,
    find_unread_tails,
    open_index,
    take_in,
)
from clew.record.library.places import TranscriptFile, list_transcripts
from clew.record.library.words import (
    Entry,
    Query,
    fts_of,
    make_snippet,
    match_words,
    speaker_of,
    text_of,
)
from clew.record.transcript import light
from clew.record.transcript.paths import get_project_dir, resolve_folder
from clew.system.clock import format_local_timestamp
from clew.system.process.programs import find_own_program

# Search in transcripts without an index: first for the words' bytes, then in decoded entries.


# Command lines have a maximum length; this many files fit into one.
_BATCH = 2000
# Additional words would exclude few additional files.
_NEEDLES_ASKED = 3
# Below this size, starting a program costs more than it saves.
_WORTH_A_PROGRAM_BYTES = 32 << 20


class ScanMatch(Struct, frozen=True, kw_only=True):
    """An entry that matches a query, and its position."""

    path: str
    at: int
    size: int
    uuid: str | None
    kind: str
    speaker: str
    timestamp: str | None
    snippet: str


def line_of(query: Query, path: str, at: int, raw: bytes) -> ScanMatch | None:
    """Return the entry in `raw` if it matches the query, otherwise None."""
    entry = decode_object(raw)
    text = text_of(entry)
    if not text or not match_words(query, text):
        return None
    return ScanMatch(
        path=path,
        at=at,
        size=len(raw),
        uuid=_text(entry, "uuid"),
        kind=str(entry.get("type")),
        speaker=speaker_of(entry),
        timestamp=_text(entry, "timestamp"),
        snippet=make_snippet(query, text),
    )


def scan(query: Query, files: Sequence[tuple[str, int]]) -> Iterator[ScanMatch]:
    """Yield the matches in these files, in the given order.

    Each file is searched from its own offset.
    """
    needles = needles_of(query)
    candidates = _candidates(needles, files)
    for path, start in files:
        if candidates is None or path in candidates:
            yield from _in_file(query, needles, path, start)


def needles_of(query: Query) -> list[bytes]:
    """Return lower-case words that every matching line contains; probably rare words come first.

    JSON may escape non-ASCII letters, so words with such letters are omitted.
    """
    words = {word for phrase in query.phrases for word in phrase if word.isascii()}
    rare_first = sorted(words, key=lambda word: (word.isalpha(), -len(word), word))
    return [word.encode() for word in rare_first]


def _candidates(needles: list[bytes], files: Sequence[tuple[str, int]]) -> set[str] | None:
    """Return the files that contain the first few needles, or None if all must be read.

    A returned file may still lack one of the other needles.
    """
    left: set[str] | None = None
    for needle in needles[:_NEEDLES_ASKED]:
        paths = _holding(needle, [file for file in files if left is None or file[0] in left])
        if paths is None:
            break
        left = paths
    return left


def _in_file(query: Query, needles: list[bytes], path: str, start: int) -> Iterator[ScanMatch]:
    try:
        with FileIO(path) as file:
            file.seek(start)
            data = file.read()
    except OSError:
        return
    for begin, end in _lines_with(data, needles):
        line = line_of(query, path, start + begin, data[begin:end])
        if line is not None:
            yield line


def _lines_with(data: bytes, needles: list[bytes]) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each line that contains every needle.

    If `needles` is empty, every line is yielded.
    """
    plain = data.lower() if needles else data
    done = 0
    while done < len(data):
        position = plain.find(needles[0], done) if needles else done
        if position < 0:
            return
        begin = data.rfind(b"\n", 0, position) + 1 if needles else done
        end = data.find(b"\n", position)
        end = len(data) if end < 0 else end
        if all(plain.find(needle, begin, end) >= 0 for needle in needles[1:]):
            yield begin, end
        done = end + 1


def _holding(needle: bytes, files: Sequence[tuple[str, int]]) -> set[str] | None:
    """Return the files that contain the needle, or None if they must be read to find out."""
    program = ripgrep()
    if program is None or not _is_worth_a_program(files):
        return None
    names = [path for path, _ in files]
    paths: set[str] = set()
    for n in range(0, len(names), _BATCH):
        done = subprocess.run(
            [
                program,
                "--no-config",
                "-l",
                "-i",
                "-F",
                "-a",
                "-0",
                "--",
                needle,
                *names[n : n + _BATCH],
            ],
            capture_output=True,
            check=False,
        )
        if done.returncode > 1:
            return None  # A file was deleted in the meantime, or the program failed.
        paths.update(os.fsdecode(name) for name in done.stdout.split(b"\0"))
    return paths


def ripgrep() -> str | None:
    return find_own_program("rg") or shutil.which("rg", path=str(Path(sys.executable).parent))


def _is_worth_a_program(files: Sequence[tuple[str, int]]) -> bool:
    left = _WORTH_A_PROGRAM_BYTES
    for path, start in files:
        with contextlib.suppress(OSError):
            left -= Path(path).stat().st_size - start
            if left <= 0:
                return True
    return False


def _text(entry: Entry, key: str) -> str | None:
    value = entry.get(key)
    return value if type(value) is str else None


# Up to this amount of data is indexed before a search; a larger amount is searched in the files.
AT_ONCE_BYTES = 8 << 20


class Scope(Struct, frozen=True, kw_only=True):
    """The files to search: those of some folders, those of one session, or all."""

    folders: tuple[str, ...] | None = None
    session_id: str | None = None
    agents: bool = True

    def holds(self, file: TranscriptFile) -> bool:
        return (
            (self.folders is None or file.folder in self.folders)
            and (self.session_id is None or file.session_id == self.session_id)
            and (self.agents or not file.agent)
        )


class SearchHit(Struct, frozen=True, kw_only=True):
    """A matching entry, its session, and the text around the match.

    Fields:
        session_id: The session's ID.
        agent: The subagent's ID; empty for the session itself.
        path: The transcript.
        title: The session's title.
        cwd: The session's working folder.
        uuid: The entry's ID, if it has one.
        kind: The entry's type.
        speaker: A label for the entry's speaker.
        timestamp: The entry's time in ISO form, if it has one.
        at: The offset of the entry in its file.
        snippet: The text around the match.
    """

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


class SearchHits(Struct, frozen=True, kw_only=True):
    """The result of a search.

    `behind_bytes` is the amount of data that the index did not cover; it was searched in the files.
    `unread` lists the files that could not be read. `without_index` is the reason if the index was
    not used.
    """

    hits: list[SearchHit]
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
) -> SearchHits:
    """Return up to `limit` matches, newest first.

    Without `reads_files`, data that is not indexed yet is skipped. This is useful while the user is
    typing.
    """
    files = list(list_transcripts(home))
    by_path = {file.path: file for file in files}
    reason = "" if use_index else "disabled by --no-index"
    if use_index:
        try:
            result = _by_index(home, query, scope, files, by_path, limit, reads_files=reads_files)
            return replace(result, unread=_unread(files, scope)) if reads_files else result
        except (OSError, sqlite3.Error, UnicodeEncodeError) as error:
            reason = str(error)  # The index can't store a path that is not valid Unicode.
    if not reads_files:
        return SearchHits(
            hits=[], behind_bytes=sum(file.size for file in files), without_index=reason
        )
    mine = sorted(filter(scope.holds, files), key=lambda file: -file.mtime_ns)
    lines = _first(scan(query, [(file.path, 0) for file in mine]), limit)
    behind = sum(file.size for file in mine)
    return SearchHits(
        hits=_hits(lines, by_path),
        behind_bytes=behind,
        without_index=reason,
        unread=_unread(files, scope),
    )


def _unread(files: list[TranscriptFile], scope: Scope) -> tuple[str, ...]:
    mine = (file.path for file in files if scope.holds(file))
    return tuple(path for path in mine if not os.access(path, os.R_OK))


def _by_index(
    home: Path,
    query: Query,
    scope: Scope,
    files: list[TranscriptFile],
    by_path: dict[str, TranscriptFile],
    limit: int,
    *,
    reads_files: bool,
) -> SearchHits:
    with open_index(home) as database:
        connection = database.connection
        waiting = find_pending(connection, files)
        if sum(item.size_bytes for item in waiting) <= AT_ONCE_BYTES:
            take_in(database, waiting)
            waiting = []
        behind = _behind(waiting, find_unread_tails(connection), by_path, scope)
        lines = _first(scan(query, behind), limit) if reads_files else []
        matches = _indexed(connection, query, scope, limit, {item.found.path for item in waiting})
        names = _named(connection, {line.path for line in [*lines, *matches]}, by_path)
    order = {line.path: by_path[line.path].mtime_ns for line in [*lines, *matches]}
    merged = sorted(
        {(line.path, line.at): line for line in [*matches, *lines]}.values(),
        key=lambda line: (-order[line.path], line.path, -line.at),
    )
    sizes = sum(by_path[path].size - start for path, start in behind)
    return SearchHits(
        hits=_hits(merged[:limit], by_path, names), behind_bytes=sizes, without_index=""
    )


def _behind(
    waiting: list[PendingFile],
    tails: list[tuple[str, int]],
    by_path: dict[str, TranscriptFile],
    scope: Scope,
) -> list[tuple[str, int]]:
    """Return the files that the index does not cover, newest first.

    Each comes with the offset to search from.
    """
    starts = dict(tails) | {item.found.path: 0 for item in waiting}
    mine = [by_path[path] for path in starts if path in by_path and scope.holds(by_path[path])]
    return [
        (file.path, starts[file.path]) for file in sorted(mine, key=lambda file: -file.mtime_ns)
    ]


def _indexed(
    connection: sqlite3.Connection, query: Query, scope: Scope, limit: int, stale: set[str]
) -> list[ScanMatch]:
    """Return the index's matches, most recently added first; each is read from its file."""
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
    matches: list[ScanMatch] = []
    for path, at, size in rows:
        line = None if path in stale else _read(query, path, at, size)
        if line is not None:
            matches.append(line)
            if len(matches) >= limit:
                break
    return matches


def _read(query: Query, path: str, at: int, size: int) -> ScanMatch | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return line_of(query, path, at, os.pread(fd, size, at))
    finally:
        os.close(fd)


def _first(lines: Iterator[ScanMatch], limit: int) -> list[ScanMatch]:
    return [line for line, _ in zip(lines, range(limit), strict=False)]


Named = dict[str, tuple[str, str]]


def _named(
    connection: sqlite3.Connection, paths: set[str], by_path: dict[str, TranscriptFile]
) -> Named:
    """Return the titles and working folders of these files' sessions, where known."""
    homes = {_home_of(by_path[path]) for path in paths}
    marks = ", ".join("?" * len(homes))
    rows = connection.execute(
        f"SELECT path, coalesce(title, ''), coalesce(cwd, '') FROM file WHERE path IN ({marks})",
        list(homes),
    )
    return {path: (title, cwd) for path, title, cwd in rows}


def _hits(
    lines: Iterable[ScanMatch], by_path: dict[str, TranscriptFile], names: Named | None = None
) -> list[SearchHit]:
    known_names = {} if names is None else dict(names)
    hits = []
    for line in lines:
        file = by_path[line.path]
        home = _home_of(file)
        if home not in known_names:
            outline = light.read_outline(Path(home))
            known_names[home] = (outline.title, outline.cwd or "") if outline else ("", "")
        title, cwd = known_names[home]
        hits.append(
            SearchHit(
                session_id=file.session_id,
                agent=file.agent,
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


def _home_of(file: TranscriptFile) -> str:
    """Return the path of a session's own transcript, given any of its files."""
    return f"{file.folder}/{file.session_id}.jsonl"


def join_results(first: SearchHits, second: SearchHits, limit: int) -> SearchHits:
    """Return the matches of two searches in different homes, newest first."""
    hits = [*first.hits, *second.hits]
    times: dict[str, float] = {}
    for path in {hit.path for hit in hits}:
        with contextlib.suppress(OSError):
            times[path] = Path(path).stat().st_mtime
    return SearchHits(
        hits=sorted(hits, key=lambda hit: -times.get(hit.path, 0))[:limit],
        behind_bytes=first.behind_bytes + second.behind_bytes,
        without_index=first.without_index or second.without_index,
        unread=(*first.unread, *second.unread),
    )


def folders_of(home: Path, cwds: Iterable[str]) -> tuple[str, ...]:
    """Return the session folders of these working folders."""
    return tuple(str(get_project_dir(home, resolve_folder(cwd))) for cwd in cwds)


def format_hits(result: SearchHits) -> Iterator[str]:
    """Yield the matches as text, grouped by session."""
    last = None
    for hit in result.hits:
        if hit.path != last:
            last = hit.path
            agent = f", subagent {hit.agent}" if hit.agent else ""
            yield f"{hit.session_id}  {hit.title}{agent}  ({hit.cwd})"
        yield f"  {format_local_timestamp(hit.timestamp or '')} {hit.uuid or '-'} {hit.speaker}: {hit.snippet}"
    if not result.hits:
        yield "no matches"
