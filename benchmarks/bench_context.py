"""Before the first request: the time that clew adds to git's own in a repository of 5,000 files."""

import asyncio
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Figure
from clew.agent.context import git
from clew.agent.context.facts import make_date_fact, make_git_fact, make_memory_fact
from clew.agent.context.git_report import read_log, read_status
from clew.agent.context.memory import FileCache, Sources, load_memory
from clew.agent.context.system_prompt import GUIDANCE, system_prompt
from clew.system.process.spawn import Launcher

FILES = 5_000
RUNS = 7
WHO = {
    f"GIT_{who}_{k}": "x@example.org" for who in ("AUTHOR", "COMMITTER") for k in ("NAME", "EMAIL")
}
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}


def _git(folder: Path, *arguments: str) -> str:
    ran = subprocess.run(
        ["git", *arguments], cwd=folder, env=ENVIRONMENT | WHO, check=True, capture_output=True
    )
    return ran.stdout.decode()


def _repository(folder: Path) -> None:
    for number in range(FILES):
        path = folder / f"d{number % 50}" / f"f{number}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"x = {number}\n", "utf-8")
    (folder / "CLAUDE.md").write_text("Use tabs.\n" * 200, "utf-8")
    _git(folder, "init", "-q", "-b", "main")
    _git(folder, "config", "maintenance.auto", "false")
    _git(folder, "add", ".")
    _git(folder, "commit", "-q", "-m", "begin")
    for number in range(0, FILES, 50):
        (folder / "d0" / f"f{number}.py").write_text("changed\n", "utf-8")


def _assembled(folder: Path, status: str, log: str) -> None:
    """Build everything except git: the system prompt, memory files, and the text of git's output."""
    sources = Sources(cwd=folder, root=folder, home=folder, config_home=folder / ".claude")
    system_prompt("claude-opus-5-5", [name for name, _ in GUIDANCE])
    make_memory_fact(load_memory(sources, FileCache()).files)
    make_date_fact("2026-01-01")
    report = read_status(status)
    read_log(log)
    make_git_fact(report)


async def _reported_ms(folder: Path) -> float:
    """Return the wall time of a report with the keeper process running, as in a second session."""
    launcher = Launcher()
    try:
        await git.report(launcher, folder, ENVIRONMENT)
        times = []
        for _ in range(RUNS):
            begin = time.perf_counter()
            await git.report(launcher, folder, ENVIRONMENT)
            times.append((time.perf_counter() - begin) * 1e3)
        return min(times)
    finally:
        await launcher.aclose()


def figures() -> Iterator[Figure]:
    # Git may still run maintenance in the background when the folder is deleted.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        _repository(folder)
        status = _git(folder, "status", "--porcelain=v2", "--branch", "-z")
        log = _git(folder, "log", "-5", "-z", f"--format={'%x1f'.join(('%h', '%an', '%aI', '%s'))}")
        best = min(_timed_ms(folder, status, log) for _ in range(RUNS))
        yield Figure(
            name=f"prompt assembly without git, {FILES:,} files", value=best, unit="ms", at_most=5
        )
        alone = min(_status_ms(folder) for _ in range(RUNS))
        together = asyncio.run(_reported_ms(folder))
        yield Figure(
            name="all git commands / `git status`",
            value=together / alone,
            unit="x",
            note=f"{together:.0f} ms and {alone:.0f} ms; starts before anything waits for it",
        )


def _timed_ms(folder: Path, status: str, log: str) -> float:
    begin = time.process_time()
    _assembled(folder, status, log)
    return (time.process_time() - begin) * 1e3


def _status_ms(folder: Path) -> float:
    begin = time.perf_counter()
    _git(folder, "status", "--porcelain=v2", "--branch", "-z")
    return (time.perf_counter() - begin) * 1e3
