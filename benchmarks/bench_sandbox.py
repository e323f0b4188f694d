"""The sandbox and hooks: the time that a sandbox adds to a command, and an empty hook compared with
a bare start.
"""

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.measure import Figure
from clew.agent.events import HookFinished, HookStarted
from clew.agent.hooks.events import BY_NAME
from clew.agent.hooks.handlers import CommandHook, Hook, HookListing
from clew.agent.hooks.reach import Reach
from clew.agent.hooks.run import Here, SessionHooks
from clew.permissions.request import Context
from clew.permissions.resolver import make_resolver
from clew.system.process.output import ProcessOutput
from clew.system.process.run import run
from clew.system.process.spawn import Launcher
from clew.system.sandbox.box import Box, Kind
from clew.system.sandbox.policy import SandboxPolicy
from clew.system.sandbox.protected_paths import TICK_NS, Listing
from clew.system.sandbox.walled import SandboxError

RUNS = 60
TEN = 10
NAP_S = 0.2
TREE_FOLDERS = 2000


async def best(work: Callable[[], Awaitable[object]], *, runs: int = RUNS) -> float:
    """Return the shortest wall time; it includes waiting for the other program."""
    least = float("inf")
    for _ in range(runs):
        begin = time.perf_counter()
        await work()
        least = min(least, time.perf_counter() - begin)
    return least


async def unheard(_: HookStarted | HookFinished) -> None: ...


def hooks(launcher: Launcher, folder: str, command: str, count: int) -> SessionHooks:
    event = BY_NAME["PreToolUse"]
    found = HookListing(
        hooks=tuple(Hook(event=event, handler=CommandHook(command=command)) for _ in range(count))
    )
    context = Context(cwd=folder, home=folder)
    here = Here(found=found, context=context, resolve=make_resolver(cwd=folder, home=folder))
    reach = Reach(
        launcher=launcher, environment=lambda: os.environ, project=folder, cwd=lambda: folder
    )
    return SessionHooks(
        reach, read_state=lambda: here, base=lambda: {"session_id": "1", "cwd": folder}
    )


async def of_hooks(folder: str) -> list[Figure]:
    launcher = Launcher()
    fields = BY_NAME["PreToolUse"].example

    async def bare() -> None:
        child = await asyncio.create_subprocess_exec(
            "sh", "-c", "true",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        await child.communicate(b"{}")

    async def fired(command: str, count: int, runs: int) -> float:
        async with hooks(launcher, folder, command, count) as session_hooks:
            return await best(lambda: session_hooks.fire("PreToolUse", fields, unheard), runs=runs)

    peer_s = await best(bare)
    hook_s = await fired("true", 1, RUNS)
    ten_s = await fired(f"sleep {NAP_S}", TEN, 5)
    nap_s = await fired(f"sleep {NAP_S}", 1, 5)
    none_s = await fired("true", 0, 2000)
    await launcher.aclose()
    return [
        Figure(
            name="a hook that does nothing", value=hook_s / peer_s, unit="x asyncio starting it",
            at_most=1.2, note=f"{hook_s * 1000:.1f} ms",
        ),
        Figure(name="ten hooks of one event", value=ten_s / nap_s, unit="x one of them", at_most=1.3),
        Figure(name="an event without hooks", value=none_s * 1e6, unit="us", at_most=50),
    ]  # fmt: skip


async def of_walls(folder: str, kind: Kind, at_most_ms: float, **more: Any) -> Figure:
    launcher = Launcher()
    shut = (str(Path.home() / ".ssh"),)
    if more.get("is_read_only"):
        policy = SandboxPolicy(write=(), no_read=shut, is_read_only=True)
        name = f"the read-only sandbox ({kind}) adds to a command"
    else:
        policy = SandboxPolicy(write=(folder,), no_read=shut, **more)
        name = f"{kind} adds to a command" + (" with hosts" if more else "")
    box = Box(policy, launcher, only=kind)

    async def bare() -> None:
        await run(
            launcher,
            ["sh", "-c", "true"],
            cwd=folder,
            env=os.environ,
            stdout=ProcessOutput(keep_bytes=1000),
        )

    async def walled() -> None:
        async with box.around(["sh", "-c", "true"], folder, os.environ) as made:
            await run(
                launcher, made.argv, cwd=folder, env=made.environment, walls=made.walls,
                descriptors=made.descriptors, stdout=ProcessOutput(keep_bytes=1000),
            )  # fmt: skip

    try:
        await box.kind()
    except SandboxError as error:
        return Figure(name=name, value=float("nan"), unit="ms", note=f"not here: {error}")
    else:
        added_ms = (await best(walled) - await best(bare)) * 1000
        return Figure(name=name, value=added_ms, unit="ms", at_most=at_most_ms)
    finally:
        box.close()
        await launcher.aclose()


async def of_denied(folder: str) -> Figure:
    """Measure checking a deny pattern again in a tree that was searched before."""
    top = Path(folder, "tree")
    for number in range(TREE_FOLDERS):
        (top / str(number % 40) / str(number)).mkdir(parents=True)
        (top / str(number % 40) / str(number) / ".env").touch()
    await asyncio.sleep(2 * TICK_NS / 1e9)
    listing, names = Listing(), re.compile(r".*/\.env")

    async def look() -> None:
        assert sum(1 for _ in listing.named(str(top), names)) == TREE_FOLDERS

    first_s = await best(look, runs=1)
    again_s = await best(look, runs=20)
    return Figure(
        name=f"looking through {TREE_FOLDERS} folders again", value=again_s / first_s,
        unit="x the first look", at_most=0.7, note=f"{again_s * 1000:.1f} ms",
    )  # fmt: skip


async def measured(folder: str) -> list[Figure]:
    figures = await of_hooks(folder)
    walls: tuple[tuple[Kind, float], ...] = (("bubblewrap", 30.0), ("landlock", 3.0))
    for kind, at_most_ms in walls:
        figures.append(await of_walls(folder, kind, at_most_ms))
        figures.append(await of_walls(folder, kind, at_most_ms, domains=("example.com",)))
        figures.append(await of_walls(folder, kind, at_most_ms, is_read_only=True))
    figures.append(await of_denied(folder))
    return figures


def figures() -> Iterator[Figure]:
    with TemporaryDirectory() as folder:
        yield from asyncio.run(measured(os.path.realpath(folder)))
