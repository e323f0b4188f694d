"""What is too long for a conversation: the whole goes into a file, its two ends and the way to it stay.

The one way for every tool. A file is named by its content, so the same result twice is one file, and
it is there whole or not at all. Must never fail a call: where no file can be written, the ends still
arrive and say so.
"""

import asyncio
import mmap
import os
import secrets
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

# What is shown of a result that went into a file; a result a little longer than this stays whole.
# About 5,000 tokens: enough to see what the result is, and ten of them don't crowd a window.
SHOWN_CHARS = 20_000
FILE_MAX_BYTES = 1 << 30
# A larger file keeps the name it was written under: hashing 64 MB takes 50 ms on two busy cores, and
# 200 MB would add half to the time of the command that printed them.
NAMED_BY_CONTENT_MAX_BYTES = 64 << 20
# So much is hashed and written faster than a thread begins.
AT_ONCE_MAX_BYTES = 4 << 20
# Fields that hold a picture or a document; half of one is nothing.
WHOLE_FIELDS = frozenset({"data", "base64"})


async def fit_result(result: ToolOutcome, limit_chars: int | None, folder: Path) -> ToolOutcome:
    """The result as it may join a conversation: itself, or its two ends."""
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
    """What programs read of the call, with long texts cut and the file named."""
    cut = bounded(raw, limit_chars)
    if isinstance(cut, dict) and path is not None:
        cut |= {"persistedOutputPath": str(path), "persistedOutputSize": size}
    return cut


def bounded(value: Any, limit_chars: int) -> Any:
    """A decoded JSON value whose texts are not longer than the limit."""
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
    cut = f"the middle of {size:,} bytes is left out here"
    if path is None:
        return f"{cut}, and could not be kept: no file could be written"
    if kept_bytes < size:
        return f"{cut}; the first {kept_bytes:,} bytes are in {path}"
    return f"{cut}; the whole is in {path}"


def keep(folder: Path, data: bytes, suffix: str = ".txt") -> Path | None:
    """A file of these bytes, named by them; None where the disk takes none."""
    path = folder / f"{sha256(data).hexdigest()[:32]}{suffix}"
    with suppress(OSError):
        if path.stat().st_size == len(data):
            return path
    return path if written(path, lambda file: write_all(file, data)) else None


def written(path: Path, write: Callable[[int], None]) -> bool:
    """Makes a file whole or not at all; what half of it takes is given back to a full disk."""
    unfinished = path.parent / f".{path.name}.{secrets.token_hex(4)}"
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
    """A file that a program's output went into, under the name of its content and without secrets."""
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
    """Writes over every secret in a file, in place: the lines and their numbers stay."""
    needles = [os.fsencode(secret) for secret in known_secrets if len(secret) >= LEAST_CHARS]
    if not needles or not path.stat().st_size:
        return
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as content:
        for needle in needles:
            at = content.find(needle)
            while at >= 0:
                content[at : at + len(needle)] = b"*" * len(needle)
                at = content.find(needle, at + len(needle))
