"""Asks git about the working folder: a few commands at once, bounded in time and output.

Must never take git's locks, run a person's hooks or pagers, or wait for a password; a repository that
answers slowly is reported as far as it got.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from clew.context.git_report import FIELD, Report, read_log, read_status
from clew.process.output import Output
from clew.process.run import run
from clew.process.spawn import Launcher

TIMEOUT_S = 5.0
KEEP_BYTES = 128 * 1024
COMMITS = 5

# What keeps git from writing, asking and paging.
ENVIRONMENT = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "LC_ALL": "C.UTF-8",
}
_QUIET = ("git", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false", "--no-pager")
_STATUS = ("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal")
_LOG = ("log", f"-{COMMITS}", "-z", f"--format=%h{FIELD}%an{FIELD}%aI{FIELD}%s")
_MAIN = ("symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD")
_DIFF = ("diff", "--no-color", "--no-ext-diff", "--no-textconv", "HEAD")
_FILES = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
_LIKELY_MAIN = ("main", "master", "trunk")


async def report(
    launcher: Launcher, cwd: Path, env: Mapping[str, str], *, timeout_s: float = TIMEOUT_S
) -> Report | None:
    """The state of the repository around `cwd`; None if there is none, or no git.

    Begin it before anything waits for it: nothing else at the start depends on it.
    """
    git = _Git(launcher, cwd, env, timeout_s)
    async with asyncio.TaskGroup() as group:
        status = group.create_task(git.ask(_STATUS))
        log = group.create_task(git.ask(_LOG))
        main = group.create_task(git.main_branch())
    told, is_cut = status.result()
    if told is None:
        return None
    commits = read_log(log.result()[0] or "")
    return replace(read_status(told), main_branch=main.result(), commits=commits, is_cut=is_cut)


async def difference(
    launcher: Launcher, cwd: Path, env: Mapping[str, str], *, timeout_s: float = TIMEOUT_S
) -> str:
    """What is changed and not committed, for those who ask for it; empty if nothing is."""
    told, is_cut = await _Git(launcher, cwd, env, timeout_s).ask(_DIFF)
    return (told or "") + ("\n(there is more)" if is_cut else "")


async def files(
    launcher: Launcher, env: Mapping[str, str], folder: Path, *, timeout_s: float = TIMEOUT_S
) -> list[str] | None:
    """What lies below a folder and is not ignored, as far as it comes; None if git does not know."""
    told, is_cut = await _Git(launcher, folder, env, timeout_s).ask(_FILES)
    if told is None:
        return None
    names = told.split("\0")
    # The last one is empty, or cut.
    return names[:-1] if is_cut or not names[-1] else names


class _Git:
    """One folder to ask about."""

    def __init__(
        self, launcher: Launcher, cwd: Path, env: Mapping[str, str], timeout_s: float
    ) -> None:
        self._launcher = launcher
        self._cwd = cwd
        self._env = {**env, **ENVIRONMENT}
        self._timeout_s = timeout_s

    async def ask(self, arguments: Sequence[str]) -> tuple[str | None, bool]:
        """What git prints, None if it failed; and whether that is not all of it."""
        output = Output(keep_bytes=KEEP_BYTES)
        try:
            ended = await run(
                self._launcher,
                [*_QUIET, *arguments],
                cwd=self._cwd,
                env=self._env,
                stdout=output,
                stderr=Output(keep_bytes=0),
                timeout_s=self._timeout_s,
            )
        except OSError:
            return None, False
        if not ended.timed_out and ended.exit.code != 0:
            return None, False
        return bytes(output.head).decode("utf-8", "replace"), bool(
            ended.timed_out or output.left_out
        )

    async def main_branch(self) -> str:
        told, _ = await self.ask(_MAIN)
        if told:
            return told.strip().removeprefix("origin/")
        heads, _ = await self.ask(
            (
                "for-each-ref",
                "--format=%(refname:short)",
                *(f"refs/heads/{n}" for n in _LIKELY_MAIN),
            )
        )
        return (heads or "").split("\n", 1)[0]
