"""Two copies of one transcript as one, in which nothing of either is missing. Pure.

An entry is known by its uuid, a line without one by its bytes. What the other copy has already stays in its
order, so that a copy which was only behind becomes a continuation; what it has not comes behind it.

Decision: docs/decisions/127-session-stores.md
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from clew.core.messages.encoding import decode

Relation: TypeAlias = Literal["same", "local is ahead", "remote is ahead", "both went on"]


class Merged(Struct, frozen=True, kw_only=True):
    """The lines of the union, each with its end, and how the copies stood to each other."""

    relation: Relation
    lines: list[bytes]


def merge(local: Sequence[bytes], remote: Sequence[bytes]) -> Merged:
    """Both are whole lines. A remote copy with nothing to add leaves the local one as it is."""
    new_of_remote = _without(remote, local)
    new_of_local = _without(local, remote)
    if not new_of_remote:
        relation: Relation = "local is ahead" if new_of_local else "same"
        lines = list(local)
    elif not new_of_local:
        relation, lines = "remote is ahead", list(remote)
    else:
        relation, lines = "both went on", [*remote, *new_of_local]
    return Merged(relation=relation, lines=lines)


def _without(lines: Sequence[bytes], known_lines: Sequence[bytes]) -> list[bytes]:
    """Those of the lines that the other copy does not have; how often a line stands there counts."""
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
    """What a line is known by. Entries of one uuid that say different things are two."""
    try:
        entry = decode(line)
    except ValueError:
        return "", line.strip()
    if type(entry) is dict and type(entry.get("uuid")) is str:
        try:
            return entry["uuid"], repr(sorted(entry.items(), key=lambda item: item[0]))
        except RecursionError:
            # Nested too deep to be put in order: the same only where its bytes are.
            return entry["uuid"], line.strip()
    return "", line.strip()


def select_whole_lines(data: bytes) -> list[bytes]:
    """The lines of a file that have their end; of a local file also a last one that can be read."""
    return [line + b"\n" for line in data.split(b"\n")[:-1]]


def with_last(data: bytes) -> list[bytes]:
    """Every line of a local file, the last one with an end if it had none."""
    lines = data.split(b"\n")
    return [line + b"\n" for line in (lines if lines[-1] else lines[:-1])]


def uuids_of(lines: Sequence[bytes]) -> set[str]:
    return {name for line in lines if (name := identity(line)[0])}
