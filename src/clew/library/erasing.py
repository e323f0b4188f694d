"""Takes a text out of a session for good, offline: the one place that rewrites a transcript, because a person says so.

Every place in which the text stands, in the session and its subagents, says `[erased]` then; entries stay where
they are, so that the conversation still loads and goes on. Written beside, synced, read back, and only then named.
No backup is made: it would hold what was to go. The text is erased and not the line: without a line its
children lose their parent and a call its result, and the same text stands in queue, title and write-ahead.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from clew.config.there import is_file
from clew.library.database import forget
from clew.messages.encoding import decode, encode
from clew.messages.errors import SessionError
from clew.tasks.kept import forget as forget_record
from clew.tasks.kept import found as records
from clew.transcript.files import Files
from clew.transcript.load import load
from clew.transcript.paths import own_dir

ERASED = "[erased]"
# A shorter text stands in too many places that do not mean it.
SHORTEST = 4
# What entries are known and joined by; nothing that anybody said.
_FIXED = frozenset(
    (
        "type", "subtype", "role", "uuid", "parentUuid", "logicalParentUuid", "sessionId", "id",
        "tool_use_id", "requestId", "sourceToolAssistantUUID", "leafUuid", "messageUuid", "timestamp",
        "agentId", "version", "signature", "media_type", "model", "stop_reason", "toolUseId",
    )
)  # fmt: skip
_FREE = frozenset(("input", "toolUseResult"))


class Erasure(Struct, frozen=True, kw_only=True):
    """A file in which the text stands: in how many lines, and the file as it would be."""

    path: Path
    lines: int
    content: list[bytes]


def erasures(path: Path, text: str) -> Iterator[Erasure]:
    """What would change in a session and its subagents' transcripts."""
    if len(text.strip()) < SHORTEST:
        raise SessionError(f"a text of fewer than {SHORTEST} characters cannot be erased")
    beside = path.with_suffix("")
    for file in [path, *sorted(beside.rglob("*.jsonl"))]:
        content = file.read_bytes().split(b"\n")
        without = [_without(line, text) for line in content]
        changed = sum(a != b for a, b in zip(content, without, strict=True))
        if changed:
            yield Erasure(path=file, lines=changed, content=without)
    for file in sorted(p for p in beside.rglob("*") if is_file(p) and p.suffix != ".jsonl"):
        large = file.read_bytes()
        if text.encode() in large:
            kept = large.replace(text.encode(), ERASED.encode())
            yield Erasure(path=file, lines=large.count(text.encode()), content=[kept])


def erase(home: Path, path: Path, found: list[Erasure]) -> None:
    """Does it. Raises `SessionError` for a session that is open in another process."""
    files = Files()
    fd = files.open(path)
    try:
        if not files.lock(fd):
            raise SessionError(f"session {path.stem} is open in another process; end it first")
        _let_go_of_kept(own_dir(home) / "kept", path.stem)
        for one in found:
            _write_beside(one)
        if found[0].path == path and _live(_beside(path)) != _live(path):
            raise SessionError(f"session {path.stem} would not load as before; nothing was erased")
        for one in found:
            _beside(one.path).rename(one.path)
            files.sync_folder(one.path.parent)
    finally:
        for one in found:
            _beside(one.path).unlink(missing_ok=True)
        files.close(fd)
    # The index of words has the text too.
    forget(home)


def _let_go_of_kept(folder: Path, session_id: str) -> None:
    """The records of kept commands have their words too; one that runs writes its output still."""
    kept = list(records(folder, f"{session_id}-"))
    for one in kept:
        if one.is_running:
            raise SessionError(f"{one.name} runs still; clew tasks stop {one.name} ends it")
    for one in kept:
        forget_record(one)


def _beside(path: Path) -> Path:
    return path.with_name(path.name + ".erasing")


def _live(path: Path) -> list[Any]:
    return [message.get("uuid") for message in load(path).messages]


def _write_beside(one: Erasure) -> None:
    fd = os.open(_beside(one.path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(b"\n".join(one.content))
        file.flush()
        os.fsync(file.fileno())


def _without(line: bytes, text: str) -> bytes:
    try:
        entry = decode(line)
    except ValueError:
        return line.replace(text.encode(), ERASED.encode())
    changed = _scrubbed(entry, text)
    return line if changed == entry else encode(changed)


def _all(value: Any, text: str) -> Any:
    """What a tool was given or gave: every string, the names of members too."""
    if isinstance(value, dict):
        return {key.replace(text, ERASED): _all(each, text) for key, each in value.items()}
    if isinstance(value, list):
        return [_all(each, text) for each in value]
    return value.replace(text, ERASED) if isinstance(value, str) else value


def _scrubbed(value: Any, text: str) -> Any:
    match value:
        case str():
            return value.replace(text, ERASED)
        case list():
            return [_scrubbed(each, text) for each in value]
        case dict():
            changed = {
                key: each if key in _FIXED else (_all if key in _FREE else _scrubbed)(each, text)
                for key, each in value.items()
            }
            if "tool_use" in str(value.get("type")):
                changed["name"] = value.get("name")
            if changed != value and value.get("type") in ("thinking", "redacted_thinking"):
                # Its signature vouches for words that are no longer there.
                return {"type": "text", "text": ERASED}
            return changed
    return value
