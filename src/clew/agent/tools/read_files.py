"""The files that the session has read: a record of each file, and a cache of contents.

Edits are allowed because of a record, so records are never dropped. The cached contents only save
time and are limited by a byte budget. Both are keyed by real path.

Decision: docs/decisions/072-file-edits.md
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

CONTENT_BUDGET_BYTES = 32 << 20


# The real path of a file, the first line requested, and the number of lines requested.
Asked: TypeAlias = tuple[str, int, int]


class ReadRecord(Struct, frozen=True, kw_only=True):
    """A file as the model last saw it. `sha256` is None if the file was too large to read at once.

    `ranges` contains the first and last line of each part that was seen, counted from 1.
    `message_uuid` identifies the message whose tool call showed them.
    """

    path: str
    size: int
    mtime_ns: int
    sha256: bytes | None
    ranges: tuple[tuple[int, int], ...]
    message_uuid: str

    def same_file_state(self, size: int, mtime_ns: int, sha256: bytes | None) -> bool:
        """Return whether the file is unchanged: by content hash if known, else by size and time."""
        if self.sha256 is not None and sha256 is not None:
            return self.sha256 == sha256
        return (self.size, self.mtime_ns) == (size, mtime_ns)


class ReadLedger:
    """The read records of a session, by path."""

    __slots__ = ("_records", "_shown")

    def __init__(self, records: tuple[ReadRecord, ...] = ()) -> None:
        self._records = {record.path: record for record in records}
        self._shown: dict[Asked, tuple[bytes, str]] = {}

    def __len__(self) -> int:
        return len(self._records)

    def get(self, path: str) -> ReadRecord | None:
        return self._records.get(path)

    def note_shown(self, span: Asked, sha256: bytes, message_uuid: str) -> None:
        """Record that a tool call in this message showed these lines."""
        self._shown[span] = (sha256, message_uuid)

    def was_shown(self, span: Asked, sha256: bytes, stands: Callable[[str], bool]) -> bool:
        """Return whether the same lines were shown in a message that the model still receives.

        `stands` returns whether the model still receives a message.
        """
        before = self._shown.get(span)
        return before is not None and before[0] == sha256 and stands(before[1])

    def records(self) -> tuple[ReadRecord, ...]:
        return tuple(self._records.values())

    def note(self, record: ReadRecord) -> None:
        """Store the record; earlier ranges are kept if the file is unchanged."""
        before = self._records.get(record.path)
        if before is not None and before.same_file_state(
            record.size, record.mtime_ns, record.sha256
        ):
            record = replace_ranges(record, merge_ranges(before.ranges + record.ranges))
        self._records[record.path] = record


def replace_ranges(record: ReadRecord, ranges: tuple[tuple[int, int], ...]) -> ReadRecord:
    return ReadRecord(
        path=record.path,
        size=record.size,
        mtime_ns=record.mtime_ns,
        sha256=record.sha256,
        ranges=ranges,
        message_uuid=record.message_uuid,
    )


def merge_ranges(ranges: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """Merge ranges that overlap or touch; return them sorted."""
    result: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if result and first <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(result[-1][1], last))
        else:
            result.append((first, last))
    return tuple(result)


class Content(Struct, frozen=True, kw_only=True):
    """A file's bytes at one point in time."""

    data: bytes
    mtime_ns: int
    sha256: bytes


class ContentCache:
    """The bytes of the most recently used files, within a byte budget."""

    __slots__ = ("_budget_bytes", "_contents", "held_bytes")

    def __init__(self, budget_bytes: int = CONTENT_BUDGET_BYTES) -> None:
        self._budget_bytes = budget_bytes
        self._contents: OrderedDict[str, Content] = OrderedDict()
        self.held_bytes = 0

    def get(self, path: str) -> Content | None:
        content = self._contents.get(path)
        if content is not None:
            self._contents.move_to_end(path)
        return content

    def put(self, path: str, content: Content) -> None:
        self.drop(path)
        if len(content.data) > self._budget_bytes:
            return
        self._contents[path] = content
        self.held_bytes += len(content.data)
        while self.held_bytes > self._budget_bytes:
            _, oldest = self._contents.popitem(last=False)
            self.held_bytes -= len(oldest.data)

    def drop(self, path: str) -> None:
        content = self._contents.pop(path, None)
        if content is not None:
            self.held_bytes -= len(content.data)
