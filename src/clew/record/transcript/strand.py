"""The writer's state of one file's chain: its entries, the last one, and the call owners.

The state holds no lines, and nothing here accesses a file.
"""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from clew.record.transcript.loaded import LoadedSession
from clew.record.transcript.policy import find_block_ids


class Strand:
    """The end of a chain, where its writer continues.

    `last` is the next entry's parent; `owed` entries are only written ahead. `known` maps each
    entry to its rank, in order of writing. Entries that a compaction closed are forgotten, because
    the loader never returns them, so the state does not grow with the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.has_file = False
        self.last: str | None = None
        self.known: dict[str, int] = {}
        self.owed: set[str] = set()
        self.calls: dict[str, str] = {}
        # The parent of each entry by rank, and the parents of withdrawn entries by UUID.
        self._parents: list[str | None] = []
        self._withdrawn: dict[str, str | None] = {}

    @classmethod
    def of(cls, path: Path, loaded: LoadedSession) -> "Strand":
        """Return the state for continuing a loaded file."""
        strand = cls(path)
        strand.has_file = loaded.size_bytes > 0
        strand.known = dict(loaded.chain.links.index)
        strand._parents = [None] * len(loaded.chain.links.nodes)
        for message in loaded.messages:
            rank = strand.known.get(message.get("uuid", ""))
            if rank is not None:
                strand._note(message, rank)
        strand.last = loaded.leaf_uuid
        return strand

    def add(self, line: dict[str, Any]) -> None:
        """Add a line of the chain."""
        uuid = line.get("uuid")
        if isinstance(uuid, str):
            rank = self.known[uuid] = len(self._parents)
            self.owed.discard(uuid)
            self._parents.append(None)
            self._note(line, rank)

    def _note(self, line: dict[str, Any], rank: int) -> None:
        self._parents[rank] = line.get("parentUuid") or line.get("logicalParentUuid")
        for call in find_block_ids(line, "tool_use", "id"):
            self.calls[call] = line["uuid"]

    def forget_before(self, boundary: str, kept_ids: Collection[str]) -> None:
        """Forget the entries before `boundary`, except those it keeps."""
        floor = self.known[boundary]
        standing = [uuid for uuid, rank in self.known.items() if rank >= floor or uuid in kept_ids]
        self._parents = [self._parents[self.known[uuid]] for uuid in standing]
        self.known = {uuid: rank for rank, uuid in enumerate(standing)}
        self.calls = {call: uuid for call, uuid in self.calls.items() if uuid in self.known}
        self._withdrawn = {}

    def withdraw(self, uuid: str) -> bool:
        """Forget an entry, so that the next entry gets its parent.

        Return False if the entry is unknown.
        """
        if uuid not in self.known and uuid not in self.owed:
            return False
        rank = self.known.pop(uuid, None)
        if rank is not None:
            self._withdrawn[uuid] = self._parents[rank]
        self.owed.discard(uuid)
        while self.last is not None and self.last not in self.known:
            self.last = self._withdrawn.get(self.last)
        return True
