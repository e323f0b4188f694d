"""A checkout of its own for an agent: made beside the repository's, kept if something came of it.

Owns `<repository>/.claude/worktrees/<name>` and the branch of the same name. Never throws work away:
what is not committed, or committed on the branch alone, keeps both.
"""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from clew.core.messages.errors import UserError
from clew.system.config.git_config import show_name
from clew.system.config.git_guard import OWN_GIT, find_started_programs
from clew.system.files import is_there
from clew.system.process.output import ProcessOutput
from clew.system.process.run import run
from clew.system.process.spawn import Launcher

# Of the commit at which a checkout began.
UNKNOWN = "unknown"
FOLDER = Path(".claude", "worktrees")
KEEP_BYTES = 64 * 1024
TIMEOUT_S = 60.0
# Folders that tools fill by themselves, where git ignores them: nobody misses what stands in these.
MADE_ANEW = frozenset(
    {
        "__pycache__", "node_modules", ".venv", "venv", ".pytest_cache", ".mypy_cache", ".ruff_cache",
        ".hypothesis", ".tox", ".nox", ".gradle", ".turbo", ".next", "target",
    }
)  # fmt: skip
# Subcommands that read or write files, and so start filters and merge drivers.
_OF_FILES = frozenset({"add", "commit", "diff", "merge", "status", "worktree"})


class Worktree(Struct, frozen=True, kw_only=True):
    """`base` is the commit it began at."""

    path: str
    branch: str
    base: str
    repository: str


class Git:
    """Git in a folder; what it complains about is a `UserError`."""

    def __init__(self, launcher: Launcher, environ: Mapping[str, str]) -> None:
        self._launcher = launcher
        self._environ = {**environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C.UTF-8"}

    async def __call__(self, folder: str, *arguments: str) -> str:
        if arguments[0] in _OF_FILES and (
            programs := find_started_programs(self._environ, Path(folder))
        ):
            raise UserError(
                f"{folder} is not trusted, and its repository names programs that git would start: "
                f"{', '.join(map(show_name, programs))}. Trust it first (clew config trust), or take these "
                "settings out"
            )
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
            raise UserError(f"git cannot be run: {error}") from None
        if ended.timed_out or ended.exit.code != 0:
            why = bytes(complained.head).decode("utf-8", "replace").strip() or "it failed"
            raise UserError(f"git {arguments[0]}: {why}")
        return bytes(output.head).decode("utf-8", "replace")


def checkout_of(folder: str, name: str) -> Worktree | None:
    """The checkout of that name that a folder is in. Where it began is not known, so it counts as changed."""
    repository, separator, _ = folder.partition(f"/{FOLDER}/{name}")
    if not separator:
        return None
    branch = branch_of(name)
    return Worktree(path=repository + separator, branch=branch, base=UNKNOWN, repository=repository)


def branch_of(name: str) -> str:
    return f"clew/{name}"


async def make(git: Git, cwd: str, name: str) -> Worktree:
    """A new checkout of what is committed, on a branch of its own."""
    root = Path((await git(cwd, "rev-parse", "--show-toplevel")).strip())
    base = await find_base_commit(git, cwd, root)
    path, branch = root / FOLDER / name, branch_of(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    ignore = path.parent / ".gitignore"
    if not is_there(ignore):
        # Other people's status is no place for it.
        ignore.write_text("*\n", "utf-8")
    await git(str(root), "worktree", "add", "-b", branch, str(path), base)
    return Worktree(path=str(path), branch=branch, base=base, repository=str(root))


async def find_base_commit(git: Git, cwd: str, root: Path) -> str:
    """The commit that a new checkout begins at."""
    base = await resolve_commit(git, cwd, "HEAD")
    if not base:
        raise UserError(f"a checkout begins at a commit, and {root} has none yet")
    return base


async def resolve_commit(git: Git, folder: str, name: str) -> str:
    """The commit that something is called; empty where nothing is called so."""
    try:
        return (await git(folder, "rev-parse", "--quiet", "--verify", f"{name}^{{commit}}")).strip()
    except UserError:
        return ""


async def restore_checkout(git: Git, tree: Worktree) -> None:
    """The checkout once more, after it was taken away."""
    await git(tree.repository, "worktree", "prune")
    if await git(tree.repository, "branch", "--list", tree.branch):
        await git(tree.repository, "worktree", "add", tree.path, tree.branch)
    else:
        await git(tree.repository, "worktree", "add", "-b", tree.branch, tree.path, tree.base)


async def is_touched(git: Git, tree: Worktree) -> bool:
    """Whether anything stands in it that stands nowhere else; files that git ignores count, less those that
    tools make anew."""
    head = (await git(tree.path, "rev-parse", "HEAD")).strip()
    if head != tree.base:
        return True
    status = await git(tree.path, "status", "--porcelain", "--ignored")
    return any(
        not (line.startswith("!! ") and line[3:].strip('"/').rpartition("/")[2] in MADE_ANEW)
        for line in status.splitlines()
    )


async def remove(git: Git, tree: Worktree, *, by_force: bool = False) -> None:
    """Takes the checkout and its branch away; by force also with what stands in them."""
    force = ("--force",) if by_force else ()
    await git(tree.repository, "worktree", "remove", *force, tree.path)
    await git(tree.repository, "branch", "-D" if by_force else "-d", tree.branch)


async def clear(git: Git, tree: Worktree) -> bool:
    """Removes it if nothing came of it; False if it is kept."""
    if await is_touched(git, tree):
        return False
    await remove(git, tree)
    return True


async def merge(git: Git, tree: Worktree, message: str) -> str:
    """Brings what came of it into the repository's own checkout, and takes it away; what git said.

    What is not committed is committed on its branch first. A merge with conflicts is undone; one of a
    person's own is never touched.
    """
    if await resolve_commit(git, tree.repository, "MERGE_HEAD"):
        raise UserError(f"a merge is going on in {tree.repository}; end it first")
    if await git(tree.path, "status", "--porcelain"):
        await git(tree.path, "add", "--all")
        await git(tree.path, "commit", "--no-verify", "-m", message)
    try:
        output = await git(tree.repository, "merge", "--no-edit", tree.branch)
    except UserError as error:
        try:
            # The last one ends with the mark as well.
            torn = (
                await git(tree.repository, "diff", "--name-only", "--diff-filter=U", "-z")
            ).split("\0")[:-1]
        finally:
            await undone(git, tree)
        if not torn:
            raise
        raise UserError(
            f"{tree.branch} cannot be merged, there are conflicts in {', '.join(torn)}. The merge is undone, "
            f"and the checkout stays as it is. Do it by hand (git merge {tree.branch}, resolve them, git "
            "commit), and /agents merge once more takes the checkout away"
        ) from error
    try:
        await remove(git, tree, by_force=True)
    except UserError as error:
        return f"{output.strip()}\nIt is merged; the checkout {tree.path} stays: {error}"
    return output.strip()


async def undone(git: Git, tree: Worktree) -> None:
    """Undoes a merge that stopped half-way; one that never began needs nothing."""
    try:
        await git(tree.repository, "merge", "--abort")
    except UserError:
        return
