"""Keeper and watchers are killed while clew runs: nothing hangs, is misreported or left behind."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from clew.agent.tools.command import CALLED_OFF, UNSEEN, UNWATCHED
from clew.parts.kept_commands import UNWATCHED as LEFT_UNWATCHED
from clew.parts.past_commands import ENDED_WITH_CLEW
from clew.system.process.tree import read_parent
from clew.testing.server import serving
from tests.fronts.headless.agents_model import by_prompt, results, uses
from tests.fronts.headless.clew_process import clew, command, environment, transcripts
from tests.fronts.headless.host_process import Hosted
from tests.fronts.headless.test_kept import (
    TOLD_ONCE,
    begun,
    in_background,
    let_through,
    listed,
    output_of,
    pid_of,
    told,
    waits,
)
from tests.fronts.headless.test_print import entries
from tests.system.process.processes import lives, wait_ended

Json: TypeAlias = dict[str, Any]
GOES_ON = "echo $$ > {0}.pid; exec sleep 600"
SERVE = in_background(GOES_ON.format("a"), description="Serve it")
WAITED_FOR = {"tool": "Bash", "input": {"command": GOES_ON.format("b")}}
ENDED = "Exit code 137 (the shell was killed by SIGKILL)"


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path) -> Iterator[None]:
    yield
    for name in ("a", "b"):
        path = tmp_path / "work" / f"{name}.pid"
        if path.exists() and lives(pid := int(path.read_text("ascii"))):
            os.kill(pid, signal.SIGKILL)


def kill_all_that_watch(*pids: int) -> None:
    """Kill them in this order and at once: a turn that waits for the last must not end before."""
    watchers = [read_parent(pid) for pid in pids]
    (keeper,) = {read_parent(watcher) for watcher in watchers}
    for pid in (keeper, *watchers):
        os.kill(pid, signal.SIGKILL)
    for pid in (keeper, *watchers):
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
            assert ENDED_WITH_CLEW not in heard


def kept(host: Hosted, home: Path) -> int:
    """A kept command without a watcher; the model was notified of that."""
    begun(host, CALL)
    pid = pid_of(home, "a")
    host.ask("keep_task", task_id="s1")
    kill_all_that_watch(pid)
    assert host.result()["result"] == "I heard of it."
    assert lives(pid)
    (row,) = listed(home)
    assert (row["isRunning"], row["isWatched"]) == (True, False)
    return pid


CALL = in_background(waits("a"), description="Serve it")
STOPS = uses({"tool": "TaskStop", "input": {"task_id": "s1"}})
PLAN = {"go": [uses(CALL), {"text": "begun"}], "stop": [STOPS, {"text": "done"}], **TOLD_ONCE}


@pytest.mark.parametrize("end", ["by itself", "by the model", "from elsewhere"])
def test_a_kept_command_that_nobody_watches_runs_on_and_is_said_to(
    tmp_path: Path, end: str
) -> None:
    with (
        serving(by_prompt(PLAN), strict=True) as server,
        Hosted(tmp_path, server.url, "--allowedTools", "Bash") as host,
    ):
        pid = kept(host, tmp_path)
        assert UNWATCHED in told(server.requests[-1].body)
        if end == "by itself":
            let_through(tmp_path, "a")
        elif end == "by the model":
            host.say("stop")
        else:
            assert "stopped" in clew(tmp_path, server.url, "tasks", "stop", "s1").stdout
        wait_ended(pid)
        assert host.result()["result"] == ("done" if end == "by the model" else "I heard of it.")
        said = told(server.requests[-1].body)
        how = CALLED_OFF if end == "from elsewhere" else UNSEEN
        assert (f"Background shell “Serve it” stopped: {how}" in said) == (end != "by the model")
        assert output_of(tmp_path, "s1") == ("up\nafter\n" if end == "by itself" else "up\n")
        host.end()
    assert listed(tmp_path) == []


def test_a_kept_command_that_nobody_watches_outlives_the_session(tmp_path: Path) -> None:
    with serving(by_prompt(PLAN), strict=True) as server:
        with Hosted(tmp_path, server.url, "--allowedTools", "Bash") as host:
            pid = kept(host, tmp_path)
            assert host.end() == 0
        assert lives(pid)
        clew(tmp_path, server.url, "-p", "--continue", "and now")
        assert LEFT_UNWATCHED in told(server.requests[-1].body)
    assert "stopped" in clew(tmp_path, "http://127.0.0.1:1", "tasks", "stop", "s1").stdout
    wait_ended(pid)
