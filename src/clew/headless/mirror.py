"""What is written to a transcript, said to the host too, so that it can keep a copy elsewhere.

Owns the spelling of these frames and their size. An entry is said once it was handed to the log, in
the order of the log, and the entries of a turn before its result. An entry that no line can carry whole is
shortened so that a session can go on from the copy, and never silently.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from clew.messages.encoding import decode, encode
from clew.transcript.paths import sidecar
from clew.wire.bounds import MAX_COPY_BYTES, framed

Json: TypeAlias = dict[str, Any]

# Of the entries in a frame, so that only an entry that is longer by itself fills one.
BATCH_BYTES = 256 * 1024
# Of one entry; the rest of the line is the path and the words around it.
MAX_ENTRY_BYTES = MAX_COPY_BYTES - 16 * 1024


class Mirror:
    """A subagent's file begins with what it is, which its host keeps in a file of its own."""

    def __init__(self, post: Callable[[Json], None], warn: Callable[[str], None]) -> None:
        self._post = post
        self._warn = warn
        self._begun: set[Path] = set()

    def __call__(self, path: Path, entries: Sequence[Json]) -> None:
        told = [*self._metadata(path, entries), *entries]
        for batch in batches(told):
            frame: Json = {"type": "transcript_mirror", "filePath": str(path), "entries": batch}
            if len(batch) == 1 and (size := len(encode(batch[0]))) > MAX_ENTRY_BYTES:
                frame |= {"entries": [fitting(batch[0])], "shortened": [batch[0].get("uuid")]}
                self._warn(
                    f"an entry of {size} bytes is longer than a line of this protocol may be: "
                    "the host's copy has it shortened, the transcript whole"
                )
            self._post(frame)

    def _metadata(self, path: Path, entries: Sequence[Json]) -> list[Json]:
        if path in self._begun or not path.name.startswith("agent-"):
            return []
        self._begun.add(path)
        if entries[0].get("type") == "agent_metadata":
            return []
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


def fitting(entry: Json) -> Json:
    """An entry as far as a line carries it. Half of a picture would be refused by every model, so words
    stand in its place."""
    message = entry.get("message")
    if isinstance(message, dict):
        entry = entry | {"message": message | {"content": without_media(message.get("content"))}}
    short: Json = decode(framed(entry, MAX_ENTRY_BYTES))
    return short


def without_media(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    return [_in_words(block) for block in content]


def _in_words(block: Any) -> Any:
    if not isinstance(block, dict):
        return block
    source = block.get("source")
    if isinstance(source, dict) and isinstance(source.get("data"), str):
        size = len(source["data"])
        return {
            "type": "text",
            "text": f"[{block.get('type')}: {size} characters are left out of this copy]",
        }
    if block.get("type") == "tool_result":
        return block | {"content": without_media(block.get("content"))}
    return block
