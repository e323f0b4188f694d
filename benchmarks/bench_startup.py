"""The cost of starting a process, compared with a bare interpreter."""

import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Figure, process


def figures() -> Iterator[Figure]:
    clew = str(Path(sys.executable).parent / "clew")
    bare = process([sys.executable, "-c", "pass"])
    yield Figure(name="bare interpreter, CPU", value=bare.cpu_s * 1000, unit="ms")
    yield Figure(name="bare interpreter, peak memory", value=bare.peak_rss_mb, unit="MB")
    for argument, goal_ms in (("--version", 20), ("--help", 30)):
        run = process([clew, argument])
        yield Figure(
            name=f"clew {argument}, CPU", value=run.cpu_s * 1000, unit="ms", at_most=goal_ms
        )
        yield Figure(
            name=f"clew {argument}, peak memory", value=run.peak_rss_mb, unit="MB", at_most=12
        )
