"""The steps that a session's log tells of, and where in it each message stands. Reads one file.

Decision: docs/decisions/126-file-history.md
"""

import os
from pathlib import Path
from typing import Any

from msgspec import Struct

from clew.messages.encoding import decode
from clew.messages.errors import SessionError
from clew.rewind.changes import Step, step_of
from clew.transcript.source import Source

_CHANGE = b'"type":"file-change"'
_RESULT = b'"tool_use_id"'


class Story(Struct, frozen=True, kw_only=True):
    """`places` are where entries stand in the file, by uuid."""

    steps: list[Step]
    places: dict[str, int]
    kinds: dict[str, str]
    unread: int


def tells_of_changes(path: Path) -> bool:
    """Whether there are steps at all; raises `OSError` only if the file cannot be read."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        source = Source(fd)
        return source.last_line_with(_CHANGE, source.size) is not None
    finally:
        os.close(fd)


def read(path: Path) -> Story:
    """Raises `OSError` only if the file cannot be read."""
    changes: list[tuple[int, dict[str, Any]]] = []
    results: dict[tuple[str, str], int] = {}
    places: dict[str, int] = {}
    kinds: dict[str, str] = {}
    unread = 0
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for _, at, raw in Source(fd).lines(0):
            try:
                entry = decode(raw)
            except ValueError:
                unread += _CHANGE in raw
                continue
            if type(entry) is not dict:
                continue
            if entry.get("type") == "file-change":
                changes.append((at, entry))
            elif type(uuid := entry.get("uuid")) is str:
                places.setdefault(uuid, at)
                kinds[uuid] = _kind(entry)
                for call in _answered(entry) if _RESULT in raw else ():
                    results.setdefault((str(entry.get("sourceToolAssistantUUID")), call), at)
    finally:
        os.close(fd)
    steps = [step_of(line, at, results) for at, line in changes]
    known = [step for step in steps if step is not None]
    return Story(
        steps=sorted(known, key=lambda step: (step.since, step.at)),
        places=places,
        kinds=kinds,
        unread=unread + len(steps) - len(known),
    )


def named(path: Path, text: str) -> str:
    """The message that a person means: its uuid, or its beginning if only one begins so."""
    places = read(path).places
    if text in places:
        return text
    found = [uuid for uuid in places if uuid.startswith(text)] if text else []
    if len(found) == 1:
        return found[0]
    if not found:
        raise SessionError(f"no message {text!r}; `clew sessions tree {path.stem}` shows them")
    raise SessionError(f"{len(found)} messages begin with {text!r}")


def _answered(entry: dict[str, Any]) -> list[str]:
    message = entry.get("message")
    content = message.get("content") if type(message) is dict else None
    blocks = content if type(content) is list else []
    ids = [b.get("tool_use_id") for b in blocks if type(b) is dict]
    return [call for call in ids if type(call) is str]


def _kind(entry: dict[str, Any]) -> str:
    """`prompt` for what a person said; else the entry's type."""
    if entry.get("type") != "user" or entry.get("isMeta") is True or _answered(entry):
        return str(entry.get("type"))
    return "prompt"
