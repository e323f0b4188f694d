"""A process that runs commands is killed by SIGKILL: nothing that it started survives."""

import os
import signal
import subprocess

import pytest

from tests.system.process.processes import PYTHON, lives, read_pids, wait_ended
from tests.system.process.test_run import ESCAPES

DRIVER = """
import asyncio, os, sys
from clew.system.process.output import ProcessOutput
from clew.system.process.run import run
from clew.system.process.spawn import Launcher

async def main():
    launcher = Launcher(adopts=sys.argv[2] == "True")
    launcher.start()
    await run(
        launcher, ["bash", "-c", sys.argv[1]], cwd="/", env=os.environ,
        stdout=ProcessOutput(keep_bytes=9), descriptors={9: 1},
    )
    os.write(1, b"%d\\n" % launcher._keeper)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def killed_driver(command: str, count: int, *, adopts: bool = True) -> list[int]:
    """The pids that a driver's command told of, after the driver was killed."""
    driver = subprocess.Popen([PYTHON, "-c", DRIVER, command, str(adopts)], stdout=subprocess.PIPE)
    assert driver.stdout is not None
    with driver.stdout as told:
        pids = read_pids(told.fileno(), count)
        assert all(lives(pid) for pid in pids)
        os.kill(driver.pid, signal.SIGKILL)
        driver.wait()
    return pids


@pytest.mark.parametrize("command", ESCAPES.values(), ids=ESCAPES.keys())
def test_nothing_outlives_a_driver_that_was_killed(command: str) -> None:
    for pid in killed_driver(command, 1):
        wait_ended(pid)


def test_what_was_left_in_the_background_and_the_keeper_end_too() -> None:
    for pid in killed_driver("(setsid sleep 600 & echo $! >&9) & sleep 600 & echo $! >&9", 3):
        wait_ended(pid)


def test_without_adoption_the_group_ends() -> None:
    for pid in killed_driver("sleep 600 & echo $! >&9; sleep 600", 1, adopts=False):
        wait_ended(pid)


def test_a_tree_that_keeps_forking_is_caught() -> None:
    forking = "f() { sleep 0.01; f & f & }; echo $$ >&9; (sleep 600 & echo $! >&9; for i in 1 2 3 4 5 6 7 8; do (sleep 0.0$i; sleep 600) & done; wait)"
    for pid in killed_driver(forking, 2):
        wait_ended(pid)


def test_watchers_that_wait_end_too() -> None:
    for pid in killed_driver("echo $PPID >&9", 2):
        wait_ended(pid)
