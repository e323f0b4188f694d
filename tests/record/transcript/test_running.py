"""The registry of running sessions: written, renamed, cleaned; the kernel tells which are alive."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from clew.record.transcript.running import Registration, Running, find_holder, list_running
from clew.system import clock
from tests.requirements import requirement

SESSION = "0b5c2a1e-7d4f-4e0a-9c57-1f2e3d4c5b6a"
CHILD = """
import os, sys
from pathlib import Path
from clew.record.transcript.running import Registration, Running
r = Registration(Path(sys.argv[1]), Running(pid=os.getpid(), session_id=sys.argv[2], cwd="/w"))
print("ready", flush=True)
sys.stdin.read()
"""


def me(**more: str) -> Running:
    return Running(pid=os.getpid(), session_id=SESSION, cwd="/w", **more)


@requirement("R268")
def test_a_session_is_listed_renamed_and_gone_on_exit(tmp_path: Path) -> None:
    entry = Registration(tmp_path, me(name="first", started_at="2026-01-01T00:00:00Z"))
    assert list(list_running(tmp_path)) == [entry.running]
    entry.update(name="second", status="busy")
    (found,) = list_running(tmp_path)
    assert (found.name, found.status, found.pid) == ("second", "busy", os.getpid())
    since = clock.format_local_timestamp("2026-01-01T00:00:00Z")
    assert str(found) == f"process {os.getpid()} (second) in /w, since {since}"
    entry.leave()
    entry.leave()
    assert list(list_running(tmp_path)) == []
    assert list((tmp_path / "clew" / "running").iterdir()) == []


def test_a_process_can_have_several_sessions_open(tmp_path: Path) -> None:
    other = "1c6d3b2f-8e5a-4f1b-8d68-2a3f4e5d6c7b"
    first = Registration(tmp_path, me())
    second = Registration(tmp_path, Running(pid=os.getpid(), session_id=other, cwd="/w"))
    assert {one.session_id for one in list_running(tmp_path)} == {SESSION, other}
    first.leave()
    assert [one.session_id for one in list_running(tmp_path)] == [other]
    second.leave()


def test_who_is_refused_a_session_is_not_named_as_its_holder(tmp_path: Path) -> None:
    other = Running(pid=999_999_999, session_id=SESSION, cwd="/w")
    held = [Registration(tmp_path, me()), Registration(tmp_path, other)]
    assert find_holder(tmp_path, SESSION) == other
    for one in held:
        one.leave()
    assert find_holder(tmp_path, SESSION) is None


@requirement("R268")
def test_what_a_killed_process_left_is_cleaned_by_the_next_start(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path), SESSION],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdin
    assert child.stdout
    with child.stdin, child.stdout:
        assert child.stdout.readline() == b"ready\n"
        found = find_holder(tmp_path, SESSION)
        assert found is not None
        assert found.pid == child.pid
        child.send_signal(signal.SIGKILL)
        child.wait(10)
    assert (tmp_path / "clew" / "running" / f"{child.pid}-{SESSION}.json").exists()
    Registration(tmp_path, me()).leave()
    assert not (tmp_path / "clew" / "running" / f"{child.pid}-{SESSION}.json").exists()


def test_a_file_that_says_nothing_is_no_session(tmp_path: Path) -> None:
    folder = tmp_path / "clew" / "running"
    folder.mkdir(parents=True)
    (folder / "1.json").write_bytes(b"garbage")
    assert list(list_running(tmp_path)) == []
    entry = Registration(tmp_path, me())
    with (folder / f"{os.getpid()}-{SESSION}.json").open("r+b") as file:
        file.truncate(3)
    assert list(list_running(tmp_path)) == []
    entry.leave()
