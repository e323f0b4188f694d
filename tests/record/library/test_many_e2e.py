"""Ten thousand sessions through the real command: all of them listed, searched, moved and counted."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.commands.sessions.place import CLEW
from tests.record.library.many import generate

SESSIONS = 10_000


def run(home: Path, cwd: Path, *words: str, code: int = 0) -> Any:
    done = subprocess.run(
        [CLEW, "sessions", *words, "--json"],
        cwd=cwd,
        env={**os.environ, "CLEW_CONFIG_DIR": str(home)},
        capture_output=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert b"Traceback" not in done.stderr
    return json.loads(done.stdout)


@pytest.mark.e2e
def test_ten_thousand_sessions_are_at_hand(tmp_path: Path) -> None:
    home, cwd = tmp_path / "home", tmp_path / "work"
    cwd.mkdir()
    made = generate(home, sessions=SESSIONS, projects=40, entries=6, words=60)
    one = made[4321]
    for path in made:
        os.utime(path, (1e9, 1e9))
    os.utime(one, (2e9, 2e9))

    listed = run(home, cwd, "list", "--all", "--limit", "50")
    assert (len(listed), listed[0]["sessionId"]) == (50, one.stem)
    assert len(run(home, cwd, "list", "--all")) == SESSIONS
    assert run(home, cwd, "list", "--hidden", "--all") == []

    wanted = ("search", '"task number 4321"')
    behind = run(home, cwd, *wanted)
    assert [hit["sessionId"] for hit in behind["hits"]] == [one.stem]
    assert behind["unindexedBytes"] > 0
    total = sum(path.stat().st_size for path in made)
    assert run(home, cwd, "index")["readBytes"] == total
    known = run(home, cwd, *wanted)
    assert known["unindexedBytes"] == 0
    assert known["hits"] == behind["hits"]
    assert run(home, cwd, *wanted, "--no-index")["hits"] == known["hits"]
    assert len(run(home, cwd, "search", "task", "--limit", "10000")["hits"]) == SESSIONS

    numbers = run(home, cwd, "stats")
    assert numbers["sessions"] == SESSIONS
    assert numbers["prompts"] == SESSIONS * 3
    assert numbers["responses"] == SESSIONS * 3

    gone = {place["cwd"]: place["sessions"] for place in run(home, cwd, "relocate")}
    assert gone == {f"/work/p{n}": SESSIONS // 40 for n in range(40)}
    moved = run(home, cwd, "relocate", "/work/p1", str(cwd))
    assert len(moved["moved"]) == SESSIONS // 40
    assert len(run(home, cwd, "list")) == SESSIONS // 40
    assert run(home, cwd, *wanted)["hits"][0]["path"].startswith(str(home))
    assert len(run(home, cwd, "list", "--all")) == SESSIONS
