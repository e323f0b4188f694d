"""Git worktrees for agents, kept only if they contain work.

Owns `<repository>/.claude/worktrees/<name>` and its branch `clew/<name>`. Never discards work: a
worktree with uncommitted changes, or with commits that are only on its branch, is kept.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from clew.core.messages.errors import UserError
from clew.system.config.git_guard import (
    OWN_GIT,
    find_started_programs,
    is_trusted_folder,
    why_untrusted,
)
from clew.system.files import is_there
from clew.system.process.output import ProcessOutput
from clew.system.process.run import run
from clew.system.process.spawn import Launcher

# The base of a worktree whose first commit is unknown.
UNKNOWN = "unknown"
COMMIT = re.compile(r"[0-9a-f]{40,64}")
FOLDER = Path(".claude", "worktrees")
KEEP_BYTES = 64 * 1024
TIMEOUT_S = 60.0
# Folders that tools generate; if git ignores them, their contents may be deleted.
MADE_ANEW = frozenset(
    {
        "__pycache__", "node_modules", ".venv", "venv", ".pytest_cache", ".mypy_cache", ".ruff_cache",
        ".hypothesis", ".tox", ".nox", ".gradle", ".turbo", ".next", "target",
    }
)  # fmt: skip
# Subcommands that read or write files, and therefore run filters and merge drivers.
_OF_FILES = frozenset({"add", "commit", "diff", "merge", "status", "worktree"})


class Worktree(Struct, frozen=True, kw_only=True):
    """A worktree; `base` is the commit it was created from."""

    path: str
    branch: str
    base: str
    repository: str


class Git:
    """Runs git in a folder; errors from git are raised as `UserError`."""

    def __init__(self, launcher: Launcher, environ: Mapping[str, str]) -> None:
        self._launcher = launcher
        self._environ = {**environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C.UTF-8"}

    def trusts(self, folder: str) -> bool:
        return is_trusted_folder(self._environ, Path(folder))

    async def __call__(self, folder: str, *arguments: str) -> str:
        if arguments[0] in _OF_FILES and (
            programs := find_started_programs(self._environ, Path(folder))
        ):
            raise UserError(why_untrusted(folder, programs))
        output, complained = ProcessOutput(keep_bytes=KEEP_BYTES), ProcessOutput(keep_bytes=2000)
        try:
            ended = await run(
                self._launcher,
                [*OWN_GIT, *arguments],
                cwd=folder,
                env=self._environ,
                stdout=output,
                stderr=complained,
                timeout_s=TIMEOUT_S,
            )
        except OSError as error:
            raise UserError(f"can't run git: {error}") from None
        if ended.timed_out or ended.exit.code != 0:
            why = bytes(complained.head).decode("utf-8", "replace").strip() or "it failed"
            raise UserError(f"git {arguments[0]}: {why}")
        return bytes(output.head).decode("utf-8", "replace")


def is_own(tree: Worktree, name: str) -> bool:
    """Return whether clew could have made a worktree with this name.

    The fields may come from a session that someone else wrote, and name any folder and any branch.
    """
    place = Path(os.path.realpath(Path(tree.repository, FOLDER)), name)
    return (
        os.path.realpath(tree.path) == str(place)
        and tree.branch == branch_of(name)
        and (tree.base == UNKNOWN or COMMIT.fullmatch(tree.base) is not None)
    )


def ensure_inside(git: Git, root: str, cwd: str) -> None:
    """Raise `UserError` if worktrees of an untrusted repository would be outside it.

    The repository's settings may name another working tree, and the folder for worktrees may be a
    link.
    """
    real = Path(os.path.realpath(root))
    folder = os.path.realpath(Path(root, FOLDER))
    is_inside = Path(os.path.realpath(cwd)).is_relative_to(real) and folder == str(real / FOLDER)
    if not is_inside and not git.trusts(root):
        raise UserError(
            f"can't use worktrees of {root}: they would be outside it, in {folder}, and {root} is not "
            "trusted. Trust it first (clew config trust)"
        )


def checkout_of(folder: str, name: str) -> Worktree | None:
    """Return the worktree with this name if `folder` is inside it, else None.

    Its base commit is unknown, so the worktree is treated as changed.
    """
    repository, separator, _ = folder.partition(f"/{FOLDER}/{name}")
    if not separator:
        return None
    branch = branch_of(name)
    return Worktree(path=repository + separator, branch=branch, base=UNKNOWN, repository=repository)


def branch_of(name: str) -> str:
    return f"clew/{name}"


async def make(git: Git, cwd: str, name: str) -> Worktree:
    """Create a worktree with a new branch that begins at the last commit."""
    root = Path((await git(cwd, "rev-parse", "--show-toplevel")).strip())
    ensure_inside(git, str(root), cwd)
    base = await find_base_commit(git, cwd, root)
    path, branch = root / FOLDER / name, branch_of(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    ignore = path.parent / ".gitignore"
    if not is_there(ignore):
        # Hide it from `git status` without touching the repository's own .gitignore.
        ignore.write_text("*\n", "utf-8")
    await git(str(root), "worktree", "add", "-b", branch, str(path), base)
    return Worktree(path=str(path), branch=branch, base=base, repository=str(root))


async def find_base_commit(git: Git, cwd: str, root: Path) -> str:
    """Return the commit that a new worktree is based on."""
    base = await resolve_commit(git, cwd, "HEAD")
    if not base:
        raise UserError(f"can't create a worktree: {root} has no commits yet")
    return base


async def resolve_commit(git: Git, folder: str, name: str) -> str:
    """Return the commit that a name resolves to, or an empty string."""
    try:
        return (await git(folder, "rev-parse", "--quiet", "--verify", f"{name}^{{commit}}")).strip()
    except UserError:
        return ""


async def restore_checkout(git: Git, tree: Worktree) -> None:
    """Create a worktree again after it was removed."""
    ensure_inside(git, tree.repository, tree.repository)
    await git(tree.repository, "worktree", "prune")
    if await git(tree.repository, "branch", "--list", tree.branch):
        await git(tree.repository, "worktree", "add", tree.path, tree.branch)
    else:
        await git(tree.repository, "worktree", "add", "-b", tree.branch, tree.path, tree.base)


async def is_touched(git: Git, tree: Worktree) -> bool:
    """Return whether the worktree may contain anything that exists nowhere else.

    This includes ignored files, except those in folders that tools can generate again.
    """
    head = (await git(tree.path, "rev-parse", "HEAD")).strip()
    if head != tree.base:
        return True
    status = await git(tree.path, "status", "--porcelain", "--ignored")
    return any(
        not (line.startswith("!! ") and line[3:].strip('"/').rpartition("/")[2] in MADE_ANEW)
        for line in status.splitlines()
    )


async def remove(git: Git, tree: Worktree, *, by_force: bool = False) -> None:
    """Remove the worktree and its branch; with `by_force`, even if they contain work."""
    force = ("--force",) if by_force else ()
    await git(tree.repository, "worktree", "remove", *force, tree.path)
    await git(tree.repository, "branch", "-D" if by_force else "-d", tree.branch)


async def clear(git: Git, tree: Worktree) -> bool:
    """Remove the worktree if it contains no work; return whether it was removed."""
    if await is_touched(git, tree):
        return False
    await remove(git, tree)
    return True


async def merge(git: Git, tree: Worktree, message: str) -> str:
    """Merge the branch into the repository's checkout; remove the worktree; return git's output.

    Uncommitted changes are committed to the branch first. A merge with conflicts is aborted; a
    merge that the user has in progress is never touched.
    """
    if await resolve_commit(git, tree.repository, "MERGE_HEAD"):
        raise UserError(f"a merge is in progress in {tree.repository}; finish it first")
    if await git(tree.path, "status", "--porcelain"):
        await git(tree.path, "add", "--all")
        await git(tree.path, "commit", "--no-verify", "-m", message)
    try:
        output = await git(tree.repository, "merge", "--no-edit", tree.branch)
    except UserError as error:
        try:
            # The last element is empty.
            torn = (
                await git(tree.repository, "diff", "--name-only", "--diff-filter=U", "-z")
            ).split("\0")[:-1]
        finally:
            await undone(git, tree)
        if not torn:
            raise
        raise UserError(
            f"can't merge {tree.branch}: conflicts in {', '.join(torn)}. The merge was aborted and the worktree is "
            f"unchanged. Merge by hand (git merge {tree.branch}, resolve the conflicts, git commit), then "
            "run /agents merge again to remove the worktree"
        ) from error
    try:
        await remove(git, tree, by_force=True)
    except UserError as error:
        return f"{output.strip()}\nMerged, but the worktree {tree.path} can't be removed: {error}"
    return output.strip()


async def undone(git: Git, tree: Worktree) -> None:
    """Abort a merge that stopped halfway; do nothing if it never started."""
    try:
        await git(tree.repository, "merge", "--abort")
    except UserError:
        return
