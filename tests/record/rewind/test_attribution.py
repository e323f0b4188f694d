"""Who wrote the lines of files, recorded by runs of the program, and what is made of it."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew
from tests.record.rewind.trips import Trip, bash, edit, read, write
from tests.requirements import requirement

CREDIT = {"attribution": {"commit": "Assisted-by: clew ({share})"}}
COMMIT = 'git add -A && git commit -q -m "Change a.txt\n\nAssisted-by: clew"'


@pytest.fixture
def trip(tmp_path: Path) -> Trip:
    trip = Trip(tmp_path)
    for words in (
        ("init", "-q"),
        ("config", "user.email", "a@b.c"),
        ("config", "user.name", "A"),
        ("commit", "-q", "--allow-empty", "-m", "begin"),
    ):
        git(trip, *words)
    settings = trip.home / "config" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps(CREDIT), "utf-8")
    return trip


def git(trip: Trip, *words: str) -> str:
    ran = subprocess.run(
        ["git", *words], cwd=trip.work, capture_output=True, check=True, encoding="utf-8"
    )
    return ran.stdout


def snapshots(trip: Trip) -> list[dict[str, Any]]:
    return [e for e in trip.entries if e["type"] == "attribution-snapshot"]


def state(trip: Trip, name: str) -> dict[str, Any]:
    """The newest recorded state of a file."""
    states = [s["fileStates"].get(str(trip.work / name)) for s in snapshots(trip)]
    found: dict[str, Any] = [s for s in states if s is not None][-1]
    return found


def why(trip: Trip, name: str, code: int = 0) -> dict[str, Any]:
    ran = trip.run("sessions", "why", name, "--json")
    assert ran.returncode == code, ran.stderr
    told: dict[str, Any] = json.loads(ran.stdout)
    return told


def authors(trip: Trip, name: str) -> list[tuple[int, int, str | None]]:
    """The spans of a file's lines with their prompts; None where others wrote."""
    return [(s["first"], s["last"], s.get("prompt")) for s in why(trip, name)["spans"]]


@requirement("R167", "R173", "R283")
def test_a_run_records_whose_the_lines_are_and_a_resumed_one_continues(trip: Trip) -> None:
    (trip.work / "a.txt").write_text("old 1\nold 2\nold 3\n", "utf-8")
    trip.turn("add", read("a.txt"), edit("a.txt", "old 2\n", "new 1\nnew 2\n"))
    assert state(trip, "a.txt") | {"edits": 0, "contentHash": 0} == {
        "contentHash": 0, "agentLines": 2, "otherLines": 0, "edits": 0,
    }  # fmt: skip
    (recorded,) = snapshots(trip)
    assert recorded["surface"] == "sdk-cli"
    answers = [e["uuid"] for e in trip.entries if e["type"] == "assistant"]
    assert recorded["messageId"] in answers
    # By hand, between two runs: one of clew's lines goes, two come.
    text = "by hand\nold 1\nnew 1\nold 3\nby hand too\n"
    (trip.work / "a.txt").write_text(text, "utf-8")
    trip.turn("append", bash("echo last >> a.txt"))
    counts = state(trip, "a.txt")
    assert (counts["agentLines"], counts["otherLines"]) == (2, 2)
    assert [edit["by"] == "others" for edit in counts["edits"]] == [True, False]
    assert authors(trip, "a.txt") == [
        (1, 1, None), (3, 3, "add"), (5, 5, None), (6, 6, "append"),
    ]  # fmt: skip
    assert "prompt: append" in trip.run("sessions", "why", "a.txt:6").stdout
    assert "no session of this folder" in trip.run("sessions", "why", "a.txt:2").stdout
    assert "line 7 not found" in trip.run("sessions", "why", "a.txt:7").stderr


@requirement("R283")
def test_a_commit_is_credited_with_the_share_of_its_lines(trip: Trip) -> None:
    trip.turn("write", write("a.txt", "1\n2\n3\n"))
    (trip.work / "a.txt").write_text("1\n2\n3\nby hand\n", "utf-8")
    # The share is that of the whole session, of which this is another run.
    trip.turn("commit", bash(COMMIT))
    assert git(trip, "log", "-1", "--format=%b").strip() == "Assisted-by: clew (75%)"
    assert snapshots(trip)[-1]["commit"] == {"agentLines": 3, "otherLines": 1}
    # The model was told the line without a number, and lines count for one commit.
    trip.turn("again", read("a.txt"), edit("a.txt", "2\n", "two\n"), bash(COMMIT))
    assert git(trip, "log", "-1", "--format=%b").strip() == "Assisted-by: clew (100%)"
    assert snapshots(trip)[-1]["commit"] == {"agentLines": 1, "otherLines": 0}
    assert authors(trip, "a.txt") == [(1, 1, "write"), (2, 2, "again"), (3, 3, "write")]
    assert '"totalCommits":2' in trip.transcript.read_text("utf-8")


def test_a_commit_without_lines_of_the_agent_gets_the_plain_credit(trip: Trip) -> None:
    (trip.work / "a.txt").write_text("mine\n", "utf-8")
    trip.turn("commit", bash(COMMIT))
    assert git(trip, "log", "-1", "--format=%b").strip() == "Assisted-by: clew"
    with serving({"scenario": 1, "answers": [{"text": "Hi."}]}, strict=True) as server:
        clew(trip.home, server.url, "-p", "hi")
        told = json.dumps(server.requests[0].body["system"])
    assert "Assisted-by: clew" in told
    assert "share" not in told.partition("Assisted-by: clew")[2][:20]


def test_what_git_brings_back_and_what_is_moved_keeps_its_authors(trip: Trip) -> None:
    trip.turn("write", write("a.txt", "1\n2\n"), bash(COMMIT))
    trip.turn("change", read("a.txt"), edit("a.txt", "2\n", "two\n"))
    trip.turn("restore", bash("git checkout -q a.txt"))
    assert authors(trip, "a.txt") == [(1, 2, "write")]
    trip.turn("move", bash("mv a.txt b.txt"))
    assert authors(trip, "b.txt") == [(1, 2, "write")]
    assert state(trip, "a.txt") == {"contentHash": ""}
    git(trip, "checkout", "-q", "-b", "other", "HEAD~1")
    (trip.work / "theirs.txt").write_text("theirs\n", "utf-8")
    git(trip, "add", "theirs.txt")
    git(trip, "commit", "-q", "-m", "theirs")
    git(trip, "checkout", "-q", "-")
    trip.turn("merge", bash("git merge -q -m merged other"))
    assert (trip.work / "theirs.txt").exists()
    assert why(trip, "theirs.txt", 1)["spans"] == []


def test_a_rewind_and_a_fork_keep_the_authors(trip: Trip) -> None:
    trip.turn("one", write("a.txt", "1\n2\n"))
    trip.turn("two", edit("a.txt", "2", "two"))
    trip.rewind(trip.prompt("two"))
    assert authors(trip, "a.txt") == [(1, 2, "one")]
    trip.turn("three", read("a.txt"), edit("a.txt", "1", "three"))
    assert authors(trip, "a.txt") == [(1, 1, "three"), (2, 2, "one")]
    forked = json.loads(trip.run("sessions", "fork", trip.session, "--json").stdout)
    trip.session = forked["sessionId"]
    trip.turn("four", read("a.txt"), edit("a.txt", "2", "four"))
    assert authors(trip, "a.txt") == [(1, 1, "three"), (2, 2, "four")]
    assert state(trip, "a.txt")["agentLines"] == 2


def test_files_that_cant_be_compared_have_no_authors(trip: Trip) -> None:
    trip.turn("binary", bash(r"printf 'a\0b\n' > a.bin; head -c 2000000 /dev/zero > big.txt"))
    assert why(trip, "a.bin", 1)["spans"] == []
    trip.turn("text", bash("echo text > a.bin"))
    assert why(trip, "a.bin", 1)["spans"] == []
    ran = trip.run("sessions", "why", "missing.txt")
    assert (ran.returncode, "missing.txt" in ran.stderr) == (2, True)


def test_a_share_is_in_no_text_that_the_model_gets(trip: Trip) -> None:
    """It is known only when a commit is made."""
    wanted = {"commit": "Assisted-by: clew ({share})", "pr": "Made with clew [{share}]."}
    settings = trip.home / "config" / "settings.json"
    settings.write_text(json.dumps({"attribution": wanted}), "utf-8")
    with serving({"scenario": 1, "answers": [{"text": "Fine."}]}, strict=True) as server:
        clew(trip.home, server.url, "-p", "hi")
        body = json.dumps(server.requests[0].body)
    assert "Assisted-by: clew" in body
    assert "Made with clew." in body
    assert "{share}" not in body
