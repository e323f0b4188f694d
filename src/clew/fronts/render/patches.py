"""Render a text that contains unified diffs, such as the output of `git diff`. Does no I/O.

Each hunk is drawn like the change of a tool call. All other lines stay text; the header of a file
in a diff of git becomes one line.
"""

import re
from collections.abc import Iterator

from clew.core.json_object import Json
from clew.fronts.render.results import describe_change, rows_of
from clew.fronts.render.rows import Row, Span, escape_controls, wrap_spans
from clew.fronts.render.theme import Look

_FILE = re.compile(r"diff --git (?:\"?a/.*\"? )\"?b/(?P<path>.*?)\"?\Z")
_HUNK = re.compile(r"(?P<indent> *)@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
# A line that names a file and counts its changes, and above which there is no other header.
_COUNTED = re.compile(r".*?: (?P<path>.+) \(\+\d+ -\d+\)\Z")
# Lines of a header that say more than the paths, and how they are shown.
_KINDS = (
    ("new file mode", "new"),
    ("deleted file mode", "deleted"),
    ("rename from ", "renamed from "),
    ("Binary files ", "binary"),
    ("GIT binary patch", "binary"),
)


def render_patches(text: str, look: Look, part: str) -> Iterator[Row]:
    """Yield the rows of a text that contains unified diffs; `part` is the style of other lines."""
    lines = text.split("\n")
    path, at = "", 0
    while at < len(lines):
        line = lines[at]
        if (match := _FILE.match(line)) is not None:
            path = match["path"]
            end = next((n for n in range(at + 1, len(lines)) if _begins(lines[n])), len(lines))
            if at:
                yield []
            header, at = lines[at + 1 : end], end
            hunks, at = _read_hunks(lines, at)
            yield from _title(path, header, hunks, look)
            yield from rows_of(hunks, path, look.theme, look.width) if hunks else ()
        elif _HUNK.match(line) is not None:
            hunks, at = _read_hunks(lines, at)
            yield from rows_of(hunks, path, look.theme, look.width)
        else:
            if (match := _COUNTED.match(line)) is not None:
                path = match["path"]
            shown = escape_controls(look.folders.shorten(line).expandtabs(8))
            yield from wrap_spans([Span(shown, look.theme[part])], look.width)
            at += 1


def _begins(line: str) -> bool:
    """Return whether a line ends the header of a file."""
    is_header = line.startswith(("index ", "--- ", "+++ ", "old mode", "new mode", "similarity ",
                                 "rename ", "copy ", *(kind for kind, _ in _KINDS)))  # fmt: skip
    return not is_header


def _read_hunks(lines: list[str], at: int) -> tuple[list[Json], int]:
    """Return the hunks that begin at index `at`, and the index after them.

    The header of a hunk says how many lines it has, so a changed line that looks like a header is
    not mistaken for one.
    """
    hunks: list[Json] = []
    while at < len(lines) and (match := _HUNK.match(lines[at])) is not None:
        indent = len(match["indent"])
        old_start, old_left, new_start, new_left = (
            int(group or "1") for group in match.group(2, 3, 4, 5)
        )
        at += 1
        changed: list[str] = []
        while at < len(lines):
            line = lines[at][indent:]
            sign = line[:1]
            if sign != "\\" and (old_left, new_left) == (0, 0):
                break
            old_left -= sign in ("-", " ", "")
            new_left -= sign in ("+", " ", "")
            if min(old_left, new_left) < 0 or sign not in ("+", "-", " ", "", "\\"):
                break
            changed.append(line or " ")
            at += 1
        hunks.append({"oldStart": old_start, "newStart": new_start, "lines": changed})
    return hunks, at


def _title(path: str, header: list[str], hunks: list[Json], look: Look) -> Iterator[Row]:
    """Yield the row that names a file, with the size and the kind of its change."""
    kinds = [
        f"{words}{line.removeprefix(kind)}" if words.endswith(" ") else words
        for line in header
        for kind, words in _KINDS
        if line.startswith(kind)
    ]
    facts = " · ".join([*kinds, *([describe_change(hunks)] if hunks else [])])
    name = Span(escape_controls(path), look.theme["tool"])
    yield from wrap_spans(
        [name, Span(f"  {escape_controls(facts)}", look.theme["quiet"])], look.width
    )
