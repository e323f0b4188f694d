"""A loaded session. `load.py` creates it.

Most sessions are new ones, so this module must not import the loader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from clew.record.transcript.chain import Chain
    from clew.record.transcript.leaf import Side
    from clew.record.transcript.links import LinkNote


class LoadedSession(msgspec.Struct, kw_only=True):
    """A session ready to be resumed: the live messages, oldest first, and the side lines.

    `owed` contains the entries of `messages` that were only written ahead; a writer that resumes
    the session appends them first. Nothing before the offset `read_from` was read, because a
    compaction closed it. `copies` are the recovery files that were read after the file.
    """

    path: Path
    copies: tuple[Path, ...] = ()
    messages: list[dict[str, Any]]
    leaf_uuid: str | None
    side: Side
    chain: Chain
    line_notes: list[LinkNote]
    owed: list[dict[str, Any]]
    read_from: int
    size_bytes: int

    @property
    def is_empty(self) -> bool:
        return not self.messages

    @property
    def stands_before_all(self) -> bool:
        """True if the user rewound the conversation to before its first message."""
        markers = self.side.markers
        return bool(markers) and markers[-1].is_start

    @property
    def uuids(self) -> set[str]:
        """Every UUID in the part of the file that was read."""
        return set(self.chain.links.index)

    def gaps(self) -> list[LinkNote]:
        """Return the live entries whose parent is missing from the file.

        The history before such an entry is lost.
        """
        missing = [note for note in self.chain.links.notes if note.rule == "missing-parent"]
        if not missing or self.read_from:
            return []  # A compaction closed the rest, so the rest was not read.
        live = {node.at for node in self.chain.nodes()}
        return [note for note in missing if note.at in live]

    def report(self) -> Iterator[LinkNote]:
        """Return all lines that are damaged, repaired or not live, with reasons, in file order."""
        chain = self.chain
        notes = [*self.line_notes, *chain.links.notes, *chain.notes, *chain.left_out()]
        return iter(sorted(notes, key=lambda note: note.number))
