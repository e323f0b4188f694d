"""The keeper stays small, because its size determines the cost of every fork."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from clew.system.process.spawn import SOURCE, Launcher, keeper_command
from clew.system.process.tree import frame_value
from clew.system.process.watcher import NOTHING_LEFT, children
from tests.system.process.processes import wait_ended

HEAVY = {"asyncio", "ctypes", "json", "logging", "msgspec", "pathlib", "re", "subprocess", "typing"}


def test_the_keeper_loads_next_to_nothing() -> None:
    program = (
        f"import sys; sys.path.append({str(SOURCE)!r}); import clew.system.process.watcher; "
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [*keeper_command(adopts=True)[:-1], program],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    loaded = set(done.stdout.split())
    assert not loaded & HEAVY
    assert {name for name in loaded if name.startswith("clew.")} == {
        "clew.system",
        "clew.system.process",
        "clew.system.process.walls",
        "clew.system.process.watcher",
    }


def test_the_keeper_is_this_interpreter_apart_from_its_environment() -> None:
    assert keeper_command(adopts=True)[:3] == [sys.executable, "-I", "-S"]


def the_child_of(pid: int) -> int:
    """The one child, once there is one."""
    while not (found := list(children(pid))):
        os.sched_yield()
    (child,) = found
    return child


def test_a_program_runs_only_once_clew_has_been_told_of_it(tmp_path: Path) -> None:
    """A watcher that cannot tell lets nothing begin: its end then ends the child as well."""

    async def go() -> None:
        launcher = Launcher()
        launcher.start()
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        try:
            while True:
                theirs.send(b" " * 4096)
        except BlockingIOError:
            theirs.setblocking(True)
        launcher._send([theirs.fileno()])
        argv = [b"/bin/sh", b"-c", b"echo > ran"]
        ours.sendall(frame_value((argv, os.fsencode(tmp_path), {}, [], None, NOTHING_LEFT, False)))
        watcher = the_child_of(launcher._keeper)
        child = the_child_of(watcher)
        for pid in (launcher._keeper, watcher):
            os.kill(pid, signal.SIGKILL)
        wait_ended(child)
        assert not (tmp_path / "ran").exists()
        ours.close()
        theirs.close()
        await launcher.aclose()

    asyncio.run(go())
