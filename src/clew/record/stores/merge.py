"""Merge two copies of a transcript without losing a line of either. Does no I/O.

An entry is identified by its UUID, and a line without a UUID by its bytes. If only one copy has
additional lines, that copy is the result. If both have additional lines, the remote lines come
first, and the additional local lines follow.

Decision: docs/decisions/127-session-stores.md
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from clew.core.messages.encoding import decode

Relation: TypeAlias = Literal["same", "local is ahead", "remote is ahead", "diverged"]


class Merged(Struct, frozen=True, kw_only=True):
    """The merged lines, each with its newline, and how the copies relate."""

    relation: Relation
    lines: list[bytes]


def merge(local: Sequence[bytes], remote: Sequence[bytes]) -> Merged:
    """Merge complete lines.

    If the remote copy has nothing to add, the result is the local copy unchanged.
    """
    new_of_remote = _without(remote, local)
    new_of_local = _without(local, remote)
    if not new_of_remote:
        relation: Relation = "local is ahead" if new_of_local else "same"
        lines = list(local)
    elif not new_of_local:
        relation, lines = "remote is ahead", list(remote)
    else:
        relation, lines = "diverged", [*remote, *new_of_local]
    return Merged(relation=relation, lines=lines)


def _without(lines: Sequence[bytes], known_lines: Sequence[bytes]) -> list[bytes]:
    """Return the lines that the other copy lacks; of repeated lines, as many as it lacks."""
    left = Counter(map(identity, known_lines))
    new_lines = []
    for line in lines:
        name = identity(line)
        if left[name] > 0:
            left[name] -= 1
        else:
            new_lines.append(line)
    return new_lines


def identity(line: bytes) -> tuple[str, Any]:
    """Return a line's identity. Entries with the same UUID but different content are distinct."""
    try:
        entry = decode(line)
    except ValueError:
        return "", line.strip()
    if type(entry) is dict and type(entry.get("uuid")) is str:
        try:
            return entry["uuid"], repr(sorted(entry.items(), key=lambda item: item[0]))
        except RecursionError:
            # Nested too deeply to be sorted, so the bytes must match.
            return entry["uuid"], line.strip()
    return "", line.strip()


def select_whole_lines(data: bytes) -> list[bytes]:
    """Return the lines of a file that end with a newline."""
    return [line + b"\n" for line in data.split(b"\n")[:-1]]


def with_last(data: bytes) -> list[bytes]:
    """Return every line of a local file; a newline is added to the last one if necessary."""
    lines = data.split(b"\n")
    return [line + b"\n" for line in (lines if lines[-1] else lines[:-1])]


def uuids_of(lines: Sequence[bytes]) -> set[str]:
    return {name for line in lines if (name := identity(line)[0])}
