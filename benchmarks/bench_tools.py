"""Tools: reading many files, running a command, large output, an edit; each compared with a peer."""

import asyncio
import os
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.measure import Figure
from clew.agent.calls import bind, run_tool
from clew.agent.tools.base import Progress, ShellSetup, Tool, ToolContext, ToolSession
from clew.agent.tools.bash import Bash
from clew.agent.tools.edit import Edit
from clew.agent.tools.read import Read
from clew.agent.tools.search_tools import Glob, Grep, GrepInput, grep
from clew.agent.tools.searching import find_ripgrep
from clew.system.process.spawn import Launcher

FILES = 50
FILE_BYTES = 10_000
OUTPUT_BYTES = 200_000_000
PRODUCER = f"yes 'some line of text here' | head -c {OUTPUT_BYTES}"
TREE_FILES = 5000


async def silent(_: Progress) -> None: ...


class Bench:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.session = ToolSession(
            cwd=str(folder),
            spill_folder=folder / "spilled",
            shell=ShellSetup(launcher=Launcher(), environment=os.environ, project=str(folder)),
        )

    def context(self) -> ToolContext:
        return ToolContext(session=self.session, emit=silent, tool_use_id="toolu_1")

    async def use(self, tool: Tool[Any], **given: Any) -> str:
        result = await run_tool(bind(tool, {"name": tool.name, "input": given}), self.context())
        if result.is_error:
            raise RuntimeError(str(result.content))
        return str(result.content)


async def best(
    work: Callable[[], Awaitable[object]], clock: Callable[[], float], runs: int
) -> float:
    least = float("inf")
    for _ in range(runs):
        begin = clock()
        await work()
        least = min(least, clock() - begin)
    return least


async def reads(bench: Bench) -> list[Figure]:
    names = [f"read-{i}.txt" for i in range(FILES)]
    for name in names:
        (bench.folder / name).write_bytes(b"x" * 49 + b"\n" + (b"y" * 99 + b"\n") * 99 + b"z" * 49)

    async def all_at_once() -> None:
        await asyncio.gather(*(bench.use(Read(), file_path=name) for name in names))

    async def bare() -> None:
        for name in names:
            (bench.folder / name).read_bytes()

    ours = await best(all_at_once, time.process_time, 9)
    peer = await best(bare, time.process_time, 9)
    return [
        Figure(
            name=f"{FILES} parallel Reads of {FILE_BYTES // 1000} KB, own CPU",
            value=ours * 1000, unit="ms", at_most=60, note=f"{ours / peer:.0f} x read_bytes",
        )
    ]  # fmt: skip


def start_and_wait() -> None:
    os.waitpid(os.posix_spawn("/bin/bash", ["bash", "-c", ":"], os.environ), 0)


async def commands(bench: Bench) -> list[Figure]:
    async def ours() -> None:
        await bench.use(Bash(), command=":")

    async def peer() -> None:
        start_and_wait()

    await ours()
    spawn_s = await best(peer, time.perf_counter, 60)
    bash_s = await best(ours, time.perf_counter, 60)
    return [
        Figure(name="posix_spawn of bash -c :, wall", value=spawn_s * 1000, unit="ms"),
        Figure(
            name="gap of a Bash call beyond it",
            value=(bash_s - spawn_s) * 1000,
            unit="ms",
            at_most=6,
        ),
    ]


async def cancelling(bench: Bench) -> list[Figure]:
    worst = 0.0
    for _ in range(10):
        fifo = bench.folder / "pid"
        fifo.unlink(missing_ok=True)
        os.mkfifo(fifo)
        command = "trap '' TERM; (setsid sleep 600 &); echo 1 > pid; while :; do sleep 600; done"
        task = asyncio.create_task(bench.use(Bash(), command=command))
        await asyncio.to_thread(fifo.read_text, "utf-8")
        begin = time.perf_counter()
        task.cancel()
        await asyncio.wait([task])
        worst = max(worst, time.perf_counter() - begin)
        if bench.session.shell.launcher.living:
            raise RuntimeError("something lives on")
    return [
        Figure(
            name="cancelled, deaf to SIGTERM, until the tree is gone, worst of 10",
            value=worst * 1000, unit="ms", at_most=100,
        )
    ]  # fmt: skip


OUTPUT_PROGRAM = """
import asyncio, os, sys
from pathlib import Path
from benchmarks.bench_tools import Bench, PRODUCER
from clew.agent.tools.bash import Bash
from time import perf_counter

async def main():
    bench = Bench(Path(sys.argv[1]))
    await bench.use(Bash(), command=":")
    begin = perf_counter()
    await bench.use(Bash(), command=PRODUCER)
    wall = perf_counter() - begin
    await bench.session.shell.launcher.aclose()
    peak = next(l for l in open("/proc/self/status") if l.startswith("VmHWM:")).split()[1]
    print(wall, int(peak) / 1024)

asyncio.run(main())
"""


def output(folder: Path) -> list[Figure]:
    import sys

    walls, peaks, peers = [], [], []
    for i in range(9):
        here = folder / f"output-{i}"
        here.mkdir()
        begin = time.perf_counter()
        subprocess.run(["sh", "-c", f"{PRODUCER} | cat > out"], cwd=here, check=True)
        peers.append(time.perf_counter() - begin)
        (here / "out").unlink()
        done = subprocess.run(
            [sys.executable, "-c", OUTPUT_PROGRAM, str(here)], capture_output=True, text=True,
            encoding="utf-8", check=True,
        )  # fmt: skip
        wall, peak = map(float, done.stdout.split())
        walls.append(wall)
        peaks.append(peak)
        for spilled in (here / "spilled").iterdir():
            spilled.unlink()
    return [
        Figure(
            name="200 MB of output, wall / cat > file",
            value=min(walls) / min(peers), unit="x", at_most=1.5, note=f"{min(walls):.2f} s",
        ),
        Figure(name="200 MB of output, peak memory of the process", value=max(peaks), unit="MB", at_most=50),
    ]  # fmt: skip


async def edits(bench: Bench) -> list[Figure]:
    path = bench.folder / "edit.txt"
    path.write_text("".join(f"line number {i:06}\n" for i in range(500)), "utf-8")
    await bench.use(Read(), file_path=str(path))
    turn = 0

    async def ours() -> None:
        nonlocal turn
        turn += 1
        old = f"line number {250 + turn - 1:06}\n" if turn == 1 else f"changed {turn - 1}\n"
        await bench.use(Edit(), file_path=str(path), old_string=old, new_string=f"changed {turn}\n")

    async def bare() -> None:
        text = path.read_bytes()
        other = path.with_suffix(".new")
        with other.open("wb") as file:
            file.write(text)
            os.fsync(file.fileno())
        other.replace(path)

    ours_s = await best(ours, time.process_time, 30)
    peer_s = await best(bare, time.process_time, 30)
    return [
        Figure(
            name="an Edit in 10 KB, own CPU", value=ours_s * 1000, unit="ms",
            note=f"{ours_s / peer_s:.1f} x write, fsync, rename",
        )
    ]  # fmt: skip


async def large_edit(bench: Bench) -> list[Figure]:
    path = bench.folder / "large.txt"
    path.write_text("".join(f"line number {i:08}\n" for i in range(250_000)), "utf-8")
    await bench.use(Read(), file_path=str(path), limit=1)
    turn = 0

    async def ours() -> None:
        nonlocal turn
        turn += 1
        old = "line number 00125000\n" if turn == 1 else f"changed {turn - 1}\n"
        await bench.use(Edit(), file_path=str(path), old_string=old, new_string=f"changed {turn}\n")

    size = path.stat().st_size / 1_000_000
    wall, own = await best(ours, time.perf_counter, 9), await best(ours, time.process_time, 9)
    return [
        Figure(name=f"an Edit in {size:.0f} MB, wall", value=wall * 1000, unit="ms", at_most=50),
        Figure(name=f"an Edit in {size:.0f} MB, own CPU", value=own * 1000, unit="ms", at_most=50),
    ]


async def searches(bench: Bench) -> list[Figure]:
    top = bench.folder / "tree"
    for i in range(TREE_FILES):
        path = top / f"{i % 50}" / f"file{i}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"def function_{i}():\n    return {i}\n" * 20, "utf-8")
    program = find_ripgrep()
    if program is None:
        return []

    async def ours() -> None:
        await bench.use(Grep(), pattern="function_4999", path=str(top))

    async def without() -> None:
        given = GrepInput(pattern="function_4999", path=str(top))
        await grep(given, bench.context(), None)

    async def names() -> None:
        await bench.use(Glob(), pattern="**/file49*.py", path=str(top))

    async def bare() -> None:
        command = [program, "-l", "function_4999", str(top)]
        await asyncio.to_thread(subprocess.run, command, stdout=subprocess.DEVNULL, check=True)

    grep_s, glob_s = await best(ours, time.perf_counter, 7), await best(names, time.perf_counter, 7)
    own_s, peer_s = (
        await best(without, time.perf_counter, 7),
        await best(bare, time.perf_counter, 7),
    )
    return [
        Figure(
            name="the same without ripgrep",
            value=own_s / peer_s,
            unit="x",
            at_most=2.5,
            note=f"{own_s * 1000:.0f} ms",
        ),
        Figure(name=f"Grep over {TREE_FILES} files, wall / rg", value=grep_s / peer_s, unit="x", at_most=1.3, note=f"{grep_s * 1000:.0f} ms"),
        Figure(name=f"Glob over {TREE_FILES} files, wall", value=glob_s * 1000, unit="ms"),
    ]  # fmt: skip


async def measured(folder: Path) -> list[Figure]:
    bench = Bench(folder)
    try:
        return [
            figure
            for part in (reads, commands, cancelling, edits, large_edit, searches)
            for figure in await part(bench)
        ]
    finally:
        await bench.session.shell.launcher.aclose()


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as name:
        yield from asyncio.run(measured(Path(name)))
        yield from output(Path(name))
