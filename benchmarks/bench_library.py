"""Sessions in one process, as a server has them: memory and CPU of 200 at once, and 5,000 in a row.

Every session asks the program about a command in each turn, and runs it: three turns at once, one
in a row.
"""

import asyncio
import gc
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec

import clew
from benchmarks.measure import Figure

AT_ONCE = 200
IN_A_ROW = 5_000
TURNS = 3
# After this many sessions, nothing may grow any more.
WARM = 500


class Seen(msgspec.Struct, kw_only=True):
    """What one process used."""

    rss_mb: float
    cpu_s: float
    files: int
    objects: int


def figures() -> Iterator[Figure]:
    one, many = run("at_once", 1)[-1], run("at_once", AT_ONCE)[-1]
    more = AT_ONCE - 1
    yield Figure(
        name=f"memory of a session, {AT_ONCE} at once",
        value=(many.rss_mb - one.rss_mb) / more,
        unit="MB",
        at_most=1,
    )
    yield Figure(
        name=f"CPU of a session of {TURNS} turns, {AT_ONCE} at once",
        value=1000 * (many.cpu_s - one.cpu_s) / more,
        unit="ms",
        at_most=60,
    )
    warm, last = run("in_a_row", IN_A_ROW)
    yield Figure(
        name=f"growth from session {WARM:,} to {IN_A_ROW:,}: memory",
        value=last.rss_mb - warm.rss_mb,
        unit="MB",
        at_most=5,
    )
    yield Figure(name="open files", value=last.files - warm.files, unit="", at_most=0)
    yield Figure(name="objects", value=last.objects - warm.objects, unit="", at_most=500)


def run(how: str, count: int) -> list[Seen]:
    """Return what a process of its own used."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.bench_library", how, str(count)],
        stdout=subprocess.PIPE,
        check=True,
    )
    return msgspec.json.decode(done.stdout, type=list[Seen])


def look() -> Seen:
    gc.collect()
    own, children = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return Seen(
        rss_mb=pages * os.sysconf("SC_PAGE_SIZE") / 1e6,
        cpu_s=sum(used.ru_utime + used.ru_stime for used in (own, children)),
        files=len(list(Path("/proc/self/fd").iterdir())),
        objects=len(gc.get_objects()),
    )


async def model(request: clew.ModelRequest) -> AsyncIterator[str | dict[str, Any]]:
    """Call a tool first, and then answer."""
    if request.messages[-1]["content"][0]["type"] == "tool_result":
        yield "Done."
    else:
        call = {"command": "echo hello > file"} if len(request.messages) < 3 else {"command": "pwd"}
        yield {"type": "tool_use", "name": "Bash", "input": call}


async def permit(_: clew.Call) -> clew.Permit:
    await asyncio.sleep(0)
    return clew.Permit()


async def talk(folder: str, name: str, turns: int, everyone: asyncio.Barrier | None = None) -> None:
    work = f"{folder}/{name}"
    os.mkdir(work)  # noqa: PTH102
    options = clew.ClewOptions(
        cwd=work,
        home=f"{folder}/home",
        setting_sources=[],
        inherit_env=False,
        can_use_tool=permit,
        provider=model,
        model="example",
    )
    async with clew.ClewClient(options) as client:
        for _ in range(turns):
            async with client.turn("Go on") as turn:
                result = await turn.finish()
            assert result.text == "Done."
        if everyone is not None:
            await everyone.wait()  # All sessions are open.
            await everyone.wait()


async def at_once(folder: str, count: int) -> list[Seen]:
    everyone = asyncio.Barrier(count + 1)
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(talk(folder, str(number), TURNS, everyone))
        await everyone.wait()
        seen = look()
        await everyone.wait()
    return [seen]


async def in_a_row(folder: str, count: int) -> list[Seen]:
    seen: list[Seen] = []
    for number in range(1, count + 1):
        await talk(folder, str(number), 1)
        if number in (WARM, count):
            seen.append(look())
    return seen


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        work = {"at_once": at_once, "in_a_row": in_a_row}[sys.argv[1]]
        sys.stdout.buffer.write(msgspec.json.encode(asyncio.run(work(place, int(sys.argv[2])))))
