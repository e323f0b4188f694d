"""What git says about a folder, read from its output and told to the model. Pure: who runs git is `git`."""

from collections.abc import Iterable, Iterator

from msgspec import Struct

MAX_PATHS = 40
MAX_TOLD = 4000
FIELD = "\x1f"


class Commit(Struct, frozen=True, kw_only=True):
    """One commit of the history."""

    hash: str
    author: str
    at: str
    subject: str


class Report(Struct, frozen=True, kw_only=True):
    """The state of a repository; paths as git prints them, from the repository's root."""

    branch: str
    main_branch: str = ""
    staged: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()
    untracked: tuple[str, ...] = ()
    conflicted: tuple[str, ...] = ()
    ahead: int = 0
    behind: int = 0
    commits: tuple[Commit, ...] = ()
    # Git was stopped before it had said everything.
    is_cut: bool = False


def read_status(output: str) -> Report:
    """The output of `git status --porcelain=v2 --branch -z`."""
    found: dict[str, list[str]] = {"staged": [], "modified": [], "untracked": [], "conflicted": []}
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
            _read_path(kind, rest, found, records)
    return Report(
        branch=branch,
        ahead=ahead,
        behind=behind,
        staged=tuple(found["staged"]),
        modified=tuple(found["modified"]),
        untracked=tuple(found["untracked"]),
        conflicted=tuple(found["conflicted"]),
    )


def _ahead_behind(value: str) -> tuple[int, int]:
    numbers = [word.lstrip("+-") for word in value.split()]
    if len(numbers) != 2 or not all(number.isdigit() for number in numbers):
        return 0, 0
    return int(numbers[0]), int(numbers[1])


def _read_path(kind: str, rest: str, found: dict[str, list[str]], records: Iterator[str]) -> None:
    if kind == "?":
        found["untracked"].append(rest)
        return
    fields = {"1": 8, "2": 9, "u": 10}.get(kind)
    parts = rest.split(" ", (fields or 1) - 1)
    if fields is None or len(parts) < fields:
        return
    state, path = parts[0], parts[-1]
    if kind == "2":
        next(records, "")  # where it was before
    if kind == "u":
        found["conflicted"].append(path)
        return
    if state[:1] != ".":
        found["staged"].append(path)
    if state[1:2] != ".":
        found["modified"].append(path)


def read_log(output: str) -> tuple[Commit, ...]:
    """The output of `git log -z` with the four fields behind one another."""
    commits = []
    for record in output.split("\0"):
        parts = record.strip("\n").split(FIELD)
        if len(parts) == 4:
            commits.append(Commit(hash=parts[0], author=parts[1], at=parts[2], subject=parts[3]))
    return tuple(commits)


def told(report: Report) -> str:
    """The report in words, bounded, with how much was left out."""
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
            "Working tree: not looked at to the end" if report.is_cut else "Working tree: clean"
        )
    elif report.is_cut:
        lines.append("(git was stopped before it had listed everything)")
    if report.commits:
        lines.append("Recent commits:")
        lines += [f"  {c.hash} {c.at} {c.author}: {c.subject[:120]}" for c in report.commits]
    return "\n".join(lines)[:MAX_TOLD]


def _listed(title: str, paths: Iterable[str]) -> list[str]:
    given = list(paths)
    if not given:
        return []
    shown = [f"  {_visible(path)}" for path in given[:MAX_PATHS]]
    left = [f"  ... and {len(given) - MAX_PATHS} more"] if len(given) > MAX_PATHS else []
    return [f"{title}:", *shown, *left]


def _visible(path: str) -> str:
    """A path on one line, whatever its name holds."""
    return path if path.isprintable() else repr(path)
