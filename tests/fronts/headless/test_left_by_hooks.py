"""What hooks and servers leave running after clew: daemons, and background hooks for a while.

Everything else ends with clew, however clew ends, even if it was put in the background.
"""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, command, environment, until
from tests.fronts.headless.test_hooks import at, settings
from tests.fronts.headless.test_hooks import command as hook_command
from tests.system.process.processes import lives, wait_ended

HELLO = {"scenario": 1, "answers": [{"text": "Hello!", "times": "always"}]}
# Two processes: a daemon, and one that only runs in the background.
STARTS = (
    "cd; setsid sleep 300 >/dev/null 2>&1 & echo $! > daemon; "
    "sleep 300 >/dev/null 2>&1 & echo $! > background; "
)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for name in ("daemon", "background", "hook"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, ValueError):
            os.kill(pid_of(tmp_path, name), signal.SIGKILL)


def pid_of(home: Path, name: str) -> int:
    return int((home / name).read_text("utf-8"))


def test_a_daemon_of_a_hook_outlives_clew_and_nothing_else_does(home: Path) -> None:
    settings(home, at("SessionStart", hook_command(f"{STARTS} true")))
    with serving(HELLO) as server:
        assert clew(home, server.url, "-p", "hi").stdout == "Hello!\n"
    wait_ended(pid_of(home, "background"))
    assert lives(pid_of(home, "daemon"))
    # Its watcher ends with it.
    watcher = int(Path(f"/proc/{pid_of(home, 'daemon')}/stat").read_text("utf-8").split()[3])
    os.kill(pid_of(home, "daemon"), signal.SIGTERM)
    wait_ended(watcher)


def test_a_daemon_outlives_a_clew_that_was_killed(home: Path) -> None:
    settings(home, at("SessionStart", hook_command(f"{STARTS} true")))
    faults = [{"after_events": 3, "stall_s": "forever"}]
    stall = {"scenario": 1, "answers": [{"text": "x", "faults": faults}]}
    (home / "work").mkdir(exist_ok=True)
    with serving(stall) as server:
        process = subprocess.Popen(
            command("-p", "hi"), cwd=home / "work", env=environment(home, server.url),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        until(lambda: (home / "background").exists() and (home / "background").read_text("utf-8"))
        until(lambda: server.requests)
        process.kill()
        process.wait()
    wait_ended(pid_of(home, "background"))
    assert lives(pid_of(home, "daemon"))


@pytest.mark.parametrize("event", ["Stop", "SessionEnd"])
def test_a_background_hook_ends_its_work_after_clew(home: Path, event: str) -> None:
    work = hook_command("cd; echo $$ > hook; sleep 1; echo done > result", **{"async": True})
    settings(home, at(event, work))
    with serving(HELLO) as server:
        assert clew(home, server.url, "-p", "hi").stdout == "Hello!\n"
    until((home / "result").exists)
    wait_ended(pid_of(home, "hook"))


def test_a_background_hook_has_no_more_than_its_time(home: Path) -> None:
    hangs = hook_command("cd; echo $$ > hook; sleep 300", **{"async": True, "timeout": 1})
    settings(home, at("Stop", hangs))
    with serving(HELLO) as server:
        assert clew(home, server.url, "-p", "hi").stdout == "Hello!\n"
    until(lambda: (home / "hook").exists() and (home / "hook").read_text("utf-8"))
    wait_ended(pid_of(home, "hook"))


def test_the_servers_of_a_plugin_get_its_folder(home: Path) -> None:
    plugin = home / "plugin"
    (plugin / ".claude-plugin").mkdir(parents=True)
    (plugin / ".claude-plugin" / "plugin.json").write_text('{"name": "helper"}', "utf-8")
    told = home / "told"
    script = f'printf \'%s %s\' "$CLAUDE_PLUGIN_ROOT" "$CLAUDE_PLUGIN_DATA" > {told}; exit 1'
    servers = {"mcpServers": {"memo": {"command": "sh", "args": ["-c", script]}}}
    (plugin / ".mcp.json").write_text(json.dumps(servers), "utf-8")
    with serving(HELLO) as server:
        clew(home, server.url, "-p", "hi", "--plugin-dir", str(plugin))
    root, data = told.read_text("utf-8").split()
    assert root == str(plugin)
    assert "helper" in data


def test_a_hook_may_ask_for_the_background_in_its_first_line(home: Path) -> None:
    """As published: the rest of the output is the reply, for the next request after it came."""
    asks = json.dumps({"async": True, "asyncTimeout": 20_000})
    reply = {"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": "LATE"}}
    script = home / "asks"
    script.write_text(
        f"#!/bin/sh\ncd\necho $$ > hook\necho '{asks}'\nuntil test -e seen; do sleep 0.05; done\n"
        f"echo '{json.dumps(reply)}'\n",
        "utf-8",
    )
    script.chmod(0o755)
    settings(home, at("SessionStart", hook_command(str(script))))
    wait = f"touch {home}/seen; while kill -0 $(cat {home}/hook) 2>/dev/null; do sleep 0.05; done"
    answers = [
        {"content": [{"tool": "Bash", "input": {"command": f"{wait}; sleep 0.3"}}]},
        {"text": "Done."},
    ]
    with serving({"scenario": 1, "answers": answers}) as server:
        done = clew(home, server.url, "-p", "hi", "--allowedTools", "Bash")
        bodies = [json.dumps(request.body) for request in server.requests if request.body]
    assert (done.stdout, done.stderr) == ("Done.\n", "")
    # The first request waited for nothing.
    assert ["LATE" in body for body in bodies] == [False, True]


def test_a_hook_in_the_background_has_the_time_that_it_asked_for(home: Path) -> None:
    asks = json.dumps({"async": True, "asyncTimeout": 300})
    hangs = hook_command(f"cd; echo $$ > hook; echo '{asks}'; sleep 300")
    settings(home, at("UserPromptSubmit", hangs))
    looks = f"sleep 1.5; kill -0 $(cat {home}/hook) && echo ALIVE || echo DEAD"
    answers = [{"content": [{"tool": "Bash", "input": {"command": looks}}]}, {"text": "Done."}]
    with serving({"scenario": 1, "answers": answers}) as server:
        done = clew(home, server.url, "-p", "hi", "--allowedTools", "Bash")
        last = json.dumps(server.requests[-1].body["messages"][-1])
    assert done.stdout == "Done.\n"
    assert "DEAD" in last
