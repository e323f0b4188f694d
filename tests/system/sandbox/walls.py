"""Finds the backends that this machine supports, without clew's own code; a box to try them in."""

import asyncio
import ctypes
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clew.system.process.output import ProcessOutput
from clew.system.process.run import run
from clew.system.process.spawn import Launcher
from clew.system.sandbox.box import Box, Kind
from clew.system.sandbox.policy import SandboxPolicy

KINDS: tuple[Kind, ...] = ("bubblewrap", "landlock")
CREATE_RULESET = 444


def can(kind: Kind) -> bool:
    """Whether the system lets walls of a kind stand: asked of the system itself."""
    if kind == "bubblewrap":
        program = shutil.which("bwrap")
        tried = [str(program), "--ro-bind", "/", "/", "--unshare-pid", "--unshare-net", "true"]
        done = subprocess.run(tried, capture_output=True, check=False) if program else None
        return done is not None and done.returncode == 0
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"):
        return False
    return int(ctypes.CDLL(None).syscall(CREATE_RULESET, None, ctypes.c_size_t(0), 1)) > 0


@dataclass
class Tried:
    """What became of a command behind walls."""

    code: int
    output: str
    refused: list[str]
    weakness: str


def folders(home: Path) -> Path:
    """A workspace with hooks of git in it, and a secret beside it."""
    work = home / "work"
    (work / ".git" / "hooks").mkdir(parents=True)
    (home / "secret").mkdir()
    (home / "secret" / "key").write_text("the-secret-key", "utf-8")
    return work


def policy(home: Path, **more: Any) -> SandboxPolicy:
    work = str((home / "work").resolve())
    fields: dict[str, Any] = {
        "write": (work,),
        "no_write": (f"{work}/.git/hooks", f"{work}/.claude"),
        "no_read": (str((home / "secret").resolve()),),
    }
    return SandboxPolicy(**(fields | more))


def tried(kind: Kind, home: Path, script: str, **more: Any) -> Tried:
    """Runs a script behind walls of one kind; raises SandboxError where they do not stand."""
    return asyncio.run(_tried(kind, home, script, more))


async def _tried(kind: Kind, home: Path, script: str, more: dict[str, Any]) -> Tried:
    launcher = Launcher()
    environment = dict(os.environ) | more.pop("environment", {})
    box = Box(policy(home, **more), launcher, hidden=("hidden-value",), only=kind)
    output = ProcessOutput(keep_bytes=100_000)
    work = str((home / "work").resolve())
    try:
        async with (
            asyncio.timeout(60),
            box.around(["bash", "-c", script], work, environment) as walled,
        ):
            finished = await run(
                launcher,
                walled.argv,
                cwd=work,
                env=walled.environment,
                stdout=output,
                descriptors=walled.descriptors,
                walls=walled.walls,
            )
            text = (bytes(output.head) + output.tail).decode("utf-8", "replace")
            return Tried(
                code=finished.exit.code,
                output=text,
                refused=list(walled.refused),
                weakness=box.weakness,
            )
    finally:
        box.close()
        await launcher.aclose()
