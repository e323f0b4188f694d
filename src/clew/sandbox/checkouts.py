"""What git keeps outside a checkout, and what leads it there: a commit writes the one, nobody the other.

Owns where a linked checkout's own folders lie (gitrepository-layout(5)). A checkout that does not stand
in the repository's list, where only the repository's owner could write it, opens nothing.

Decision: docs/decisions/131-sandbox.md
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from clew.config.regular import content
from clew.config.there import is_file, is_folder

LINE_BYTES = 4_096
# Of an agent's own checkouts, below the folder of the project.
OWN = ".claude/worktrees"
# Of a folder of git's: whoever may write these has git read a configuration of his own.
LEADING = ("commondir", "config.worktree")


def written_by_commits(root: str) -> list[str]:
    """What a commit in the checkout `root` writes outside of it: objects, branches, its own index."""
    found = linked(Path(root))
    if found is None:
        return []
    own, common = found
    return [str(own), *(str(common / name) for name in ("objects", "refs", "logs"))]


def linked(root: Path) -> tuple[Path, Path] | None:
    """The folder of git's that is a linked checkout's own, and the one that all share."""
    try:
        word, _, name = line(root / ".git").partition(" ")
        own = Path(root, name).resolve(strict=True)
        common = Path(own, line(own / "commondir")).resolve(strict=True)
        back = Path(own, line(own / "gitdir")).resolve(strict=True)
    except (OSError, ValueError):
        return None
    is_listed = word == "gitdir:" and own.parent == common / "worktrees"
    return (own, common) if is_listed and back == (root / ".git").resolve() else None


def line(path: Path) -> str:
    return content(path, LINE_BYTES).decode("utf-8").strip()


def pointers(roots: Iterable[str]) -> Iterator[Path]:
    """What leads git to a configuration, in all that may be written; some of it may not be there."""
    for root in map(Path, roots):
        for checkout in (root, *entries(root / OWN)):
            if is_file(checkout / ".git"):
                yield checkout / ".git"
        for own in (root / ".git", *entries(root / ".git" / "worktrees"), root):
            if is_file(own / "HEAD"):
                yield from (own / name for name in LEADING)
                if own.parent.name == "worktrees":
                    yield own / "gitdir"


def entries(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if is_folder(path)]
    except OSError:
        return []
