"""What an edit changed, as hunks of lines with three lines around them."""

from bisect import bisect_right
from typing import Any

from clew.tools.text_file import lines_of

CONTEXT_LINES = 3
# Beyond this many pairs of lines a difference is one hunk: finding a finer one takes too long.
DIFF_MAX_PAIRS = 1_000_000

NO_LAST_NEWLINE = "\\ No newline at end of file"

# Old lines [i1, i2) became new lines [j1, j2).
Change = tuple[int, int, int, int]


def patch_of_spans(
    old: str, new: str, spans: list[tuple[int, int]], inserted: str
) -> list[dict[str, Any]]:
    """The hunks of replacing each span of `old`, in order, by `inserted`."""
    starts = [0]
    while (found := old.find("\n", starts[-1])) >= 0:
        starts.append(found + 1)
    added_lines = inserted.count("\n")
    changes: list[Change] = []
    shift = 0
    for begin, end in spans:
        i1, i2 = bisect_right(starts, begin) - 1, bisect_right(starts, end)
        grown = added_lines - old.count("\n", begin, end)
        if changes and i1 < changes[-1][1]:
            a, _, c, _ = changes.pop()
        else:
            a, c = i1, i1 + shift
        shift += grown
        changes.append((a, i2, c, i2 + shift))
    return hunks(old, new, changes)


def patch_of_texts(old: str, new: str) -> list[dict[str, Any]]:
    a, b = lines_of(old), lines_of(new)
    first = 0
    while first < min(len(a), len(b)) and a[first] == b[first]:
        first += 1
    last = 0
    while last < min(len(a), len(b)) - first and a[-1 - last] == b[-1 - last]:
        last += 1
    middle_a, middle_b = a[first : len(a) - last], b[first : len(b) - last]
    changes: list[Change] = [(first, len(a) - last, first, len(b) - last)]
    if len(middle_a) * len(middle_b) <= DIFF_MAX_PAIRS:
        from difflib import SequenceMatcher

        opcodes = SequenceMatcher(None, middle_a, middle_b, autojunk=False).get_opcodes()
        changes = [
            (i1 + first, i2 + first, j1 + first, j2 + first)
            for kind, i1, i2, j1, j2 in opcodes
            if kind != "equal"
        ]
    return hunks(old, new, changes)


def hunks(old: str, new: str, changes: list[Change]) -> list[dict[str, Any]]:
    a, b = shown_lines(old), shown_lines(new)
    groups: list[list[Change]] = []
    for change in (trimmed(a, b, change) for change in changes):
        if change[0] == change[1] and change[2] == change[3]:
            continue
        if groups and change[0] - groups[-1][-1][1] <= 2 * CONTEXT_LINES:
            groups[-1].append(change)
        else:
            groups.append([change])
    return [hunk(a, b, group) for group in groups]


def shown_lines(text: str) -> list[str]:
    lines = [line.removesuffix("\r") for line in lines_of(text)]
    if text and not text.endswith("\n"):
        lines[-1] += "\n" + NO_LAST_NEWLINE
    return lines


def trimmed(a: list[str], b: list[str], change: Change) -> Change:
    """The change without lines that are the same at its ends."""
    i1, i2, j1, j2 = change
    i2, j2 = min(i2, len(a)), min(j2, len(b))
    while i1 < i2 and j1 < j2 and a[i1] == b[j1]:
        i1, j1 = i1 + 1, j1 + 1
    while i1 < i2 and j1 < j2 and a[i2 - 1] == b[j2 - 1]:
        i2, j2 = i2 - 1, j2 - 1
    return i1, i2, j1, j2


def hunk(a: list[str], b: list[str], group: list[Change]) -> dict[str, Any]:
    begin = max(0, group[0][0] - CONTEXT_LINES)
    end = min(len(a), group[-1][1] + CONTEXT_LINES)
    lines: list[str] = []
    at = begin
    for i1, i2, j1, j2 in group:
        lines += [" " + line for line in a[at:i1]]
        lines += ["-" + line for line in a[i1:i2]]
        lines += ["+" + line for line in b[j1:j2]]
        at = i2
    lines += [" " + line for line in a[at:end]]
    lines = [part for line in lines for part in line.split("\n")]
    new_begin = begin + group[0][2] - group[0][0]
    new_lines = sum(line[0] in " +" for line in lines)
    return {
        "oldStart": begin + 1 if end > begin else begin,
        "oldLines": end - begin,
        "newStart": new_begin + 1 if new_lines else new_begin,
        "newLines": new_lines,
        "lines": lines,
    }
