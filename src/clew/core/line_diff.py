"""Find the lines in which two texts differ."""

from collections.abc import Sequence
from typing import AnyStr, TypeAlias

# Above this many pairs of lines, a difference is treated as one change, because comparing takes too
# long.
PAIRS_MAX = 1_000_000

# Old lines [i1, i2) became new lines [j1, j2).
Change: TypeAlias = tuple[int, int, int, int]


def diff_lines(old: Sequence[AnyStr], new: Sequence[AnyStr]) -> list[Change]:
    """Return the changes from the old lines to the new ones, in order; empty if they are equal."""
    first = 0
    while first < min(len(old), len(new)) and old[first] == new[first]:
        first += 1
    last = 0
    while last < min(len(old), len(new)) - first and old[-1 - last] == new[-1 - last]:
        last += 1
    a, b = old[first : len(old) - last], new[first : len(new) - last]
    if not a and not b:
        return []
    if not a or not b or len(a) * len(b) > PAIRS_MAX:
        return [(first, first + len(a), first, first + len(b))]
    # Imported here, because only lines that were replaced need it.
    from difflib import SequenceMatcher

    return [
        (first + i1, first + i2, first + j1, first + j2)
        for kind, i1, i2, j1, j2 in SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
        if kind != "equal"
    ]
