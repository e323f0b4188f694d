"""Two hundred interrupted turns and a kill leave no process, descriptor, thread or file."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from clew.agent.tools.bash import Bash
from clew.agent.tools.search_tools import Grep
from clew.system.process.spawn import IDLE_MOST
from tests.agent.tools.workshop import Workshop
from tests.system.process.processes import lives, read_pids, wait_ended

COMMANDS = (
    "sleep 600",
    "sleep 600 & (setsid sleep 600 &); seq 1 200000; sleep 600",
    "trap '' TERM; sleep 600; sleep 600",
    "seq 1 100000",
    "x" * 150_000,
)


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.crash
def test_two_hundred_interrupted_turns_leave_nothing(workshop: Workshop) -> None:
    random.seed(7)
    workshop.write("a.txt", "a" * 60 + "!\n")

    async def interrupted(number: int) -> None:
        context = workshop.context(f"toolu_{number}")
        if number % 5 == 4:
            call = Grep().call(Grep().input_type(pattern="(a+)+$"), context)
        else:
            command = COMMANDS[number % len(COMMANDS)]
            call = Bash().call(Bash().input_type(command=command), context)
        task = asyncio.create_task(call)
        await asyncio.wait([task], timeout=random.random() / 20)
        task.cancel()
        await asyncio.wait([task])

    async def go() -> None:
        launcher = workshop.session.shell.launcher
        await interrupted(0)
        before = descriptors() - len(launcher._idle)
        for number in range(200):
            await interrupted(number)
        assert launcher.living == 0
        # Those that wait for the next command have nothing of the last one.
        assert descriptors() - len(launcher._idle) <= before
        assert len(launcher._idle) <= IDLE_MOST
        assert not any(children_of(watcher) for watcher in children_of(launcher._keeper))

    workshop.use_later(go)
    assert threading.active_count() == 1
    assert [path.name for path in workshop.folder.iterdir()] == ["a.txt"]


def children_of(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [child for child in map(int, path.read_text("ascii").split()) if lives(child)]


DRIVER = """
import asyncio, os, sys
from pathlib import Path
from tests.agent.tools.workshop import Workshop
from clew.system.process.spawn import IDLE_MOST
from clew.agent.tools.bash import Bash

shop = Workshop(Path(sys.argv[1]))
command = "cat /dev/null " + " " * 120000 + "; sleep 600 & echo $! > pids; (setsid sleep 600 & echo $! >> pids); sleep 600"
async def go():
    await Bash().call(Bash().input_type(command=command), shop.context())
shop.use_later(go)
"""


@pytest.mark.crash
def test_a_killed_session_leaves_no_process_and_no_file_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    os.mkfifo(folder / "pids")
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, str(folder)])
    reader = os.open(folder / "pids", os.O_RDONLY | os.O_NONBLOCK)
    keep_open = os.open(folder / "pids", os.O_WRONLY)
    pids = read_pids(reader, 2)
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    for pid in pids:
        wait_ended(pid)
    os.close(reader)
    os.close(keep_open)
    assert [path.name for path in tmp_path.rglob("*")] == ["project", "pids"]
