"""Runs the real `clew` as a process, against a scripted Messages API on loopback."""

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fronts.headless import forked

# A run with this variable stops at its end what still runs, instead of waiting for it.
IMPATIENT = {"CLEW_WAIT_FOR_AGENTS_MS": "1"}


def environment(home: Path, url: str) -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "HOME": str(home),
        "CLEW_CONFIG_DIR": str(home / "config"),
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "sk-ant-test-0000",
        "LANG": "C.UTF-8",
        # Tests look into it, as any user.
        "CLEW_DUMPABLE": "1",
    }


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "clew", *args]


def clew(
    home: Path,
    url: str,
    *args: str,
    without: str = "",
    environ: dict[str, str] | None = None,
    **more: Any,
) -> subprocess.CompletedProcess[str]:
    """Run `clew ARGS` in `home/work` to its end."""
    work = home / "work"
    work.mkdir(exist_ok=True)
    variables = environment(home, url) | (environ or {})
    return forked.run(
        args,
        cwd=work,
        env={k: v for k, v in variables.items() if k != without},
        text=True,
        encoding="utf-8",
        **({"stdin": subprocess.DEVNULL} | more),
    )


def until(holds: Callable[[], bool], *, within_s: float = 30) -> None:
    """Wait for a condition, within limits; check again whenever another process has run."""
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "the condition did not come about"
        select.select([], [], [], 0.01)


def transcripts(home: Path) -> list[Path]:
    return sorted((home / "config" / "projects").glob("*/*.jsonl"))
