"""The interface of importers: a format recognizes a source by its content and converts it.

One module per format defines `FORMAT`; registry.py lists them. A source is the content of a file. A
format must accept only what it can convert: a source that two formats recognize is refused. Does no
I/O.

Decision: docs/decisions/327-sessions-of-other-agents.md
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

from clew.core.json_object import Json
from clew.record.exchange.formats.conversion import Builder, Converted


class Source(Struct, frozen=True, kw_only=True):
    """The content of a file: its JSON value, its lines with JSON objects, or its tables.

    `document` is None if the file is not one JSON value; `bad_lines` is the number of lines without
    an object. `tables` maps the name of each table in a database to its columns, and `rows` reads a
    table. `folder` is the file's folder. `beside` reads a file in this folder, and `find` lists
    files in a folder next to it.
    """

    name: str
    folder: str = ""
    text: str
    document: Any = None
    lines: Sequence[Json] = ()
    bad_lines: int = 0
    tables: dict[str, frozenset[str]] = {}
    rows: Callable[[str], Iterable[Json]] = lambda _: ()
    beside: Callable[[str], bytes | None] = lambda _: None
    find: Callable[[str], list[str]] = lambda _: []

    @property
    def first(self) -> Json:
        return self.lines[0] if self.lines else {}

    def has_tables(self, **columns: str) -> bool:
        """Return whether the database has all these tables and columns."""
        return all(
            frozenset(names.split()) <= self.tables.get(table, frozenset())
            for table, names in columns.items()
        )


class Begin(Protocol):
    """Begins a session, given its ID in the source; `seed` distinguishes sessions without an ID."""

    def __call__(self, source_id: str, seed: str = "") -> Builder: ...


Recognize: TypeAlias = Callable[[Source], bool]
Convert: TypeAlias = Callable[[Source, Begin], Iterable[Converted]]


class Format(Struct, frozen=True, kw_only=True):
    """A format of another program. `name` identifies it, and `title` is for display.

    `is_text` means that its lines are not JSON.
    """

    name: str
    title: str
    is_text: bool = False
    recognizes: Recognize
    convert: Convert
