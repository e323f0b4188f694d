"""What is written to a transcript, said to the host too, so that it can keep a copy elsewhere.

Owns the spelling of these frames and their size. An entry is said once it was handed to the log, in
the order of the log, and the entries of a turn before its result.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from clew.messages.encoding import decode, encode
from clew.transcript.paths import sidecar

Json: TypeAlias = dict[str, Any]

# Of the entries in a frame, so that only an entry that is longer by itself is ever shortened.
BATCH_BYTES = 256 * 1024


class Mirror:
    """A subagent's file begins with what it is, which its host keeps in a file of its own."""

    def __init__(self, post: Callable[[Json], None]) -> None:
        self._post = post
        self._begun: set[Path] = set()

    def __call__(self, path: Path, entries: Sequence[Json]) -> None:
        told = [*self._metadata(path), *entries]
        for batch in batches(told):
            self._post({"type": "transcript_mirror", "filePath": str(path), "entries": batch})

    def _metadata(self, path: Path) -> list[Json]:
        if path in self._begun or not path.name.startswith("agent-"):
            return []
        self._begun.add(path)
        try:
            said = decode(sidecar(path).read_bytes())
        except (OSError, ValueError):
            return []
        return [{"type": "agent_metadata", **said}] if isinstance(said, dict) else []


def batches(entries: Sequence[Json]) -> Iterator[list[Json]]:
    """The entries in order, as many at once as a frame holds."""
    batch: list[Json] = []
    size = 0
    for entry in entries:
        length = len(encode(entry))
        if batch and size + length > BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += length
    if batch:
        yield batch
