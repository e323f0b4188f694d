"""Compute the hunks of an edit, each with three lines of context."""

from typing import Any

from clew.agent.tools.files import lines_of
from clew.core.line_diff import Change, diff_lines

CONTEXT_LINES = 3
NO_LAST_NEWLINE = "\\ No newline at end of file"

# Old characters [o1, o2) became new characters [n1, n2).
Region = tuple[int, int, int, int]


def replace_spans(
    regions: list[Region], spans: list[tuple[int, int]], inserted_chars: int
) -> list[Region]:
    """Return the changed regions after further replacements.

    Each of the `spans` was replaced by `inserted_chars` characters.
    """
    places: list[tuple[int, int, int | None, int]] = [
        *((n1, n2, o2 - n2, 0) for _, o2, n1, n2 in regions),
        *((begin, end, None, inserted_chars - (end - begin)) for begin, end in spans),
    ]
    result: list[Region] = []
    # `lag` is the offset to a position in the old text, `grown` to one in the newest text; `reach`
    # is the end of the last region.
    lag = grown = 0
    reach = -1
    for begin, end, lag_behind, change in sorted(places, key=lambda place: place[0]):
        if begin <= reach:
            o1, _, n1, _ = result.pop()
        else:
            o1, n1 = begin + lag, begin + grown
        reach = max(reach, end)
        lag = lag if lag_behind is None else lag_behind
        grown += change
        result.append((o1, reach + lag, n1, reach + grown))
    return result


def diff_regions(old: str, new: str, regions: list[Region]) -> list[dict[str, Any]]:
    """Return the hunks between two versions of a file that are equal outside of these regions.

    Only the lines in and around the regions are compared: the rest may be megabytes.
    """
    patch: list[dict[str, Any]] = []
    at = at_new = lines = lines_new = 0
    for begin, end, inside in windows(old, regions):
        begin_new = inside[0][2] - (inside[0][0] - begin)
        end_new = inside[-1][3] + (end - inside[-1][1])
        lines += old.count("\n", at, begin)
        lines_new += new.count("\n", at_new, begin_new)
        at, at_new = begin, begin_new
        whole_old, whole_new = old[begin:end], new[begin_new:end_new]
        near = [(a - begin, b - begin, c - begin_new, d - begin_new) for a, b, c, d in inside]
        for hunk in hunks(whole_old, whole_new, changed_lines(whole_old, whole_new, near)):
            hunk["oldStart"] += lines
            hunk["newStart"] += lines_new
            patch.append(hunk)
    return patch


def windows(old: str, regions: list[Region]) -> list[tuple[int, int, list[Region]]]:
    """Return the spans of complete lines around the regions, merging spans that overlap."""
    spans: list[tuple[int, int, list[Region]]] = []
    for region in regions:
        begin, end = lines_back(old, region[0]), lines_ahead(old, region[1])
        if spans and begin <= spans[-1][1]:
            begin, _, inside = spans.pop()
            inside.append(region)
        else:
            inside = [region]
        spans.append((begin, end, inside))
    return spans


def lines_back(text: str, at: int) -> int:
    """Return the start of the third line before the one at a position."""
    at = text.rfind("\n", 0, at) + 1
    for _ in range(CONTEXT_LINES):
        at = text.rfind("\n", 0, max(0, at - 1)) + 1
    return at


def lines_ahead(text: str, at: int) -> int:
    """Return the end of the third line after the one at a position."""
    for _ in range(CONTEXT_LINES + 1):
        at = text.find("\n", at) + 1 or len(text)
    return at


def changed_lines(old: str, new: str, regions: list[Region]) -> list[Change]:
    changes: list[Change] = []
    at = at_new = line = line_new = 0
    for o1, o2, n1, n2 in regions:
        line += old.count("\n", at, o1)
        line_new += new.count("\n", at_new, n1)
        first, first_new = line, line_new
        line += old.count("\n", o1, o2)
        line_new += new.count("\n", n1, n2)
        at, at_new = o2, n2
        if changes and first < changes[-1][1]:
            first, _, first_new, _ = changes.pop()
        changes.append((first, line + 1, first_new, line_new + 1))
    return changes


def diff_texts(old: str, new: str) -> list[dict[str, Any]]:
    return hunks(old, new, diff_lines(lines_of(old), lines_of(new)))


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
    """Return the change without the identical lines at its start and end."""
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
