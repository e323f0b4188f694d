"""Shorten overlong results to their beginning and end, and save the full text to a file.

Every tool uses this module. A file is named after the hash of its content, so the same result is
stored only once, and it is written atomically. This module must never make a call fail: if the file
can't be written, the result says so.
"""

import asyncio
import mmap
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from clew.agent.tools.base import ToolOutcome
from clew.core.json_object import Json
from clew.system.config.mask import LEAST_CHARS
from clew.system.files import make_private

IN_FILE = "the full output is in"
NOT_SAVED = "the full output could not be saved to a file"

# The length of a result that was saved to a file; a slightly longer result is shown in full. About
# 5,000 tokens show what the result is, and ten such results don't fill a context window.
SHOWN_CHARS = 20_000
FILE_MAX_BYTES = 1 << 30
# A larger file keeps its first name: hashing 64 MB takes 50 ms on two busy cores, and 200 MB would
# add half to the time of the command that printed them.
NAMED_BY_CONTENT_MAX_BYTES = 64 << 20
# Hashing and writing this much takes less time than starting a thread.
AT_ONCE_MAX_BYTES = 4 << 20
# Fields with an image or a document, which can't be cut.
WHOLE_FIELDS = frozenset({"data", "base64"})


async def fit_result(result: ToolOutcome, limit_chars: int | None, folder: Path) -> ToolOutcome:
    """Return the result unchanged if it fits.

    Otherwise save it to a file in the folder, and return its beginning and end.
    """
    if limit_chars is None or chars_of(result.content) <= limit_chars:
        return result
    if chars_of(result.content) <= AT_ONCE_MAX_BYTES:
        return shortened(result, limit_chars, folder)
    return await asyncio.to_thread(shortened, result, limit_chars, folder)


def chars_of(content: str | list[Json]) -> int:
    if isinstance(content, str):
        return len(content)
    return sum(len(text_in(block)) for block in content)


def text_in(block: Json) -> str:
    text = block.get("text", "") if block.get("type") == "text" else ""
    return text if isinstance(text, str) else ""


def shortened(result: ToolOutcome, limit_chars: int, folder: Path) -> ToolOutcome:
    content = result.content
    text = content if isinstance(content, str) else "\n\n".join(filter(None, map(text_in, content)))
    data = text.encode("utf-8", "backslashreplace")
    path = keep(folder, data[:FILE_MAX_BYTES])
    note = describe_location(len(data), path, min(len(data), FILE_MAX_BYTES))
    half = min(limit_chars, SHOWN_CHARS) // 2
    excerpt = ends(text[:half], note, text[-half:])
    if not isinstance(content, str):
        others = [block for block in content if not text_in(block)]
        return replace(
            result,
            content=[{"type": "text", "text": excerpt}, *others],
            tool_use_result=pointing(result.tool_use_result, limit_chars, path, len(data)),
        )
    return replace(
        result,
        content=excerpt,
        tool_use_result=pointing(result.tool_use_result, limit_chars, path, len(data)),
    )


def pointing(raw: Any, limit_chars: int, path: Path | None, size: int) -> Any:
    """Shorten long strings in the data for programs; add the path of the full text."""
    cut = bounded(raw, limit_chars)
    if isinstance(cut, dict) and path is not None:
        cut |= {"persistedOutputPath": str(path), "persistedOutputSize": size}
    return cut


def bounded(value: Any, limit_chars: int) -> Any:
    """Return a decoded JSON value with every string cut to the limit, except in `WHOLE_FIELDS`."""
    match value:
        case str():
            return value[:limit_chars]
        case list():
            return [bounded(item, limit_chars) for item in value]
        case dict():
            return {
                key: item if key in WHOLE_FIELDS else bounded(item, limit_chars)
                for key, item in value.items()
            }
        case _:
            return value


def ends(head: str, note: str, tail: str) -> str:
    return f"{head}\n\n[... {note} ...]\n\n{tail}".rstrip("\n")


def describe_location(size: int, path: Path | None, kept_bytes: int) -> str:
    cut = f"middle omitted, {size:,} bytes in total"
    if path is None:
        return f"{cut}; {NOT_SAVED}"
    if kept_bytes < size:
        return f"{cut}; the first {kept_bytes:,} bytes are in {path}"
    return f"{cut}; {IN_FILE} {path}"


def keep(folder: Path, data: bytes, suffix: str = ".txt") -> Path | None:
    """Save bytes to a file named after their hash; return None if that fails."""
    path = folder / f"{sha256(data).hexdigest()[:32]}{suffix}"
    with suppress(OSError):
        if path.stat().st_size == len(data):
            return path
    return path if written(path, lambda file: write_all(file, data)) else None


def written(path: Path, write: Callable[[int], None]) -> bool:
    """Write a file atomically; return whether this succeeded. No incomplete file is left behind."""
    unfinished = path.parent / f".{path.name}.{os.urandom(4).hex()}"
    try:
        make_private(path.parent)
        file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            write(file)
        finally:
            os.close(file)
        unfinished.replace(path)
    except OSError:
        with suppress(OSError):
            unfinished.unlink()
        return False
    return True


def write_all(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


async def settle_file(path: Path, size: int, known_secrets: Iterable[str]) -> Path:
    """Mask secrets in a file with a program's output; name the file after the content's hash."""
    if size <= AT_ONCE_MAX_BYTES:
        return settle(path, known_secrets)
    return await asyncio.to_thread(settle, path, known_secrets)


def settle(path: Path, known_secrets: Iterable[str]) -> Path:
    with suppress(OSError):
        blank_secrets(path, known_secrets)
        if path.stat().st_size <= NAMED_BY_CONTENT_MAX_BYTES:
            with path.open("rb") as file:
                name = sha256(file.read()).hexdigest()[:32]
            return path.replace(path.with_stem(name))
    return path


def blank_secrets(path: Path, known_secrets: Iterable[str]) -> None:
    """Overwrite every secret in a file in place, so that lines and their numbers don't change.

    Secrets shorter than `LEAST_CHARS` are left unchanged.
    """
    needles = [os.fsencode(secret) for secret in known_secrets if len(secret) >= LEAST_CHARS]
    if not needles or not path.stat().st_size:
        return
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as content:
        for needle in needles:
            at = content.find(needle)
            while at >= 0:
                content[at : at + len(needle)] = b"*" * len(needle)
                at = content.find(needle, at + len(needle))
