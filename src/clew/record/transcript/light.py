"""A session's outline from the first and last 64 KiB of its file, whatever the file's size.

This module is standalone: it imports only the standard library, so that an editor, a picker or a
script can copy this one file. It never parses an entire transcript and never raises for a file's
content. The rules for titles are in docs/internals/transcript.md.
"""

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

READ_SIZE_BYTES = 65536
# The line that reaches beyond the head is read to its end, up to this limit: the first prompt may
# contain pasted images.
LONGEST_LINE_BYTES = 32 * 1024 * 1024
PROMPT_CHARACTERS = 200

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.I)
# Text that programs put into a user entry: a lower-case tag or the marker of an interrupt. Used
# only for files that do not record who wrote the entry, because a user's prompt may also begin with
# a tag.
# Patterns are compiled, and cached by `re`, on first use.
_NOT_TYPED = r"\s*<[a-z][\w-]*[\s>]|\[Request interrupted by user[^\]]*\]"
_PASTE_TAG = r"</?pasted_content(?: id=\"\d*\")?>"
_COMMAND = r"(?s)<command-name>(.*?)</command-name>"
_NEVER_A_PROMPT = (b'"tool_result"', b'"isMeta":true', b'"isCompactSummary":true')


class Ends(NamedTuple):
    """The first and last bytes of a file, cut at line ends where possible."""

    head: bytes
    tail: bytes
    size_bytes: int
    modified_at: float


@dataclass(frozen=True, kw_only=True)
class Outline:
    """The data that a list shows for a session.

    All strings come from the file's content, none from its name.

    Fields:
        session_id: The session's ID.
        path: The transcript.
        title: The title: the user's, the generated one, or the first prompt.
        custom_title: The user's title, if there is one.
        first_prompt: The first prompt, shortened.
        cwd: The working folder.
        git_branch: The branch at the beginning.
        tag: The user's tag, if there is one.
        team: The team to which the newest entries belong, if there is one.
        created_at: The time of the first entry.
        modified_at: The time of the last change, in seconds since 1970.
        size_bytes: The size of the file.
    """

    session_id: str
    path: Path
    title: str
    custom_title: str | None
    first_prompt: str | None
    cwd: str | None
    git_branch: str | None
    tag: str | None
    team: str | None
    created_at: str | None
    modified_at: float
    size_bytes: int


def is_uuid(text: str) -> bool:
    """Return whether `text` is a UUID and nothing else.

    This is checked before the text becomes part of a path.
    """
    return _UUID.fullmatch(text) is not None


def read_ends(path: Path) -> Ends | None:
    """Return the two ends of a file, or None if it is unreadable or empty."""
    try:
        with open(path, "rb", opener=at_once) as file:
            stat = os.fstat(file.fileno())
            head = _head(file)
            tail = head if len(head) >= stat.st_size else _tail(file, stat.st_size)
    except OSError:
        return None
    if not head:
        return None
    return Ends(head=head, tail=tail, size_bytes=stat.st_size, modified_at=stat.st_mtime)


def at_once(path: str, flags: int) -> int:
    """Open without blocking; a path with a session's name may be a pipe that has no writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def read_outline(path: Path) -> Outline | None:
    """Return a session's outline, or None if the file has none.

    A sidechain file has no outline, nor does a file with neither a prompt nor a title.
    """
    ends = read_ends(path)
    if ends is None:
        return None
    first_line = ends.head.split(b"\n", 1)[0]
    if read_flag(first_line, "isSidechain"):
        return None
    custom = find_last_field(ends, "custom-title", "customTitle")
    prompt = find_first_prompt(ends.head)
    # Other readers prefer the last prompt to the first. A session is recognized by what it is
    # about, and the last prompt is often "yes" or "continue".
    title = (
        custom
        or find_last_field(ends, "ai-title", "aiTitle")
        or prompt
        or in_short(find_last_field(ends, "last-prompt", "lastPrompt") or "")
    )
    if not title:
        return None
    return Outline(
        session_id=path.stem,
        path=path,
        title=title,
        custom_title=custom,
        first_prompt=prompt,
        cwd=find_string_field(ends.head, "cwd"),
        git_branch=find_string_field(ends.tail, "gitBranch", last=True),
        tag=find_last_field(ends, "tag", "tag"),
        team=find_string_field(ends.tail, "teamName", last=True),
        created_at=find_string_field(ends.head, "timestamp"),
        modified_at=ends.modified_at,
        size_bytes=ends.size_bytes,
    )


def list_session_files(project_dir: Path) -> list[Path]:
    """Return the session files of a folder, newest first.

    Files whose names are not session IDs are not sessions.
    """
    files: list[tuple[float, Path]] = []
    try:
        with os.scandir(project_dir) as entries:
            for entry in entries:
                name = entry.name
                if name.endswith(".jsonl") and is_uuid(name[:-6]) and entry.is_file():
                    with suppress(FileNotFoundError):  # The file was deleted in the meantime.
                        files.append((entry.stat().st_mtime, Path(entry.path)))
    except OSError:
        pass  # The entries read before the error are still listed.
    return [path for _, path in sorted(files, reverse=True)]


def read_outlines(project_dir: Path) -> Iterator[Outline]:
    """Yield the outlines of a folder's sessions, newest first, read on demand."""
    for path in list_session_files(project_dir):
        summary = read_outline(path)
        if summary is not None:
            yield summary


def read_flag(line: bytes, key: str) -> bool:
    return re.search(rb'"%s"\s*:\s*true' % key.encode(), line) is not None


def find_string_field(text: bytes, key: str, *, last: bool = False) -> str | None:
    """Return the first (or last) string value of `key` without parsing the lines, which may be cut.

    The match may be a key inside a nested value. Return None if there is no match. Use
    `find_last_field` where complete lines are available.
    """
    opening = re.compile(rb'"%s"\s*:\s*"((?:[^"\\]|\\.)*)"' % re.escape(key.encode()), re.S)
    values = [opening.search(text)] if not last else list(opening.finditer(text))[-1:]
    return next((unescape(value[1]) for value in values if value), None)


def unescape(raw: bytes) -> str:
    """Return a JSON string's inner bytes as text; text without escapes is not parsed."""
    text = raw.decode("utf-8", "replace")
    if "\\" not in text:
        return text
    try:
        value: str = json.loads(f'"{text}"', strict=False)
    except ValueError:
        return text
    return _whole(value)


def _whole(text: str) -> str:
    """Return text that can be encoded: lone surrogates, which JSON allows, are replaced."""
    return text.encode("utf-8", "replace").decode("utf-8")


def find_last_field(ends: Ends, kind: str, key: str) -> str | None:
    """Return the newest `key` of the metadata lines of `kind`, from the tail or else the head.

    Return None if there is none or the newest is empty, which removes the title or tag.
    """
    needle = f'"{kind}"'.encode()
    parts = (ends.tail,) if ends.tail is ends.head else (ends.tail, ends.head)
    for part in parts:
        if needle not in part:
            continue
        for line in _lines_backwards(part):
            if needle in line:
                entry = _entry(line)
                value = entry.get(key)
                if entry.get("type") == kind and isinstance(value, str):
                    return _whole(value) or None
    return None


def find_first_prompt(head: bytes) -> str | None:
    """Return the first thing the user wrote, on one line and cut to 200 characters, or None."""
    command = None
    for line in head.split(b"\n"):
        if b'"user"' not in line or any(mark in line for mark in _NEVER_A_PROMPT):
            continue
        entry = _entry(line)
        if entry.get("type") != "user" or entry.get("isMeta") or entry.get("isCompactSummary"):
            continue
        for text in _texts(entry):
            match = re.search(_COMMAND, text)
            if match:
                command = command or match[1].strip()
            elif text.strip() and (_typed(entry) or not re.match(_NOT_TYPED, text)):
                return in_short(re.sub(_PASTE_TAG, " ", text))
    return command or None


def _typed(entry: dict[str, Any]) -> bool:
    origin = entry.get("origin")
    kind = origin.get("kind") if isinstance(origin, dict) else None
    return kind == "human" or entry.get("promptSource") in ("typed", "sdk")


def _texts(entry: dict[str, Any]) -> Iterator[str]:
    message = entry.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for block in content:
            if isinstance(block, dict) and block.get("type") == "text":
                text = block.get("text")
                if isinstance(text, str):
                    yield text


def in_short(text: str) -> str:
    """Return text as lists show it: on one line and cut to 200 characters."""
    line = " ".join(_whole(text).split())
    return line if len(line) <= PROMPT_CHARACTERS else line[:PROMPT_CHARACTERS].rstrip() + "…"


def _entry(line: bytes) -> dict[str, Any]:
    """Return a line's object, or an empty one if the line is cut or not an object."""
    try:
        value = json.loads(line.decode("utf-8", "replace").lstrip("\ufeff"))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _lines_backwards(part: bytes) -> Iterator[bytes]:
    end = len(part)
    while end >= 0:
        start = part.rfind(b"\n", 0, end) + 1
        yield part[start:end]
        end = start - 1


def _head(file: BinaryIO) -> bytes:
    """Return the first 64 KiB, and the rest of the line that is cut off there."""
    head = file.read(READ_SIZE_BYTES)
    if len(head) < READ_SIZE_BYTES or head.endswith(b"\n"):
        return head
    return head + file.readline(LONGEST_LINE_BYTES)


def _tail(file: BinaryIO, size: int) -> bytes:
    """Return the last 64 KiB of a file.

    If one line fills them, return that line's start and the 64 KiB before it.
    """
    start = max(0, size - READ_SIZE_BYTES)
    tail = _read_at(file, start, size - start)
    lowest = max(0, size - LONGEST_LINE_BYTES)
    while b"\n" not in tail[:-1] and start > lowest:
        before = max(lowest, start - READ_SIZE_BYTES)
        tail = _read_at(file, before, start - before) + tail[:READ_SIZE_BYTES]
        start = before
    return tail


def _read_at(file: BinaryIO, offset: int, length: int) -> bytes:
    file.seek(offset)
    return file.read(length)
