"""Records of exports, used to restore a session when it returns from another program.

A record is a file under `<config home>/clew/origins/`. Its first line contains the session's ID and
a digest of each exported message; the lines of the transcript follow. If an imported session begins
with the same messages, the transcript's lines replace them. A record is used only for its own
session, and never changed.

Decision: docs/decisions/327-sessions-of-other-agents.md
"""

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from clew.core.json_object import Json, list_of, object_of, text_of
from clew.core.messages.encoding import decode, encode
from clew.record.exchange.formats.conversion import Converted
from clew.record.transcript.belongings import write_file
from clew.record.transcript.paths import get_own_dir
from clew.system.files import is_there


class ExportRecord(Struct, frozen=True, kw_only=True):
    """The record of an export that matches the first `count` messages of an imported session."""

    path: Path
    count: int
    lines: tuple[bytes, ...]


def _place(home: Path, kind: str, source_id: str) -> Path:
    name = sha256(source_id.encode("utf-8", "replace")).hexdigest()[:32]
    return get_own_dir(home) / "origins" / f"{kind}-{name}.jsonl"


def digest_messages(messages: Iterable[Json]) -> list[str]:
    """Return a digest of each message's content, without its ID and time.

    The text of context messages is ignored, because a program may write it again with another date.
    """
    return [
        sha256(encode([message.get("type"), _content_of(message)])).hexdigest()[:16]
        for message in messages
    ]


def _content_of(message: Json) -> object:
    if message.get("isMeta") is True:
        return None
    return object_of(message.get("message")).get("content")


def keep_origin(home: Path, path: Path, converted: Converted) -> None:
    """Record the session at `path`; `converted` is its export, as an import would read it."""
    place = _place(home, converted.kind, converted.source_id)
    if is_there(place):
        return
    head = {
        "type": "origin",
        "format": converted.kind,
        "sourceId": converted.source_id,
        "path": str(path.absolute()),
        "messages": digest_messages(converted.messages),
    }
    beside = place.with_suffix(".new")
    beside.unlink(missing_ok=True)
    write_file(beside, [encode(head) + b"\n", path.read_bytes()])
    beside.replace(place)


def find_origin(home: Path, converted: Converted) -> ExportRecord | None:
    """Return the record of the export with which this session begins, or None."""
    if not converted.source_id:
        return None
    try:
        first, *lines = _place(home, converted.kind, converted.source_id).read_bytes().split(b"\n")
        head = object_of(decode(first))
    except (OSError, ValueError):
        return None
    recorded = list_of(head.get("messages"))
    digests = digest_messages(converted.messages[: len(recorded)])
    if not recorded or digests != recorded:
        return None
    return ExportRecord(
        path=Path(text_of(head.get("path"))), count=len(recorded), lines=tuple(lines)
    )
