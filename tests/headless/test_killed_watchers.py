"""Keeper and watchers of the commands are killed under a running clew: nothing hangs, lies or is left."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from clew.process.table import parent
from clew.testing.server import serving
from tests.headless.agents_model import by_prompt, results, uses
from tests.headless.clew_process import clew, command, environment, transcripts
from tests.headless.test_kept import in_background, listed, pid_of, told
from tests.headless.test_print import entries
from tests.process.processes import lives, wait_ended

Json: TypeAlias = dict[str, Any]
GOES_ON = "echo $$ > {0}.pid; exec sleep 600"
SERVE = in_background(GOES_ON.format("a"), description="Serve it")
WAITED_FOR = {"tool": "Bash", "input": {"command": GOES_ON.format("b")}}
ENDED = "Exit code 137 (the shell was ended by SIGKILL)"


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path) -> Iterator[None]:
    yield
    for name in ("a", "b"):
        path = tmp_path / "work" / f"{name}.pid"
        if path.exists() and lives(pid := int(path.read_text("ascii"))):
            os.kill(pid, signal.SIGKILL)


def kill_all_that_watch(*pids: int) -> None:
    watchers = {parent(pid) for pid in pids}
    (keeper,) = {parent(watcher) for watcher in watchers}
    for pid in (keeper, *watchers):
        os.kill(pid, signal.SIGKILL)
        wait_ended(pid)


def test_a_command_that_is_waited_for_and_one_beside_it_end_and_are_told_of(tmp_path: Path) -> None:
    plan = {
        "go": [uses(SERVE), uses(WAITED_FOR), lambda body: {"text": results(body)[0]}],
        "<task-notification>": [{"text": "I heard of it."}],
        "and now": [{"text": "I heard."}],
    }
    (tmp_path / "work").mkdir()
    with serving(by_prompt(plan), strict=True) as server:
        process = subprocess.Popen(
            command("-p", "--allowedTools=Bash", "go"),
            cwd=tmp_path / "work",
            env=environment(tmp_path, server.url),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        pids = [pid_of(tmp_path, name) for name in ("a", "b")]
        kill_all_that_watch(*pids)
        process.communicate(timeout=60)
        assert process.returncode == 0
        for pid in pids:
            wait_ended(pid)
        (log,) = transcripts(tmp_path)
        (waited_for,) = [
            entry["toolUseResult"]
            for entry in entries(log)
            if "b.pid" not in str(entry) and "Exit code 137" in str(entry.get("toolUseResult"))
        ]
        assert ENDED in str(waited_for)
        assert listed(tmp_path) == []
        for _ in range(2):
            assert clew(tmp_path, server.url, "-p", "--continue", "and now").stdout == "I heard.\n"
            heard = told(server.requests[-1].body)
            assert heard.count(f"Background shell “Serve it” failed: {ENDED}") == 1
            assert "it ended with the clew" not in heard
