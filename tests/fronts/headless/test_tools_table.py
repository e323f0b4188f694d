"""Every tool in the real program: what the model receives, with requests to a strict service.

There is one row for each tool that a session offers, or a separate test that uses it; a tool with
neither fails a test here.
"""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from clew.agent.tools.files import CHANGED
from clew.agent.tools.registry import make_builtin_tools
from clew.system.files import NOT_REGULAR
from clew.testing.server import serving
from tests.agent.tools.pictures import png
from tests.fronts.headless.clew_process import IMPATIENT, command, environment, transcripts
from tests.fronts.headless.test_print import entries, scenario

NOTEBOOK = (
    '{"cells": [{"cell_type": "code", "id": "a", "metadata": {}, "outputs": [], "source": "1"}],'
    ' "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
)
READ = ("Read", {"file_path": "a.txt"})
BEGIN = ("Bash", {"command": "echo up; sleep 600", "run_in_background": True})

# Calls in order, and what the last one's result must hold.
ROWS: dict[str, tuple[list[tuple[str, dict[str, Any]]], str]] = {
    "Bash": ([("Bash", {"command": "echo $((6 * 7)); cat a.txt"})], "42\none"),
    "Edit": ([READ, ("Edit", {"file_path": "a.txt", "old_string": "one", "new_string": "1"})], "1 replacement"),
    "Glob": ([("Glob", {"pattern": "*.txt"})], "a.txt"),
    "Grep": ([("Grep", {"pattern": "w.", "output_mode": "content"})], "a.txt:2:two"),
    "LS": ([("LS", {"path": "."})], "a.txt (8 bytes)"),
    "Monitor": ([("Monitor", {"command": "sleep 600"})], "runs in the background as task m1"),
    "MultiEdit": (
        [READ, ("MultiEdit", {"file_path": "a.txt", "edits": [
            {"old_string": "one", "new_string": "1"}, {"old_string": "two", "new_string": "2"}]})],
        "2 replacements",
    ),
    "NotebookEdit": (
        [("Read", {"file_path": "n.ipynb"}),
         ("NotebookEdit", {"notebook_path": "n.ipynb", "cell_id": "a", "new_source": "2"})],
        "Replaced cell a",
    ),
    "PowerShell": ([("PowerShell", {"command": "Get-Date"})], "-EncodedCommand"),
    "Read": ([READ], "1\tone\n2\ttwo"),
    "TaskOutput": ([BEGIN, ("TaskOutput", {"task_id": "s1", "timeout": 200})], "is running."),
    "TaskStop": ([BEGIN, ("TaskStop", {"task_id": "s1"})], "was stopped."),
    "TodoWrite": (
        [("TodoWrite", {"todos": [{"content": "a", "status": "pending", "activeForm": "b"}]})],
        "0 of 1 done",
    ),
    "Write": ([("Write", {"file_path": "new/b.txt", "content": "b\n"})], "Created"),
}  # fmt: skip


def project(home: Path) -> Path:
    work = home / "work"
    work.mkdir()
    (work / "a.txt").write_text("one\ntwo\n", "utf-8")
    (work / "n.ipynb").write_text(NOTEBOOK, "utf-8")
    (work / "a.png").write_bytes(png(3, 3))
    return work


def played(
    home: Path, calls: list[tuple[str, dict[str, Any]]], **more: Any
) -> list[dict[str, Any]]:
    """Return the results that the model received, in order; the turn must have succeeded."""
    steps = [{"content": [{"tool": tool, "input": given}]} for tool, given in calls]
    with serving(scenario(*steps, {"text": "Done."}), strict=True) as server:
        done = subprocess.run(
            command("-p", "go", "--dangerously-skip-permissions"),
            cwd=home / "work", env=environment(home, server.url) | {"IS_SANDBOX": "1"} | IMPATIENT | more,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, encoding="utf-8",
            timeout=100, check=False,
        )  # fmt: skip
        messages = server.requests[-1].body["messages"]
    assert (done.stdout, done.returncode) == ("Done.\n", 0), done.stderr
    found = [b for m in messages if m["role"] == "user" for b in m["content"]]
    return [block for block in found if block["type"] == "tool_result"]


@pytest.mark.parametrize("name", ROWS)
def test_each_tool_does_its_work_through_the_program(name: str, tmp_path: Path) -> None:
    work = project(tmp_path)
    calls, expected = ROWS[name]
    assert calls[-1][0] == name
    more = {}
    if name == "PowerShell":
        (work / "pwsh").write_text('#!/bin/sh\necho "$@"\n', "utf-8")
        (work / "pwsh").chmod(0o755)
        more = {"PATH": f"{work}{os.pathsep}{os.environ['PATH']}"}
    result = played(tmp_path, calls, **more)[-1]
    assert "is_error" not in result, result
    assert expected in str(result["content"]).replace("\\t", "\t").replace("\\n", "\n")
    (log,) = transcripts(tmp_path)
    last = [entry for entry in entries(log) if "toolUseResult" in entry][-1]
    assert last["message"]["content"][0]["tool_use_id"] == result["tool_use_id"]


def test_no_tool_is_without_a_row() -> None:
    here = Path(__file__)
    fronts = (here.parent, here.parent.with_name("terminal"))
    others = "".join(
        path.read_text("utf-8")
        for folder in fronts
        for path in folder.glob("test_*.py")
        if path != here
    )
    offered = {tool.name for tool in make_builtin_tools()}
    assert {name for name in offered - ROWS.keys() if f'"{name}"' not in others} == set()


# -- what goes wrong is a result, and the session goes on

WRONG: dict[str, tuple[list[tuple[str, dict[str, Any]]], str]] = {
    "no such tool": ([("Reed", {"file_path": "a"})], "Did you mean Read?"),
    "no such field": ([("Read", {"path": "a.txt"})], "missing: file_path"),
    "a field of another kind": ([("Bash", {"command": ["ls"]})], "command: Expected a string"),
    "a loop of links": (
        [("Bash", {"command": "ln -s loop loop"}), ("Read", {"file_path": "loop"})],
        "which file this is",
    ),
    "a folder that is gone": (
        [("Bash", {"command": "mkdir gone; cd gone"}), ("Bash", {"command": "rmdir ../gone"}),
         ("Grep", {"pattern": "x"})],
        "File or folder not found",
    ),
    "a project that is gone": (
        [("Bash", {"command": "python3 -c 'import os, shutil; shutil.rmtree(os.getcwd())'"}), ("Read", {"file_path": "a.txt"})],
        "Its folder",
    ),
    "a name with a nul": ([("Read", {"file_path": "a\0b"})], "which file this is"),
    "a pipe nobody writes to": (
        [("Bash", {"command": "mkfifo pipe"}), ("Read", {"file_path": "pipe"})], NOT_REGULAR,
    ),
    "a device without end": ([("Read", {"file_path": "/dev/zero"})], NOT_REGULAR),
    "a command that hangs": ([("Bash", {"command": "sleep 600", "timeout": 300})], "Timed out"),
    "a pattern that is none": ([("Grep", {"pattern": "("})], "The search failed"),
    "a task that is not there": ([("TaskOutput", {"task_id": "s9"})], "Task s9 not found"),
    "a file changed under the edit": (
        [READ, ("Bash", {"command": "echo x >> a.txt"}),
         ("Edit", {"file_path": "a.txt", "old_string": "one", "new_string": "1"})],
        CHANGED,
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_what_goes_wrong_is_a_result_and_the_session_continues(what: str, tmp_path: Path) -> None:
    project(tmp_path)
    calls, says = WRONG[what]
    results = played(tmp_path, [*calls, ("Bash", {"command": "echo goes on"})])
    wrong, after = results[-2:]
    assert wrong["is_error"] is True
    assert says in wrong["content"]
    assert "goes on" in after["content"]


def test_a_gigabyte_of_output_is_two_ends_and_a_file(tmp_path: Path) -> None:
    project(tmp_path)
    flood = "yes 'a line of some length, over and over' | head -c 1100000000"
    results = played(
        tmp_path, [("Bash", {"command": flood}), ("Bash", {"command": "echo goes on"})]
    )
    assert len(results[0]["content"]) < 31_000
    assert "the first 1,073,741,824 bytes are in" in results[0]["content"]
    assert results[1]["content"] == "goes on"
    (log,) = transcripts(tmp_path)
    assert log.stat().st_size < 200_000


def test_a_full_disk_under_the_program_is_told_by_every_tool_that_writes(tmp_path: Path) -> None:
    """No file may grow beyond 64 KiB, as on a disk that is nearly full."""
    project(tmp_path)
    big = "x" * 100_000
    steps = [
        {"content": [{"tool": tool, "input": given}]}
        for tool, given in [
            ("Write", {"file_path": "big.txt", "content": big}),
            ("Read", {"file_path": "a.txt"}),
            ("Edit", {"file_path": "a.txt", "old_string": "one", "new_string": big}),
            ("Bash", {"command": "seq 1 20000"}),
            ("Bash", {"command": "seq 1 20000; sleep 600", "run_in_background": True}),
            ("Bash", {"command": "echo goes on"}),
        ]
    ]
    with serving(scenario(*steps, {"text": "Done."}), strict=True) as server:
        limited = "import resource, signal, os, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536)); os.execv(sys.executable, sys.argv[1:])"
        argv = command("-p", "go", "--dangerously-skip-permissions", "--no-session-persistence")
        done = subprocess.run(
            [argv[0], "-c", limited, *argv],
            cwd=tmp_path / "work",
            env=environment(tmp_path, server.url) | {"IS_SANDBOX": "1"} | IMPATIENT,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, encoding="utf-8",
            timeout=100, check=False,
        )  # fmt: skip
        messages = server.requests[-1].body["messages"]
    assert done.stdout == "Done.\n", done.stderr
    said = [
        str(b["content"])
        for m in messages
        if m["role"] == "user"
        for b in m["content"]
        if b["type"] == "tool_result"
    ]
    assert "Can't write" in said[0]
    assert "Can't write" in said[2]
    assert said[3].startswith("1\n2\n")
    assert "could not be saved" in said[3]
    assert "as task s1" in said[4]
    assert said[5] == "goes on"
    assert (tmp_path / "work" / "a.txt").read_text("utf-8") == "one\ntwo\n"
    assert not (tmp_path / "work" / "big.txt").exists()
