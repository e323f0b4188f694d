"""Read a file from another program as the source of an import.

The file is never written; a database is opened read-only. If another process has locked it, or its
folder is read-only, the file is read as it is, without its write-ahead log.
"""

import importlib
import json
import sqlite3
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from clew.core.json_object import Json
from clew.core.messages.encoding import decode
from clew.core.messages.errors import SessionError
from clew.record.exchange.formats.frame import Source
from clew.system.process.programs import find_own_program

_SQLITE = b"SQLite format 3\0"
_ZSTD = b"\x28\xb5\x2f\xfd"
# Modules that decompress, the first of Python 3.14 itself. Without one, the program `zstd` does.
_MODULES = ("compression.zstd", "backports.zstd")
_LONGEST_S = 300
COMPRESSED = "the file is compressed; install zstd, or decompress it first (zstd -d)"
DAMAGED = "the file is compressed, and damaged or incomplete"
# Larger neighbors of a source are not read.
_BESIDE_BYTES = 64 * 1024 * 1024


def read_source(path: Path) -> Source:
    with path.open("rb") as file:
        is_database = file.read(len(_SQLITE)) == _SQLITE
    if is_database:
        return _database(path)
    data = path.read_bytes()
    return make_source(path, decompress(data) if data.startswith(_ZSTD) else data)


def decompress(data: bytes, modules: Sequence[str] = _MODULES) -> bytes:
    """Decompress a file that Codex has not used for some days. Raise `SessionError` otherwise."""
    for name in modules:
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        try:
            return bytes(module.decompress(data))
        except module.ZstdError:
            raise SessionError(DAMAGED) from None
    program = find_own_program("zstd")
    if program is None:
        raise SessionError(COMPRESSED)
    try:
        done = subprocess.run(
            [program, "-dcq"], input=data, capture_output=True, timeout=_LONGEST_S, check=True
        )
    except subprocess.SubprocessError:
        raise SessionError(DAMAGED) from None
    return done.stdout


def make_source(path: Path, data: bytes) -> Source:
    """Return the source of a file with this content."""
    document = read_json(data)
    # Lines of an indented value may be valid objects.
    lines, bad = ([document], 0) if type(document) is dict else ([], 0)
    if document is None:
        lines, bad = read_lines(data)
    return Source(
        name=path.name,
        folder=str(path.absolute().parent),
        text=data.decode("utf-8", "replace"),
        document=document,
        lines=lines,
        bad_lines=bad,
        beside=partial(_beside, path.parent),
        find=partial(_find, path.parent),
    )


def read_json(data: bytes) -> Any:
    try:
        return decode(data.removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, RecursionError):
        return None


def read_lines(data: bytes) -> tuple[list[Json], int]:
    """Return the lines with JSON objects, and the number of other lines."""
    entries: list[Json] = []
    bad = 0
    for raw in data.split(b"\n"):
        if raw.strip():
            value = read_json(raw)
            if type(value) is dict:
                entries.append(value)
            elif joined := _split(raw):
                entries += joined
            else:
                bad += 1
    return entries, bad


def _split(raw: bytes) -> list[Json]:
    """Return the objects of a line that two writers appended at the same time."""
    text, at, objects = raw.decode("utf-8", "replace").strip(), 0, list[Json]()
    while at < len(text):
        try:
            value, at = json.JSONDecoder().raw_decode(text, at)
        except (ValueError, RecursionError):
            return []
        if type(value) is not dict:
            return []
        objects.append(value)
    return objects


def _beside(folder: Path, name: str) -> bytes | None:
    path = folder / name
    try:
        return path.read_bytes() if path.stat().st_size <= _BESIDE_BYTES else None
    except OSError:
        return None


def _find(folder: Path, pattern: str) -> list[str]:
    try:
        return sorted(str(path.relative_to(folder)) for path in folder.glob(pattern))
    except (OSError, ValueError):
        return []


def _database(path: Path) -> Source:
    try:
        tables = _read_tables(path, "mode=ro")
        mode = "mode=ro"
    except (sqlite3.Error, UnicodeDecodeError):
        mode = "mode=ro&immutable=1"
        try:
            tables = _read_tables(path, mode)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise SessionError(f"{path}: can't read the database: {error}") from None
    return Source(
        name=path.name,
        folder=str(path.absolute().parent),
        text="",
        tables=tables,
        rows=partial(_rows, path, mode),
        beside=partial(_beside, path.parent),
        find=partial(_find, path.parent),
    )


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True, timeout=2)
    connection.row_factory = sqlite3.Row
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    return connection


def _read_tables(path: Path, mode: str) -> dict[str, frozenset[str]]:
    with closing(_connect(path, mode)) as connection:
        names = [
            row["name"]
            for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        return {name: frozenset(_columns(connection, name)) for name in names}


def _columns(connection: sqlite3.Connection, table: str) -> Iterator[str]:
    for row in connection.execute("SELECT name FROM pragma_table_info(?)", (table,)):
        yield row["name"]


def _rows(path: Path, mode: str, table: str) -> Iterator[Json]:
    """Yield a table's rows in insertion order."""
    quoted = table.replace('"', '""')
    try:
        with closing(_connect(path, mode)) as connection:
            try:
                cursor = connection.execute(f'SELECT * FROM "{quoted}" ORDER BY rowid')
            except sqlite3.OperationalError:  # a table without row IDs
                cursor = connection.execute(f'SELECT * FROM "{quoted}"')
            for row in cursor:
                yield dict(row)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise SessionError(f"{path}: can't read table {table}: {error}") from None
