"""Memory files below the working folder, sent once when a file in their folder is read or changed.

They are recorded in the transcript as attachments, so a resumed session knows which of them the
model has received. Only files below the working folder and rules for the touched file's path are
sent here; the others are sent at the start of the session.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from clew.agent.context.facts import Fact, make_memory_fact
from clew.agent.context.memory import (
    FileCache,
    Memory,
    MemoryGate,
    find_sources,
    load_memory,
    load_nested,
)
from clew.core.json_object import Json

# The payload key for the file that caused the memory to be loaded.
TRIGGER = "triggerFilePath"
TELLING = frozenset({"instructions", "nested_memory"})


class Nearby:
    """Finds the memory files that apply to the files that tools touch.

    Nothing is looked up until a tool touches a file.
    """

    def __init__(
        self, environ: Mapping[str, str], cwd: Path, gate: MemoryGate, entries: Iterable[Json]
    ) -> None:
        self._environ = dict(environ)
        self._cwd = cwd
        self._gate = gate
        self._cache = FileCache()
        self._memory: Memory | None = None
        self._told: set[str] = set()
        self.begin_again(entries)

    def begin_again(self, entries: Iterable[Json]) -> None:
        """Start over with the entries of another conversation.

        Memory that is not recorded in them may be sent again.
        """
        self._told = set(find_sent_paths(entries))

    def beside(self, results: Sequence[Json]) -> list[Fact]:
        """Return the unsent memory that applies to the files in these results."""
        facts = [self._of(path) for path in dict.fromkeys(find_touched_paths(results))]
        return [fact for fact in facts if fact is not None]

    def _of(self, path: Path) -> Fact | None:
        where = find_sources(self._environ, self._cwd, self._gate)
        if self._memory is None:
            self._memory = load_memory(where, self._cache)
        files = load_nested(where, self._cache, self._memory, path)
        new = [file for file in files if file.path not in self._told]
        self._told |= {file.path for file in new}
        fact = make_memory_fact(new, kind="nested_memory")
        return None if fact is None else replace(fact, payload=fact.payload | {TRIGGER: str(path)})


def find_touched_paths(results: Iterable[Json]) -> Iterator[Path]:
    """Yield the paths of the files that tools read or wrote, from their results."""
    for result in results:
        raw = result.get("toolUseResult")
        if isinstance(raw, dict):
            file = raw.get("file")
            for record in (raw, file if isinstance(file, dict) else {}):
                if isinstance(record.get("filePath"), str):
                    yield Path(record["filePath"])


def find_sent_paths(entries: Iterable[Json]) -> Iterator[str]:
    for entry in entries:
        payload = entry.get("attachment")
        if isinstance(payload, dict) and payload.get("type") in TELLING:
            files = payload.get("files")
            for file in files if isinstance(files, list) else ():
                if isinstance(file, dict) and isinstance(file.get("path"), str):
                    yield file["path"]


# Attachments for `@file` and `@folder` in a prompt; their text is frozen in the transcript.


MAX_NAMES = 200


def make_file_fact(path: Path, label: str, content: str | list[Any], result: Any) -> Fact:
    """Return a fact with a file's content as Read returned it: text or content blocks."""
    head = f"Contents of {label}, named in the user's prompt:"
    blocks: Any = (
        f"<system-reminder>\n{head}\n{content}\n</system-reminder>"
        if isinstance(content, str)
        else [{"type": "text", "text": head}, *content]
    )
    payload = {"type": "file", "filename": str(path), "content": result, "displayPath": label}
    return Fact(payload=payload, rendered=(blocks,))


def make_folder_fact(path: Path, label: str, may_read: Callable[[str], bool]) -> Fact:
    """Return a fact with the names in a folder that may be read.

    Raise OSError if it can't be listed.
    """
    names = sorted(
        f"{entry.name}/" if entry.is_dir() else entry.name
        for entry in os.scandir(path)
        if may_read(entry.name)
    )
    notes = [f"... and {len(names) - MAX_NAMES} more"] if len(names) > MAX_NAMES else []
    listing = "\n".join([*names[:MAX_NAMES], *notes]) or "(empty)"
    words = f"The user's prompt names the folder {label}; it contains:\n{listing}"
    payload = {"type": "directory", "path": str(path), "content": listing, "displayPath": label}
    return Fact(payload=payload, rendered=(f"<system-reminder>\n{words}\n</system-reminder>",))


def make_note_fact(path: Path, words: str) -> Fact:
    """Return a fact with a note that the user added to a memory file during the conversation."""
    text = f"The user added this to {path}. Follow it from now on:\n{words}"
    payload = {"type": "memory_note", "path": str(path), "content": words}
    return Fact(payload=payload, rendered=(f"<system-reminder>\n{text}\n</system-reminder>",))
