"""Parse git's output and summarize it for the model; the module `git` runs the commands."""

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

from msgspec import Struct

# Changed files, lines and hunks, parsed from `git diff`.


Status: TypeAlias = Literal["added", "modified", "removed", "renamed"]

STATUS: dict[str, Status] = {"A": "added", "C": "added", "D": "removed", "R": "renamed"}


class Hunk(Struct, frozen=True, kw_only=True, rename="camel"):
    """A hunk of a diff; each line begins with a space, `+` or `-`."""

    old_start: int
    old_lines: int
    new_start: int
    new_lines: int
    lines: tuple[str, ...]


class GitChange(Struct, frozen=True, kw_only=True):
    """A changed file; `previous` is its former name if it was renamed."""

    path: str
    status: Status
    previous: str = ""
    added: int = 0
    removed: int = 0
    is_binary: bool = False
    is_untracked: bool = False
    # None if the hunks were not read, or not completely.
    hunks: tuple[Hunk, ...] | None = ()


def read_changes(output: bytes, *, is_cut: bool = False) -> list[GitChange]:
    """Parse the output of `git diff --raw --numstat -p -z`; return the changes in git's order.

    If the output is truncated, the last file gets no hunks.
    """
    records, patch = split(output)
    names, counts = read_records(records)
    if is_cut:
        # The last file's hunks are incomplete, and how much is missing is unknown.
        patch = patch[: patch.rfind(b"\ndiff --git ") + 1]
    hunks = list(sections(patch))
    changes: list[GitChange] = []
    for (kind, previous, path), (added, removed) in zip(names, counts, strict=False):
        # A change between a file and a symlink appears as two patches: one deletion and one
        # addition.
        own = [hunks.pop(0) for _ in range(2 if kind == "T" else 1) if hunks]
        changes.append(
            GitChange(
                path=path,
                status=STATUS.get(kind, "modified"),
                previous=previous,
                added=added or 0,
                removed=removed or 0,
                is_binary=added is None,
                hunks=tuple(hunk for hunks in own for hunk in hunks) if own else None,
            )
        )
    return changes


def split(output: bytes) -> tuple[list[bytes], bytes]:
    """Split the output into the records and the patch, which are separated by an empty record."""
    records: list[bytes] = []
    at = 0
    while (end := output.find(b"\0", at)) >= 0:
        record = output[at:end]
        at = end + 1
        if not record:
            return records, output[at:]
        records.append(record)
    return records, b""


Named: TypeAlias = tuple[str, str, str]
Counted: TypeAlias = tuple[int | None, int | None]


def read_records(records: list[bytes]) -> tuple[list[Named], list[Counted]]:
    """Return two lists with an item for each change: kind and names, and counts of changed lines.

    The first list has the kind, the previous name (empty unless the file was renamed) and the name.
    The second has the numbers of added and removed lines, which are None for a binary file.
    """
    names: list[Named] = []
    counts: list[Counted] = []
    rest = iter(records)
    for record in rest:
        if record.startswith(b":") and not counts:
            kind = record.rpartition(b" ")[2][:1].decode("ascii", "replace")
            before = text(next(rest, b"")) if kind in ("R", "C") else ""
            names.append((kind, before, text(next(rest, b""))))
        else:
            added, removed, name = (*record.split(b"\t", 2), b"", b"")[:3]
            counts.append((number(added), number(removed)))
            if not name:
                next(rest, None)
                next(rest, None)
    return names, counts


def number(word: bytes) -> int | None:
    return int(word) if word.isdigit() else None


def text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def sections(patch: bytes) -> Iterator[list[Hunk]]:
    """Yield the hunks of each file in a patch."""
    hunks: list[Hunk] | None = None
    lines = iter(patch.split(b"\n"))
    for line in lines:
        if line.startswith(b"diff --git "):
            if hunks is not None:
                yield hunks
            hunks = []
        elif line.startswith(b"@@ ") and hunks is not None:
            hunks.append(read_hunk(line, lines))
    if hunks is not None:
        yield hunks


def read_hunk(head: bytes, lines: Iterator[bytes]) -> Hunk:
    """Parse one hunk.

    The line counts in its header determine where the hunk ends, so a line of content is never taken
    for a header.
    """
    old_start, old_lines, new_start, new_lines = ranges(head)
    old, new = old_lines, new_lines
    hunk_lines: list[str] = []
    while (old > 0 or new > 0) and (line := next(lines, None)) is not None:
        mark = line[:1] or b" "  # git may omit the space of an empty line
        if mark == b"\\":
            continue
        old -= mark != b"+"
        new -= mark != b"-"
        hunk_lines.append(text(line) or " ")
    return Hunk(
        old_start=old_start,
        old_lines=old_lines,
        new_start=new_start,
        new_lines=new_lines,
        lines=tuple(hunk_lines),
    )


def ranges(head: bytes) -> tuple[int, int, int, int]:
    """Parse `@@ -1,7 +1,6 @@` into four numbers; an omitted count is 1."""
    _, before, after, *_ = head.split(b" ", 3)
    old, _, old_lines = before[1:].partition(b",")
    new, _, new_lines = after[1:].partition(b",")
    return int(old), int(old_lines or b"1"), int(new), int(new_lines or b"1")


def describe_untracked(path: str, data: bytes | None) -> GitChange:
    """Return an untracked file as an addition; `data` is None if it is too large to read."""
    if data is None or b"\0" in data[:8000]:
        return GitChange(
            path=path, status="added", is_untracked=True, is_binary=data is not None,
            hunks=None if data is None else (),
        )  # fmt: skip
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    hunk = Hunk(
        old_start=0,
        old_lines=0,
        new_start=1,
        new_lines=len(lines),
        lines=tuple(f"+{text(line)}" for line in lines),
    )
    return GitChange(
        path=path,
        status="added",
        is_untracked=True,
        added=len(lines),
        hunks=(hunk,) if lines else (),
    )


MAX_PATHS = 40
MAX_TOLD = 4000
FIELD = "\x1f"


class Commit(Struct, frozen=True, kw_only=True):
    """One commit in the log."""

    hash: str
    author: str
    at: str
    subject: str


class Report(Struct, frozen=True, kw_only=True):
    """The state of a repository; paths are relative to its root, as git prints them."""

    branch: str
    main_branch: str = ""
    staged: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()
    untracked: tuple[str, ...] = ()
    conflicted: tuple[str, ...] = ()
    ahead: int = 0
    behind: int = 0
    commits: tuple[Commit, ...] = ()
    # Git was stopped before it had listed everything.
    is_cut: bool = False


def read_status(output: str) -> Report:
    """Parse the output of `git status --porcelain=v2 --branch -z`."""
    groups: dict[str, list[str]] = {"staged": [], "modified": [], "untracked": [], "conflicted": []}
    branch, ahead, behind = "HEAD", 0, 0
    records = iter(output.split("\0"))
    for record in records:
        kind, _, rest = record.partition(" ")
        if kind == "#":
            name, _, value = rest.partition(" ")
            if name == "branch.head":
                branch = "HEAD" if value == "(detached)" else value
            elif name == "branch.ab":
                ahead, behind = _ahead_behind(value)
        else:
            _read_path(kind, rest, groups, records)
    return Report(
        branch=branch,
        ahead=ahead,
        behind=behind,
        staged=tuple(groups["staged"]),
        modified=tuple(groups["modified"]),
        untracked=tuple(groups["untracked"]),
        conflicted=tuple(groups["conflicted"]),
    )


def _ahead_behind(value: str) -> tuple[int, int]:
    numbers = [word.lstrip("+-") for word in value.split()]
    if len(numbers) != 2 or not all(number.isdigit() for number in numbers):
        return 0, 0
    return int(numbers[0]), int(numbers[1])


def _read_path(kind: str, rest: str, groups: dict[str, list[str]], records: Iterator[str]) -> None:
    if kind == "?":
        groups["untracked"].append(rest)
        return
    fields = {"1": 8, "2": 9, "u": 10}.get(kind)
    parts = rest.split(" ", (fields or 1) - 1)
    if fields is None or len(parts) < fields:
        return
    state, path = parts[0], parts[-1]
    if kind == "2":
        next(records, "")  # the previous name
    if kind == "u":
        groups["conflicted"].append(path)
        return
    if state[:1] != ".":
        groups["staged"].append(path)
    if state[1:2] != ".":
        groups["modified"].append(path)


def read_log(output: str) -> tuple[Commit, ...]:
    """Parse the output of `git log -z`, with four fields per commit."""
    commits = []
    for record in output.split("\0"):
        parts = record.strip("\n").split(FIELD)
        if len(parts) == 4:
            commits.append(Commit(hash=parts[0], author=parts[1], at=parts[2], subject=parts[3]))
    return tuple(commits)


def format_report(report: Report) -> str:
    """Return the report as text, truncated if it is long, with the number of omitted entries."""
    lines = [f"Branch: {report.branch}"]
    if report.ahead or report.behind:
        lines[0] += f" ({report.ahead} ahead, {report.behind} behind its upstream)"
    if report.main_branch:
        lines.append(f"Main branch: {report.main_branch}")
    parts = ("conflicted", "staged", "modified", "untracked")
    for name in parts:
        lines += _listed(name.capitalize(), getattr(report, name))
    if not any(getattr(report, name) for name in parts):
        lines.append(
            "Working tree: unknown (git did not finish)" if report.is_cut else "Working tree: clean"
        )
    elif report.is_cut:
        lines.append("(incomplete: git was stopped)")
    if report.commits:
        lines.append("Recent commits:")
        lines += [f"  {c.hash} {c.at} {c.author}: {c.subject[:120]}" for c in report.commits]
    return "\n".join(lines)[:MAX_TOLD]


def _listed(title: str, paths: Iterable[str]) -> list[str]:
    names = list(paths)
    if not names:
        return []
    lines = [f"  {_visible(path)}" for path in names[:MAX_PATHS]]
    left = [f"  ... and {len(names) - MAX_PATHS} more"] if len(names) > MAX_PATHS else []
    return [f"{title}:", *lines, *left]


def _visible(path: str) -> str:
    """Return a path on one line, with unprintable characters escaped."""
    return path if path.isprintable() else repr(path)
