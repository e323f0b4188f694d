"""What a prompt's `@file` and `@folder` bring along: attachments whose words are frozen in the log."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clew.context.facts import Fact

MAX_NAMES = 200


def file_fact(path: Path, shown: str, content: str | list[Any], result: Any) -> Fact:
    """A file as Read gave it: words, or blocks for what is not text."""
    head = f"The person's prompt names the file {shown}; this is what it holds:"
    blocks: Any = (
        f"<system-reminder>\n{head}\n{content}\n</system-reminder>"
        if isinstance(content, str)
        else [{"type": "text", "text": head}, *content]
    )
    payload = {"type": "file", "filename": str(path), "content": result, "displayPath": shown}
    return Fact(payload=payload, rendered=(blocks,))


def folder_fact(path: Path, shown: str, may_read: Callable[[str], bool]) -> Fact:
    """The names in a folder, without those that may not be read. Raises OSError."""
    names = sorted(
        f"{entry.name}/" if entry.is_dir() else entry.name
        for entry in os.scandir(path)
        if may_read(entry.name)
    )
    more = [f"... and {len(names) - MAX_NAMES} more"] if len(names) > MAX_NAMES else []
    listing = "\n".join([*names[:MAX_NAMES], *more]) or "(nothing)"
    words = f"The person's prompt names the folder {shown}; it holds:\n{listing}"
    payload = {"type": "directory", "path": str(path), "content": listing, "displayPath": shown}
    return Fact(payload=payload, rendered=(f"<system-reminder>\n{words}\n</system-reminder>",))


def noted_fact(path: Path, words: str) -> Fact:
    """What a person put into a memory file while the conversation ran."""
    told = f"The person added to {path}, for you to keep to from now on:\n{words}"
    payload = {"type": "memory_note", "path": str(path), "content": words}
    return Fact(payload=payload, rendered=(f"<system-reminder>\n{told}\n</system-reminder>",))
