"""The authors of the lines in files: a tool call, or something else between two calls. Does no I/O.

The authors of the lines are kept for each version of a file, because a rewind or git may restore an
earlier version. They are computed from the `attribution-snapshot` lines of a transcript. These
contain positions and not the text, so neither the files nor their saved contents are needed.

The format is described in docs/using/attribution.md.
"""

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from clew.core.json_object import Json, list_of, object_of, text_of
from clew.core.line_diff import diff_lines

# The author of lines that no call wrote: the user, an editor, a hook.
OTHERS = "others"
# Larger files are not compared.
COMPARED_MAX_BYTES = 1 << 20
# Beyond the last line of any file.
END = 1 << 60
# How many versions of a file the authors are kept for: the newest ones.
CONTENTS_MAX = 50

# The lines before the change, the lines that it replaced, and the new lines.
Hunk: TypeAlias = tuple[int, int, int]
# The lines before the span, the lines in it, and their author.
Span: TypeAlias = tuple[int, int, str]


class LineEdit(Struct, frozen=True, kw_only=True):
    """A change of a file's content. `source` is the file's former path if the file was moved."""

    author: str
    before: str
    after: str
    hunks: tuple[Hunk, ...]
    source: str = ""


class LineCounts(Struct, frozen=True, kw_only=True):
    """The numbers of lines that the session's calls wrote and that others wrote in the meantime."""

    agent: int = 0
    others: int = 0


def compare_lines(before: bytes, after: bytes) -> tuple[Hunk, ...] | None:
    """Return the changed lines between two versions; None if they can't be compared."""
    if max(len(before), len(after)) > COMPARED_MAX_BYTES or b"\0" in before or b"\0" in after:
        return None
    a, b = split_lines(before), split_lines(after)
    return tuple((i1, i2 - i1, j2 - j1) for i1, i2, j1, j2 in diff_lines(a, b))


def split_lines(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return lines


def move_spans(spans: Sequence[Span], hunks: Sequence[Hunk], author: str) -> tuple[Span, ...]:
    """Return the spans after a change; if `author` is empty, the new lines have no author."""
    moved: list[Span] = []
    i = at = grown = 0
    for first, removed, added in (*hunks, (END, 0, 0)):
        while i < len(spans) and spans[i][0] < first:
            begin, end, whose = max(spans[i][0], at), spans[i][0] + spans[i][1], spans[i][2]
            if begin < min(end, first):
                _append(moved, (begin + grown, min(end, first) - begin, whose))
            if end > first:
                break
            i += 1
        if added and author:
            _append(moved, (first + grown, added, author))
        at, grown = first + removed, grown + added - removed
    return tuple(moved)


def _append(spans: list[Span], span: Span) -> None:
    if spans and spans[-1][2] == span[2] and spans[-1][0] + spans[-1][1] == span[0]:
        first, count, author = spans.pop()
        span = (first, count + span[1], author)
    spans.append(span)


class Authorship:
    """The authors of the lines in files.

    `contents` maps each path to the spans of each known version of the file, by SHA-256. `newest`
    maps each path to the SHA-256 of the version that was seen last. `shipped` contains the authors
    of lines that were written before the last commit.
    """

    def __init__(self) -> None:
        self.contents: dict[str, dict[str, tuple[Span, ...]]] = {}
        self.newest: dict[str, str] = {}
        self.shipped: set[str] = set()

    def spans(self, path: str, content: str) -> tuple[Span, ...]:
        return self.contents.get(path, {}).get(content, ())

    def knows(self, path: str, content: str) -> bool:
        return content in self.contents.get(path, {})

    def see(self, path: str, content: str) -> None:
        """Record that a file was seen with this content; the authors of its lines do not change."""
        self.contents.setdefault(path, {}).setdefault(content, ())
        self.newest[path] = content

    def edit(self, path: str, edit: LineEdit) -> None:
        spans = self.spans(edit.source or path, edit.before)
        known = self.contents.setdefault(path, {})
        known.pop(edit.after, None)
        known[edit.after] = move_spans(spans, edit.hunks, edit.author)
        while len(known) > CONTENTS_MAX:
            del known[next(iter(known))]
        self.newest[path] = edit.after

    def remove(self, path: str) -> None:
        """Record that a file was deleted. Its versions stay known, because it may be restored."""
        self.newest.pop(path, None)

    def ship(self) -> None:
        """Restart the count of lines, because the lines so far were committed."""
        for path, content in self.newest.items():
            spans = self.contents[path][content]
            self.shipped.update(author for _, _, author in spans if author != OTHERS)
            self.contents[path][content] = tuple(s for s in spans if s[2] != OTHERS)

    def count(self, path: str) -> LineCounts:
        """Count the lines of a file's newest version that were written since the last commit."""
        spans = self.spans(path, self.newest.get(path, ""))
        agent = sum(n for _, n, author in spans if author not in (OTHERS, *self.shipped))
        return LineCounts(agent=agent, others=sum(n for _, n, author in spans if author == OTHERS))

    def total(self) -> LineCounts:
        """Count the lines of all files in which calls wrote lines since the last commit."""
        counts = [count for count in map(self.count, self.newest) if count.agent]
        return LineCounts(
            agent=sum(count.agent for count in counts), others=sum(count.others for count in counts)
        )

    def read(self, line: Json) -> None:
        """Apply an `attribution-snapshot` line; malformed parts of it are skipped."""
        for path, state in object_of(line.get("fileStates")).items():
            content = text_of(object_of(state).get("contentHash"))
            edits = [*_edits(object_of(state), content)]
            for edit in edits:
                self.edit(path, edit)
            if not content:
                self.remove(path)
            elif not edits:
                self.see(path, content)
        if "commit" in line:
            self.ship()


def encode_file(content: str, edits: Sequence[LineEdit], count: LineCounts) -> Json:
    """Return a file's state as a line records it; an empty `content` means that it was deleted."""
    if not content:
        return {"contentHash": ""}
    return {
        "contentHash": content,
        "agentLines": count.agent,
        "otherLines": count.others,
        "edits": [
            {
                "by": edit.author,
                "from": edit.before,
                **({"path": edit.source} if edit.source else {}),
                "hunks": edit.hunks,
            }
            for edit in edits
        ],
    }


def _edits(state: Json, content: str) -> Iterator[LineEdit]:
    listed = [object_of(edit) for edit in list_of(state.get("edits"))] if content else []
    afters = [*(text_of(edit.get("from")) for edit in listed[1:]), content]
    for edit, after in zip(listed, afters, strict=False):
        hunks = _hunks(edit.get("hunks"))
        if after and hunks is not None:
            yield LineEdit(
                author=text_of(edit.get("by")),
                before=text_of(edit.get("from")),
                after=after,
                hunks=hunks,
                source=text_of(edit.get("path")),
            )


def _hunks(value: Any) -> tuple[Hunk, ...] | None:
    """Parse the hunks of a record; return None if they are malformed or out of order."""
    hunks: list[Hunk] = []
    at = 0
    for listed in map(list_of, list_of(value)):
        if len(listed) != 3 or not all(type(n) is int and 0 <= n < END for n in listed):
            return None
        first, removed, added = listed
        if first < at:
            return None
        at = first + removed
        hunks.append((first, removed, added))
    return tuple(hunks)
