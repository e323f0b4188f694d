"""clew compared with the reference client, alternating in one run with the same scripted server.

The peer is installed from npm into a separate folder the first time. Without npm, the comparison is
skipped.
"""

import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import Figure, Spent, from_npm, peak_rss_mb, spent
from clew.testing.server import LoopbackServer, serving

# A fixed version, because the default version depends on the npm registry.
PEER = "@anthropic-ai/claude-code@2.1.330"
RUNS = 5
MEGABYTE = "All work and no play is dull. " * 33_334
MODEL = "claude-sonnet-5-5"
QUIET = {
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
}


@dataclass(frozen=True, kw_only=True)
class Workload:
    """The work of both programs. `ratios` are the goals for CPU, wall time and memory."""

    name: str
    answers: list[dict[str, Any]]
    args: tuple[str, ...] = ()
    cpu: float
    wall: float | None = None
    memory: float | None = None


STREAM = ("--output-format", "stream-json", "--verbose", "--include-partial-messages")
WRITES: list[dict[str, Any]] = [
    {
        "content": [{"tool": "Write", "input": {"file_path": "out.txt", "content": MEGABYTE}}],
        "delta_chars": 12,
    },
    {"text": "Written."},
    {"text": "Yes.", "times": "always"},
]
WORKLOADS = (
    Workload(
        name="hello",
        answers=[{"text": "Hello.", "times": "always"}],
        cpu=0.33,
        wall=0.33,
        memory=0.2,
    ),
    Workload(
        name="1 MB of text in deltas of 12",
        answers=[{"text": MEGABYTE, "delta_chars": 12, "times": "always"}],
        cpu=0.3,
        memory=0.15,
    ),
    Workload(
        name="the same with partial messages",
        answers=[{"text": MEGABYTE, "delta_chars": 12, "times": "always"}],
        args=STREAM,
        cpu=0.5,
    ),
    Workload(
        name="1 MB of tool input",
        answers=WRITES,
        args=("--allowedTools", "Write", "--permission-mode", "acceptEdits"),
        cpu=0.3,
    ),
)


class Contestant:
    """A program with its own home folder."""

    def __init__(self, program: str, home: Path) -> None:
        self.program = program
        self.home = home
        self.work = home / "work"
        self.work.mkdir(parents=True)

    def environment(self, server: LoopbackServer) -> dict[str, str]:
        return {
            **QUIET,
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.home),
            "CLAUDE_CONFIG_DIR": str(self.home / "config"),
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": "sk-ant-test-0000",
            "LANG": "C.UTF-8",
        }

    def command(self, workload: Workload) -> list[str]:
        return [self.program, "-p", "hi", "--model", MODEL, *workload.args]

    def run(self, workload: Workload, server: LoopbackServer) -> Spent:
        (self.work / "out.txt").unlink(missing_ok=True)
        return spent(self.command(workload), env=self.environment(server), cwd=self.work)

    def peak_mb(self, workload: Workload, server: LoopbackServer) -> float:
        words = ["env", "-C", str(self.work), "-i"]
        words += [f"{name}={value}" for name, value in self.environment(server).items()]
        return peak_rss_mb([*words, *self.command(workload)])


def figures() -> Iterator[Figure]:
    program = from_npm(PEER, "claude")
    if program is None:
        yield Figure(name="peer skipped: npm or the package is not available", value=0, unit="")
        return
    clew = str(Path(sys.executable).parent / "clew")
    with tempfile.TemporaryDirectory() as folder:
        ours = Contestant(clew, Path(folder, "clew"))
        theirs = Contestant(program, Path(folder, "peer"))
        for workload in WORKLOADS:
            yield from compared(workload, ours, theirs)


def compared(workload: Workload, ours: Contestant, theirs: Contestant) -> Iterator[Figure]:
    measured: tuple[list[Spent], list[Spent]] = ([], [])
    for number in range(RUNS + 1):
        for who, kept in zip((ours, theirs), measured, strict=True):
            with serving({"scenario": 1, "answers": workload.answers}) as server:
                found = who.run(workload, server)
            if number:  # the first run is warm-up
                kept.append(found)
    for what, goal, of in (
        ("CPU", workload.cpu, lambda one: one.cpu_s),
        ("wall", workload.wall, lambda one: one.wall_s),
    ):
        mine, other = (statistics.median(map(of, kept)) for kept in measured)
        yield part(f"{workload.name}: {what}", mine, other, "s", goal)
    peaks: list[float] = []
    for who in (ours, theirs):
        with serving({"scenario": 1, "answers": workload.answers}) as server:
            peaks.append(who.peak_mb(workload, server))
    mine, other = peaks
    yield part(f"{workload.name}: memory", mine, other, "MB", workload.memory)


def part(name: str, mine: float, other: float, unit: str, goal: float | None) -> Figure:
    return Figure(
        name=f"{name} / peer",
        value=mine / other,
        unit="x",
        at_most=goal,
        note=f"{mine:.3g} {unit} to {other:.3g} {unit}",
    )
