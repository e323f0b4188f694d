"""Convert transcripts on this machine to numbered events for the page.

The number of an event is the offset of the end of its line, so any part of a large file is found at
once. Entries that the user discarded by continuing from an earlier prompt are omitted. The
transcripts are only read, never written.

The format is described in docs/internals/transcript.md.
"""

from collections.abc import Iterator
from mmap import ACCESS_READ, mmap
from pathlib import Path

from msgspec import Struct

from clew.core import wire
from clew.core.json_object import Json, object_of
from clew.core.messages.encoding import decode_object
from clew.fronts.render.displays import add_display

# A page with at least one event ends after this many bytes.
PAGE_BYTES = 400_000
# System entries that the page shows.
SHOWN = frozenset({"informational", "compact_boundary", "turn_duration", "api_error"})


class TranscriptPage(Struct, frozen=True, kw_only=True):
    """A page of events, oldest first. `first` is the position where the preceding page ends."""

    events: list[Json]
    first: str
    last: int
    has_more: bool


def read_page(path: Path, before: str, limit: int) -> TranscriptPage:
    """Return the last events before a position; an empty position means the end.

    A position consists of an offset and, if the entries just before it were discarded, the UUID of
    the last entry before those.
    """
    offset, _, wanted = before.partition(":")
    size = path.stat().st_size
    end = min(int(offset), size) if offset else size
    events: list[Json] = []
    taken_bytes, start = 0, end
    for start, line in read_backwards(path, end):
        entry = decode_object(line)
        if wanted and entry.get("uuid") != wanted and is_chained(entry):
            continue
        if is_chained(entry):
            # The user may have continued from an earlier entry than the previous one in the file.
            wanted = str(entry.get("parentUuid") or "") if is_prompt(entry) else ""
        frame = make_frame(entry)
        if frame is None:
            continue
        events.append(make_event(frame, start + len(line)))
        taken_bytes += len(line)
        if len(events) >= limit or taken_bytes > PAGE_BYTES:
            break
    else:
        start = 0
    place = f"{start}:{wanted}" if wanted else str(start)
    last = end if before else next((at + len(line) for at, line in read_backwards(path, size)), 0)
    return TranscriptPage(events=events[::-1], first=place, last=last, has_more=start > 0)


def read_after(path: Path, after: int, last_uuid: str) -> tuple[list[Json], int, str, bool]:
    """Return the events after an offset, the new end, the last entry's UUID, and whether to reload.

    The page has to be reloaded if the user rewound the session, or if the file became shorter.
    """
    size = path.stat().st_size
    if size <= after:
        return [], after, last_uuid, size < after
    with path.open("rb") as file:
        file.seek(after)
        data = file.read(size - after)
    events, has_gone_back = [], False
    for line in data[: data.rfind(b"\n") + 1].splitlines(keepends=True):
        after += len(line)
        entry = decode_object(line)
        if is_chained(entry):
            parent = entry.get("parentUuid")
            if is_prompt(entry) and last_uuid and parent and parent != last_uuid:
                has_gone_back = True
            last_uuid = str(entry["uuid"])
        frame = make_frame(entry)
        if frame is not None:
            events.append(make_event(frame, after))
    return events, after, last_uuid, has_gone_back


def find_last_uuid(path: Path, end: int) -> str:
    """Return the UUID of the conversation's last entry before a position."""
    for _, line in read_backwards(path, end):
        entry = decode_object(line)
        if is_chained(entry):
            return str(entry["uuid"])
    return ""


def read_backwards(path: Path, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield the complete lines before an offset, the last one first, each with its own offset."""
    if not path.stat().st_size:
        return
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        at = data.rfind(b"\n", 0, end) + 1
        while at > 0:
            start = data.rfind(b"\n", 0, at - 1) + 1
            yield start, data[start:at]
            at = start


def is_chained(entry: Json) -> bool:
    return isinstance(entry.get("uuid"), str) and entry.get("isSidechain") is not True


def is_prompt(entry: Json) -> bool:
    """Return whether an entry is a prompt: the user can rewind to the point before a prompt."""
    content = object_of(entry.get("message")).get("content")
    if entry.get("type") != "user" or entry.get("isMeta") or entry.get("isCompactSummary"):
        return False
    blocks = content if isinstance(content, list) else []
    return not any(object_of(block).get("type") == "tool_result" for block in blocks)


def make_frame(entry: Json) -> Json | None:
    """Return an entry as a frame for viewers, or None if viewers don't show it."""
    if not is_chained(entry) or "message" not in entry:
        if entry.get("type") == "system" and entry.get("subtype") in SHOWN:
            return {name: value for name, value in entry.items() if name != "parentUuid"}
        return None
    session = str(entry.get("sessionId"))
    if entry.get("type") == "assistant":
        return wire.assistant(entry, session_id=session)
    if entry.get("type") == "user":
        return add_display(wire.user(entry, session_id=session))
    return None


def make_event(frame: Json, place: int) -> Json:
    about = {"sequence_num": place, "event_id": str(frame.get("uuid")), "source": "worker"}
    return about | {"status": "processed", "by": "", "at_ms": 0, "payload": frame}
