"""The working folders of one repository, read from git's own files without asking git."""

from pathlib import Path

from clew.config.regular import content
from clew.config.there import is_folder, is_there


def worktrees(cwd: str) -> tuple[str, ...]:
    """This folder, and the same folder in each other worktree of its repository."""
    here = Path(cwd)
    root = next((folder for folder in (here, *here.parents) if is_there(folder / ".git")), None)
    if root is None:
        return (cwd,)
    common = _common(root / ".git")
    if common is None:
        return (cwd,)
    inside = here.relative_to(root)
    roots = [common.parent] if common.name == ".git" else []
    for link in sorted(common.glob("worktrees/*/gitdir")):
        place = _line(link)
        if place is not None:
            roots.append(Path(link.parent, place).parent)
    others = [str(other / inside) for other in roots if other.resolve() != root.resolve()]
    return (cwd, *dict.fromkeys(others))


def _common(git: Path) -> Path | None:
    """The repository's own folder, which all worktrees share."""
    if is_folder(git):
        return git
    said = _line(git)
    if said is None or not said.startswith("gitdir:"):
        return None
    mine = Path(git.parent, said.removeprefix("gitdir:").strip())
    up = _line(mine / "commondir")
    return None if up is None else Path(mine, up).resolve()


def _line(path: Path) -> str | None:
    try:
        return content(path).decode("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None
