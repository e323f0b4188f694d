"""Interrupted turns and a SIGKILL of the real program leave no process and no temporary file."""

import os
import signal
import subprocess
from operator import le
from pathlib import Path

import pytest

from clew.testing.server import LoopbackServer, serving
from tests.fronts.headless.clew_process import command, environment, until
from tests.fronts.headless.host_process import Hosted
from tests.requirements import requirement
from tests.system.process.processes import wait_ended

SCRIPT = "echo $$ >> pids; (setsid sleep 600 & echo $! >> pids); sleep 600 & echo $! >> pids; trap '' TERM; wait; sleep 600"
PLAN = {
    "scenario": 1,
    "answers": [
        {"content": [{"tool": "Bash", "input": {"command": SCRIPT}}], "times": "always"},
    ],
}


# What `asyncio` keeps at most for work beside its loop, and the few that clew starts by itself.
POOL_THREADS = min(32, (os.cpu_count() or 1) + 4) + 4


class Place:
    """A home, a working folder and a folder for temporary files, each with nothing in it."""

    def __init__(self, folder: Path) -> None:
        self.home = folder
        self.work = folder / "work"
        self.temporary = folder / "temporary"
        self.work.mkdir()
        self.temporary.mkdir()

    def pids(self) -> list[int]:
        path = self.work / "pids"
        return [int(word) for word in path.read_text("ascii").split()] if path.exists() else []

    def stopped(self, server: LoopbackServer, number: signal.Signals) -> tuple[int, list[int]]:
        """Run a turn until its command and the command's children run, then send the signal."""
        known = len(self.pids())
        child = subprocess.Popen(
            command("-p", "go", "--allowedTools", "Bash"),
            cwd=self.work,
            env=environment(self.home, server.url) | {"TMPDIR": str(self.temporary)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until(lambda: len(self.pids()) >= known + 3)
        pids = [*self.pids()[known:], *children_of(child.pid)]
        child.send_signal(number)
        return child.wait(30), pids


def children_of(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii")
    return [int(word) for word in text.split()]


def left_nothing(folder: Path, signals: list[signal.Signals]) -> None:
    place = Place(folder)
    with serving(PLAN, strict=True) as server:
        for number in signals:
            code, pids = place.stopped(server, number)
            assert code in (130, 143, 129, -signal.SIGKILL)
            assert len(pids) >= 4
            for pid in pids:
                wait_ended(pid)
        until(lambda: server.open_connections == 0)
    assert list(place.temporary.iterdir()) == []
    assert [path.name for path in place.work.iterdir()] == ["pids"]
    running = place.home / "config" / "sessions"
    assert len(list(running.glob("*"))) <= signals.count(signal.SIGKILL)


@requirement("R269")
def test_each_signal_leaves_nothing_behind(tmp_path: Path) -> None:
    left_nothing(tmp_path, [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])


def held_by(pid: int) -> tuple[int, int, int]:
    """Return how many files, threads and children a process has."""
    folder = Path(f"/proc/{pid}")
    files, threads = (len(list((folder / part).iterdir())) for part in ("fd", "task"))
    return files, threads, len(children_of(pid))


def interrupted_in_one_session(folder: Path, turns: int) -> None:
    """A host interrupts one turn after another while its command runs; then clew is killed."""
    place = Place(folder)
    with serving(PLAN, strict=True) as server:
        with Hosted(
            folder, server.url, "--allowedTools", "Bash", TMPDIR=str(place.temporary)
        ) as host:
            held = (0, 0, 0)
            for number in range(turns):
                host.say(f"turn {number}")
                until(lambda: len(place.pids()) >= 3 * (number + 1))  # noqa: B023
                host.ask("interrupt")
                assert host.result()["terminal_reason"] == "aborted_tools"
                for pid in place.pids()[3 * number :]:
                    wait_ended(pid)
                if number == turns // 4:
                    files, threads, children_held = held_by(host.process.pid)
                    # The loop's pool of threads grows with what happens at once, to a bound.
                    held = (files, max(threads, POOL_THREADS), children_held)
            # A look may fall on a file that is just being read. What has leaked does not go again.
            until(lambda: all(map(le, held_by(host.process.pid), held)))
            children = children_of(host.process.pid)
            host.process.kill()
            for pid in children:
                wait_ended(pid)
        until(lambda: server.open_connections == 0)
    assert list(place.temporary.iterdir()) == []
    assert [path.name for path in place.work.iterdir()] == ["pids"]


def test_interrupted_turns_of_one_session_leave_nothing_behind(tmp_path: Path) -> None:
    interrupted_in_one_session(tmp_path, 8)


@pytest.mark.crash
def test_two_hundred_interrupted_turns_of_one_session_leave_nothing_behind(tmp_path: Path) -> None:
    interrupted_in_one_session(tmp_path, 200)


@pytest.mark.crash
def test_forty_interrupted_runs_and_kills_leave_nothing_behind(tmp_path: Path) -> None:
    left_nothing(tmp_path, [signal.SIGINT, signal.SIGTERM, signal.SIGINT, signal.SIGKILL] * 10)
