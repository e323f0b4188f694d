"""Run a session in a worktree, which is made before the session and may be removed after it.

A hook or git creates the worktree. An existing worktree with the same name is reused. If a worktree
was created by this run and contains no work, it is removed, by git or by a hook. A worktree is
never removed if it contains work or if this is unknown.
"""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

from msgspec.structs import replace

from clew.agent.hooks.alone import open_hooks
from clew.agent.hooks.handlers import read_layers
from clew.agent.hooks.run import SessionHooks
from clew.agent.options import SOURCES, Options
from clew.agent.subagents.worktree import (
    FOLDER,
    Git,
    Worktree,
    clear,
    find_base_commit,
    is_touched,
    make,
    resolve_commit,
    restore_checkout,
)
from clew.core.json_object import Json
from clew.core.messages.errors import ClewError, UserError
from clew.parts.hooks import ignore_event
from clew.parts.plugins.part import load_plugins
from clew.permissions.session_rules import load_current_rules, read_command_line
from clew.system.files import is_folder, is_there
from clew.system.process.spawn import Launcher

NO_REPOSITORY = "is not in a git repository"

T = TypeVar("T")

# Valid as the last component of a git branch name, and as a folder name on every file system.
NAME = re.compile(r"(?!.*\.\.)(?!.*\.lock\Z)[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9_-])?")
TAKES = (
    "the name must consist of at most 64 letters, digits, dots, dashes and underscores, begin with a letter "
    "or digit, contain no two dots in a row, and not end in a dot or .lock"
)


def run_in_worktree(options: Options, run: Callable[[Options], int]) -> int:
    """Run a session in the worktree that the options name, and return its exit code."""
    assert options.worktree is not None
    before = Path.cwd()
    name = options.worktree["worktreeName"] or f"session-{uuid4().hex[:8]}"
    if not NAME.fullmatch(name):
        tell(f"--worktree {name}: {TAKES}")
        return 1
    try:
        hooks = Making(options, str(before))
        result = asyncio.run(hooks.made(name))
        if result is None and "GIT_DIR" not in os.environ and not is_repository(before):
            raise UserError(f"{before} {NO_REPOSITORY}")
        tree, is_new, record = result or asyncio.run(enter_worktree(str(before), name))
    except ClewError as error:
        tell(f"--worktree: {error}")
        return 1
    below = Path(tree.path, before.resolve().relative_to(Path(tree.repository).resolve()))
    os.chdir(below if is_folder(below) else tree.path)
    try:
        return run(replace(options, worktree=record))
    finally:
        os.chdir(before)
        if not tree.branch:
            asyncio.run(hooks.left(tree))
        elif is_new:
            asyncio.run(leave_worktree(tree))


class Making:
    """Makes and removes worktrees with the hooks in settings and plugins, outside of a session."""

    def __init__(self, options: Options, cwd: str) -> None:
        self._options = options
        self._cwd = cwd

    @asynccontextmanager
    async def _hooks(self) -> AsyncIterator[SessionHooks]:
        options = self._options
        sources = SOURCES if options.sources is None else options.sources
        own = read_command_line(options.settings, managed=options.managed)
        stood = load_current_rules(os.environ, Path(self._cwd), command_line=own, sources=sources)
        async with open_hooks(stood, read_layers(stood.layers)) as hooks:
            load_plugins(options, stood).hook(hooks, stood.layers)
            yield hooks

    async def made(self, name: str) -> tuple[Worktree, bool, Json] | None:
        """Run the hook that creates a worktree; return the worktree, or None without one."""
        async with self._hooks() as hooks:
            if not hooks.hears("WorktreeCreate"):
                return None
            outcome = await hooks.fire("WorktreeCreate", {"name": name}, ignore_event)
        if outcome.block is not None:
            raise UserError(
                f"a hook failed to create the worktree: {outcome.block or 'no reason given'}"
            )
        if not outcome.worktree:
            return None
        must_be_folder(outcome.worktree)
        base = await self._with_git(lambda git: resolve_commit(git, outcome.worktree, "HEAD"))
        tree = Worktree(path=outcome.worktree, branch="", base=base, repository=self._cwd)
        record = {
            "originalCwd": self._cwd,
            "worktreePath": tree.path,
            "worktreeName": name,
            "hookBased": True,
        }
        return tree, True, record

    async def left(self, tree: Worktree) -> None:
        """Let a hook remove a worktree that contains no work; otherwise print its location."""
        try:
            is_kept = not tree.base or await self._with_git(lambda git: is_touched(git, tree))
            why = ""
            if not is_kept:
                async with self._hooks() as hooks:
                    is_kept = not hooks.hears("WorktreeRemove")
                    outcome = await hooks.fire(
                        "WorktreeRemove", {"worktree_path": tree.path}, ignore_event
                    )
                if outcome.block is not None:
                    is_kept, why = (
                        True,
                        f" (the hook reported: {outcome.block or 'no reason given'})",
                    )
        except ClewError as error:
            is_kept, why = True, f" ({error})"
        if is_kept:
            tell(f"kept the worktree {tree.path}, created by a hook{why}")

    async def _with_git(self, operation: Callable[[Git], Awaitable[T]]) -> T:
        launcher = Launcher()
        try:
            return await operation(Git(launcher, os.environ))
        finally:
            await launcher.aclose()


def must_be_folder(path: str) -> None:
    if not is_folder(path):
        raise UserError(f"a hook returned {path}, which is not a folder")


def is_repository(folder: Path) -> bool:
    return any(is_there(path / ".git") for path in (folder, *folder.parents))


async def enter_worktree(cwd: str, name: str) -> tuple[Worktree, bool, Json]:
    """Create or reuse the git worktree with this name.

    Return the worktree, whether it is new, and its record for the transcript.
    """
    launcher = Launcher()
    try:
        git = Git(launcher, os.environ)
        root = Path((await git(cwd, "rev-parse", "--show-toplevel")).strip())
        path, branch = root / FOLDER / name, f"clew/{name}"
        head = await find_base_commit(git, cwd, root)
        on = (await git(cwd, "rev-parse", "--abbrev-ref", "HEAD")).strip()
        tree = Worktree(path=str(path), branch=branch, base=head, repository=str(root))
        is_new = not is_there(path / ".git")
        if is_new and await git(cwd, "branch", "--list", branch):
            is_new = False
            await restore_checkout(git, tree)
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


async def leave_worktree(tree: Worktree) -> None:
    """Remove the worktree if it contains no work; otherwise print its location."""
    launcher = Launcher()
    try:
        is_gone = await clear(Git(launcher, os.environ), tree)
        why = ""
    except UserError as error:
        is_gone, why = False, f" ({error})"
    finally:
        await launcher.aclose()
    if not is_gone:
        tell(f"kept the worktree {tree.path} on branch {tree.branch}{why}")


def tell(words: str) -> None:
    sys.stderr.write(f"clew: {words}\n")
