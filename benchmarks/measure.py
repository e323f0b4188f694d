"""Measuring: CPU seconds, best of several runs, ratios against a peer in the same run.

A module `benchmarks/bench_<subject>.py` has a function `figures()`, which yields `Figure`s. Wall time
is used only for waiting times. A target is a goal that is printed, never a test.
"""

import gc
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A measured value. `at_most`/`at_least` is the goal, in the figure's own unit."""

    name: str
    value: float
    unit: str
    at_most: float | None = None
    at_least: float | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        if self.at_most is not None:
            return self.value <= self.at_most
        if self.at_least is not None:
            return self.value >= self.at_least
        return None


def cpu_s(work: Callable[[], object], *, runs: int = 5) -> float:
    """Return the shortest CPU time of `work` in this process over several runs, without garbage
    collection.
    """
    best = float("inf")
    for _ in range(runs):
        gc.collect()
        gc.disable()
        try:
            begin = time.process_time()
            work()
            best = min(best, time.process_time() - begin)
        finally:
            gc.enable()
    return best


def growth(small: Callable[[], object], large: Callable[[], object], *, runs: int = 9) -> float:
    """Return the CPU time of `large` divided by that of `small`, run alternately so that other load
    affects both.
    """
    spent = [(cpu_s(small, runs=1), cpu_s(large, runs=1)) for _ in range(runs)]
    return min(most for _, most in spent) / min(least for least, _ in spent)


@dataclass(frozen=True, kw_only=True)
class Spent:
    cpu_s: float
    wall_s: float


def spent(
    command: Sequence[str],
    *,
    env: dict[str, str] | None = None,
    cwd: Path | None = None,
    stderr: int | None = None,
) -> Spent:
    """Run a process whose output is ignored; raise an error if it fails."""
    begin = time.perf_counter()
    child = subprocess.Popen(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
    )
    _, status, usage = os.wait4(child.pid, 0)
    wall_s = time.perf_counter() - begin
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {child.returncode}")
    return Spent(cpu_s=usage.ru_utime + usage.ru_stime, wall_s=wall_s)


@dataclass(frozen=True, kw_only=True)
class Run:
    cpu_s: float
    wall_s: float
    peak_rss_mb: float


def process(command: Sequence[str], *, runs: int = 7, env: dict[str, str] | None = None) -> Run:
    """Run a process several times after a warm-up; return median CPU and wall time, and memory from
    one more run.
    """
    measured = [spent(command, env=env) for _ in range(runs + 1)][1:]
    cpus = [one.cpu_s for one in measured]
    walls = [one.wall_s for one in measured]
    return Run(
        cpu_s=sorted(cpus)[len(cpus) // 2],
        wall_s=sorted(walls)[len(walls) // 2],
        peak_rss_mb=peak_rss_mb(command, env=env),
    )


def from_npm(package: str, program: str) -> str | None:
    """Return the program of a package, installed from npm; None without npm or the package."""
    folder = Path(__file__).parent.parent / ".build" / "peers" / package.replace("/", "+")
    path = folder / "node_modules" / ".bin" / program
    npm = shutil.which("npm")
    if not path.exists() and npm is not None:
        words = [npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder)]
        subprocess.run([*words, package], check=False, timeout=600)
    return str(path) if path.exists() else None


def peak_rss_mb(command: Sequence[str], *, env: dict[str, str] | None = None) -> float:
    """Return the peak memory of one run, read while it runs.

    `ru_maxrss` doesn't work: across exec, the kernel carries over the parent's size.
    """
    child = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL)
    status_file = Path(f"/proc/{child.pid}/status")
    peak_kb = 0
    while child.poll() is None:
        for line in status_file.read_text("utf-8").splitlines():
            if line.startswith("VmHWM:"):
                peak_kb = max(peak_kb, int(line.split()[1]))
    return peak_kb / 1024
