"""Memory files below the working folder: told once each, when a file beside them is read or changed.

What was told stands in the conversation as attachments, so a session that goes on knows what it was told.
Only what speaks below the folder, or for the file's path, is told here; the rest was told at the start.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from msgspec.structs import replace

from clew.context.explain import sources
from clew.context.facts import Fact, memory_fact
from clew.context.memory import FileCache, Memory, load, nested
from clew.context.memory_gate import MemoryGate

Json: TypeAlias = dict[str, Any]
# The file that was touched, as the log names it.
TRIGGER = "triggerFilePath"
TELLING = frozenset({"instructions", "nested_memory"})


class Nearby:
    """`entries` are the conversation so far; looks at nothing before a file was touched."""

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
        """The conversation is another one: what it does not tell may be told."""
        self._told = set(told_paths(entries))

    def beside(self, results: Sequence[Json]) -> list[Fact]:
        """What speaks of the files that these results were about, and was not told yet."""
        facts = [self._of(path) for path in dict.fromkeys(touched(results))]
        return [fact for fact in facts if fact is not None]

    def _of(self, path: Path) -> Fact | None:
        where = sources(self._environ, self._cwd, self._gate)
        if self._memory is None:
            self._memory = load(where, self._cache)
        found = nested(where, self._cache, self._memory, path)
        new = [file for file in found if file.path not in self._told]
        self._told |= {file.path for file in new}
        fact = memory_fact(new, kind="nested_memory")
        return None if fact is None else replace(fact, payload=fact.payload | {TRIGGER: str(path)})


def touched(results: Iterable[Json]) -> Iterator[Path]:
    """The files that tools read or wrote, by their results."""
    for result in results:
        raw = result.get("toolUseResult")
        if isinstance(raw, dict):
            file = raw.get("file")
            for said in (raw, file if isinstance(file, dict) else {}):
                if isinstance(said.get("filePath"), str):
                    yield Path(said["filePath"])


def told_paths(entries: Iterable[Json]) -> Iterator[str]:
    for entry in entries:
        payload = entry.get("attachment")
        if isinstance(payload, dict) and payload.get("type") in TELLING:
            files = payload.get("files")
            for file in files if isinstance(files, list) else ():
                if isinstance(file, dict) and isinstance(file.get("path"), str):
                    yield file["path"]
