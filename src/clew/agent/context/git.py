"""Git queries for the working folder: a few concurrent commands with limits on time and output.

These commands must never take git's locks, run the user's hooks or pagers, or wait for a password.
If a repository answers slowly, the partial result is returned. If the repository contains a file on
which git would block forever, no result is returned.
"""

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from stat import S_ISCHR, S_ISFIFO
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from clew.agent.context.git_report import (
    FIELD,
    GitChange,
    Report,
    describe_untracked,
    read_changes,
    read_log,
    read_status,
)
from clew.system.config.git_guard import OWN_GIT, prepare_git_reading
from clew.system.files import is_folder, is_there, read_content
from clew.system.process.output import ProcessOutput
from clew.system.process.run import run
from clew.system.process.spawn import Launcher

# Detection of repositories where git would block forever because a name it opens is a pipe or a
# device.


# Git opens these in every command.
FIRST = ("HEAD", "config", "config.worktree", "commondir", "index", "packed-refs", "shallow")
# In a working tree, git itself opens only files with these names before it checks their type.
READ = (".gitignore", ".gitattributes", ".gitmodules")
# The search stops after this many entries in a larger repository.
MOST_ENTRIES = 200_000
NAME_BYTES = 4_096


def waits_at(folder: Path, *, everywhere: bool = False) -> str | None:
    """Return the name of a file on which git would block, or None.

    By default only the files that git always opens are checked; with `everywhere`, every file that
    it may open.
    """
    top = next((path for path in (folder, *folder.parents) if is_there(path / ".git")), None)
    if top is None:
        return None
    gits = list(_git_folders(top))
    names = (f"{git}/{name}" for git in gits for name in FIRST)
    waiting_name = next((name for name in names if _waits(name)), None)
    if waiting_name is None and everywhere:
        waiting_name = next((name for name in _below(top, gits) if _waits(name)), None)
    return waiting_name


def _git_folders(top: Path) -> Iterator[Path]:
    """Yield a working tree's git folder and, for a linked worktree, the common git folder."""
    git = top / ".git"
    if is_folder(git):
        yield git
        return
    try:
        own = Path(top, os.fsdecode(read_content(git, NAME_BYTES)).removeprefix("gitdir:").strip())
        yield own
        yield Path(own, os.fsdecode(read_content(own / "commondir", NAME_BYTES)).strip())
    except OSError:
        return  # not a link, or a link to a repository without a common folder


def _below(top: Path, gits: list[Path]) -> Iterator[str]:
    seen = 0
    for root in (*gits, top):
        for folder, folders, files in os.walk(root):
            seen += len(folders) + len(files)
            if seen > MOST_ENTRIES:
                return
            if root is top and ".git" in folders:
                folders.remove(".git")
            yield from (f"{folder}/{name}" for name in files if root is not top or name in READ)


def _waits(name: str) -> bool:
    try:
        status = Path(name).stat()
    except (OSError, ValueError):
        return False
    if S_ISCHR(status.st_mode):
        # The sandbox mounts /dev/null over hidden names. It reads as an empty file and never
        # blocks.
        return status.st_rdev != Path(os.devnull).stat().st_rdev
    return S_ISFIFO(status.st_mode)


TIMEOUT_S = 5.0
# Git usually finishes within this time. If not, the repository is large or git is blocked on a
# file.
SOON_S = 0.5
KEEP_BYTES = 128 * 1024
COMMITS = 5
# Limits for a diff, for the number of untracked files, and for the size of one of them.
CHANGES_BYTES = 4 * 1024 * 1024
NEW_FILES = 500
NEW_FILE_BYTES = 256 * 1024

# Settings that keep git from writing, prompting and paging.
ENVIRONMENT = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "LC_ALL": "C.UTF-8",
}
_QUIET = (*OWN_GIT, "-c", "core.quotePath=false")
_STATUS = ("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal")
_LOG = ("log", f"-{COMMITS}", "-z", f"--format=%h{FIELD}%an{FIELD}%aI{FIELD}%s")
_MAIN = ("symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD")
_DIFF = ("diff", "--no-color", "--no-ext-diff", "--no-textconv", "HEAD")
_FILES = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
# Fixed options, so that the user's own diff configuration does not change the output.
_CHANGES = (
    "diff", "--no-color", "--no-ext-diff", "--no-textconv", "--no-relative", "--find-renames",
    "--submodule=short", "--unified=3", "--inter-hunk-context=0", "--raw", "--numstat", "-p", "-z",
)  # fmt: skip
_UNTRACKED = ("ls-files", "-z", "--others", "--exclude-standard")
_LIKELY_MAIN = ("main", "master", "trunk")


class Changes(Struct, frozen=True, kw_only=True):
    """The changed files, relative to `root`.

    They are compared with the last commit or, if `base` is set, with the commit at which the
    current branch left `branch`.
    """

    root: Path
    files: tuple[GitChange, ...]
    # Git was stopped, or the output exceeds the limits.
    is_cut: bool = False
    base: str = ""
    branch: str = ""


async def report(
    launcher: Launcher, cwd: Path, env: Mapping[str, str], *, timeout_s: float = TIMEOUT_S
) -> Report | None:
    """Return the state of the repository around `cwd`, or None if there is no repository or no git.

    Start this early: nothing else at startup depends on it, so it can run while the rest loads.
    """
    git = _Git(launcher, cwd, env, timeout_s)
    async with asyncio.TaskGroup() as group:
        status = group.create_task(git.ask(_STATUS))
        log = group.create_task(git.ask(_LOG))
        main = group.create_task(git.main_branch())
        tasks: set[asyncio.Task[Any]] = {status, log, main}
        _, late = await asyncio.wait(tasks, timeout=SOON_S)
        waits = await asyncio.to_thread(waits_at, cwd, everywhere=True) if late else None
        for task in late if waits else ():
            task.cancel()
    if any(task.cancelled() for task in tasks):
        return None
    output, is_cut = status.result()
    if output is None:
        return None
    commits = read_log(log.result()[0] or "")
    return replace(read_status(output), main_branch=main.result(), commits=commits, is_cut=is_cut)


async def read_difference(
    launcher: Launcher, cwd: Path, env: Mapping[str, str], *, timeout_s: float = TIMEOUT_S
) -> str:
    """Return the uncommitted changes as a diff; empty if nothing changed or git failed."""
    output, is_cut = await _Git(launcher, cwd, env, timeout_s).ask(_DIFF)
    return (output or "") + ("\n(output truncated)" if is_cut else "")


async def list_files(
    launcher: Launcher, env: Mapping[str, str], folder: Path, *, timeout_s: float = TIMEOUT_S
) -> list[str] | None:
    """Return the files below a folder that git does not ignore, or None outside a repository.

    The list is truncated if the output exceeds its limit.
    """
    output, is_cut = await _Git(launcher, folder, env, timeout_s).ask(_FILES)
    if output is None:
        return None
    names = output.split("\0")
    # The last element is empty or truncated.
    return names[:-1] if is_cut or not names[-1] else names


async def find_changes(
    launcher: Launcher, cwd: Path, env: Mapping[str, str], *, timeout_s: float = TIMEOUT_S
) -> Changes | None:
    """Return the uncommitted changes in the repository around `cwd`.

    If everything is committed, return what the branch changed since it left the main branch. Return
    None if there is no repository or no git.
    """
    root, _ = await _Git(launcher, cwd, env, timeout_s).ask(("rev-parse", "--show-toplevel"))
    if root is None:
        return None
    folder = Path(root.rstrip("\n"))
    git = _Git(launcher, folder, env, timeout_s)
    head = await git.head()
    async with asyncio.TaskGroup() as group:
        change_task = group.create_task(git.changes_since(head))
        new = group.create_task(git.new_files())
        left = group.create_task(git.fork())
    (old, has_more), (added, even_more), (base, branch) = (
        change_task.result(),
        new.result(),
        left.result(),
    )
    if old or added or base in ("", head):
        return Changes(root=folder, files=(*old, *added), is_cut=has_more or even_more)
    files, is_cut = await git.changes_since(base)
    return Changes(root=folder, files=tuple(files), is_cut=is_cut, base=base, branch=branch)


def _read_new(folder: Path, names: Sequence[str]) -> list[GitChange]:
    """Return untracked files as changes.

    Files that no longer exist or are not regular files are left out. Each file is read up to a size
    limit.
    """
    changes = []
    for name in names:
        try:
            data = read_content(folder / name, NEW_FILE_BYTES + 1)
        except OSError:
            continue
        changes.append(describe_untracked(name, data if len(data) <= NEW_FILE_BYTES else None))
    return changes


class _Git:
    """Git commands in one folder, with a shared deadline."""

    def __init__(
        self, launcher: Launcher, cwd: Path, env: Mapping[str, str], timeout_s: float
    ) -> None:
        self._launcher = launcher
        self._cwd = cwd
        reading = prepare_git_reading({**env, **ENVIRONMENT}, cwd)
        self._env, self._of_status = reading.environment, reading.of_status
        self._waits = reading.is_elsewhere or waits_at(cwd) is not None
        # The deadline for all commands together.
        self._until_s = asyncio.get_running_loop().time() + timeout_s

    async def ask(self, arguments: Sequence[str]) -> tuple[str | None, bool]:
        """Return git's output (None if it failed) and whether the output is incomplete."""
        output, is_cut = await self.raw(arguments, KEEP_BYTES)
        return None if output is None else output.decode("utf-8", "replace"), is_cut

    async def raw(self, arguments: Sequence[str], most_bytes: int) -> tuple[bytes | None, bool]:
        """Return git's output as bytes (None if it failed), and whether it is incomplete."""
        output = ProcessOutput(keep_bytes=most_bytes)
        left_s = self._until_s - asyncio.get_running_loop().time()
        if left_s <= 0 or self._waits:
            return None, True
        try:
            ended = await run(
                self._launcher,
                [*_QUIET, arguments[0], *self._more(arguments[0]), *arguments[1:]],
                cwd=self._cwd,
                env=self._env,
                stdout=output,
                stderr=ProcessOutput(keep_bytes=0),
                timeout_s=left_s,
            )
        except OSError:
            return None, False
        if not ended.timed_out and ended.exit.code != 0:
            return None, False
        return bytes(output.head), bool(ended.timed_out or output.size > len(output.head))

    def _more(self, subcommand: str) -> tuple[str, ...]:
        return self._of_status if subcommand in ("status", "diff") else ()

    async def changes_since(self, commit: str) -> tuple[list[GitChange], bool]:
        """Return the changes in the folder since a commit, and whether they are incomplete."""
        output, is_cut = await self.raw((*_CHANGES, commit, "--"), CHANGES_BYTES)
        return read_changes(output or b"", is_cut=is_cut), is_cut

    async def new_files(self) -> tuple[list[GitChange], bool]:
        """Return the files neither tracked nor ignored, and whether the list is incomplete."""
        output, is_cut = await self.ask(_UNTRACKED)
        names = (output or "").split("\0")[:-1]
        changes = await asyncio.to_thread(_read_new, self._cwd, names[:NEW_FILES])
        return changes, is_cut or len(names) > NEW_FILES

    async def head(self) -> str:
        """Return the current commit or, if there is no commit yet, the empty tree."""
        output, _ = await self.ask(("rev-parse", "--quiet", "--verify", "HEAD^{commit}"))
        if output is None:
            output, _ = await self.ask(("hash-object", "-t", "tree", os.devnull))
        return (output or "").strip()

    async def fork(self) -> tuple[str, str]:
        """Return the commit at which the current branch forked, and the main branch's name.

        Both are empty if the branches have no common commit.
        """
        main = await self.main_branch()
        for name in (f"refs/heads/{main}", f"refs/remotes/origin/{main}"):
            output, _ = await self.ask(("merge-base", name, "HEAD"))
            if output:
                return output.strip(), main
        return "", ""

    async def main_branch(self) -> str:
        output, _ = await self.ask(_MAIN)
        if output:
            return output.strip().removeprefix("origin/")
        heads, _ = await self.ask(
            (
                "for-each-ref",
                "--format=%(refname:short)",
                *(f"refs/heads/{n}" for n in _LIKELY_MAIN),
            )
        )
        return (heads or "").split("\n", 1)[0]
