"""What is known of one file's chain while it is written: who is in it, who is last, whose call.

Pure state; holds no line and touches no file.
"""

from pathlib import Path
from typing import Any

from clew.transcript.load import Loaded
from clew.transcript.siblings import block_ids


class Strand:
    """`last` is the entry the next one hangs on; `owed` are written ahead and not yet in place.

    `known` holds each entry's rank: which of two was written first.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.has_file = False
        self.last: str | None = None
        self.known: dict[str, int] = {}
        self._next_rank = 0
        self.owed: set[str] = set()
        self.calls: dict[str, str] = {}
        self._parents: dict[str, str | None] = {}

    @classmethod
    def of(cls, path: Path, loaded: Loaded) -> "Strand":
        """A strand that goes on from what a file holds."""
        strand = cls(path)
        strand.has_file = loaded.size_bytes > 0
        for message in loaded.messages:
            strand.add(message)
        strand.known = dict(loaded.chain.links.index)
        strand._next_rank = len(strand.known)
        strand.last = loaded.leaf_uuid
        return strand

    def add(self, line: dict[str, Any]) -> None:
        """Notes a line of the chain."""
        uuid = line.get("uuid")
        if isinstance(uuid, str):
            self.known[uuid] = self._next_rank
            self._next_rank += 1
            self._parents[uuid] = line.get("parentUuid") or line.get("logicalParentUuid")
            for call in block_ids(line, "tool_use", "id"):
                self.calls[call] = uuid

    def withdraw(self, uuid: str) -> bool:
        """Forgets an entry; False if there was none. The next hangs on what it hung on."""
        if uuid not in self.known and uuid not in self.owed:
            return False
        self.known.pop(uuid, None)
        self.owed.discard(uuid)
        while self.last is not None and self.last not in self.known:
            self.last = self._parents.get(self.last)
        return True
