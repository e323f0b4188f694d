"""A session in a checkout of its own, which git makes: entered before the session, left after it.

A checkout of the same name is gone on with. One that this run made and nothing came of is taken away again.
"""

import asyncio
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

from msgspec.structs import replace

from clew.messages.errors import ClewError, UserError
from clew.options import Options
from clew.process.spawn import Launcher
from clew.subagents.worktree import FOLDER, Git, Worktree, again, beginning, clear, make

Json: TypeAlias = dict[str, Any]

# What git takes as the last part of a branch's name, and every file system as a folder's.
NAME = re.compile(r"(?!.*\.\.)(?!.*\.lock\Z)[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9_-])?")
TAKES = (
    "a name is of letters, digits, dots, dashes and underscores, 64 at most; it begins with a letter "
    "or digit, has no two dots in a row, and ends neither in a dot nor in .lock"
)


def within(options: Options, run: Callable[[Options], int]) -> int:
    """Runs a session in the checkout that the options name; its exit code."""
    assert options.worktree is not None
    before = Path.cwd()
    name = options.worktree["worktreeName"] or f"session-{uuid4().hex[:8]}"
    if not NAME.fullmatch(name):
        tell(f"--worktree {name}: {TAKES}")
        return 1
    if "GIT_DIR" not in os.environ and not is_repository(before):
        tell(f"--worktree: {before} is in no git repository, and a checkout is of one")
        return 1
    try:
        tree, is_new, record = asyncio.run(entered(str(before), name))
    except ClewError as error:
        tell(f"--worktree: {error}")
        return 1
    below = Path(tree.path, before.resolve().relative_to(Path(tree.repository).resolve()))
    os.chdir(below if below.is_dir() else tree.path)
    try:
        return run(replace(options, worktree=record))
    finally:
        os.chdir(before)
        if is_new:
            asyncio.run(left(tree))


def is_repository(folder: Path) -> bool:
    return any((one / ".git").exists() for one in (folder, *folder.parents))


async def entered(cwd: str, name: str) -> tuple[Worktree, bool, Json]:
    """The checkout, whether it is new, and how the log names it."""
    launcher = Launcher()
    try:
        git = Git(launcher, os.environ)
        root = Path((await git(cwd, "rev-parse", "--show-toplevel")).strip())
        path, branch = root / FOLDER / name, f"clew/{name}"
        head = await beginning(git, cwd, root)
        on = (await git(cwd, "rev-parse", "--abbrev-ref", "HEAD")).strip()
        tree = Worktree(path=str(path), branch=branch, base=head, repository=str(root))
        is_new = not (path / ".git").exists()
        if is_new and await git(cwd, "branch", "--list", branch):
            is_new = False
            await again(git, tree)
        elif is_new:
            tree = await make(git, cwd, name)
    finally:
        await launcher.aclose()
    record = {
        "originalCwd": cwd,
        "worktreePath": tree.path,
        "worktreeName": name,
        "worktreeBranch": branch,
        "originalBranch": on,
        "originalHeadCommit": head,
    }
    return tree, is_new, record


async def left(tree: Worktree) -> None:
    """Takes the checkout away if nothing came of it; else says where it is."""
    launcher = Launcher()
    try:
        is_gone = await clear(Git(launcher, os.environ), tree)
        why = ""
    except UserError as error:
        is_gone, why = False, f" ({error})"
    finally:
        await launcher.aclose()
    if not is_gone:
        tell(f"kept: {tree.path}, on the branch {tree.branch}{why}")


def tell(words: str) -> None:
    sys.stderr.write(f"clew: {words}\n")
