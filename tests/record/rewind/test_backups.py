"""What another tool's rewind finds in clew's sessions: snapshots by prompt, and plain copies.

`restored` does what such a tool does, with nothing of clew's: the newest line for a prompt names
each file's copy, and a file that only later prompts name goes back to its first copy.
"""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.record.rewind.trips import Trip, bash, edit, write
from tests.requirements import requirement

Backups = dict[str, dict[str, Any]]


@pytest.fixture
def trip(tmp_path: Path) -> Trip:
    return Trip(tmp_path)


def snapshots(trip: Trip) -> dict[str, Backups]:
    """The files of each prompt with a snapshot, in the order of prompts."""
    found: dict[str, Backups] = {}
    for entry in trip.entries:
        if entry["type"] == "file-history-snapshot":
            snapshot = entry["snapshot"]
            assert entry["messageId"] == snapshot["messageId"]
            assert entry["isSnapshotUpdate"] is (snapshot["messageId"] in found)
            found[snapshot["messageId"]] = dict(snapshot["trackedFileBackups"])
        elif entry["type"] == "file-history-delta":
            found[entry["snapshotMessageId"]][entry["trackingPath"]] = entry["backup"]
    return found


def restored(trip: Trip, prompt: str) -> dict[str, str | None]:
    """The content and mode of every known file at a prompt; None where there was no file."""
    known = snapshots(trip)
    at = known[trip.prompt(prompt)]
    first: Backups = {}
    for files in known.values():
        first = files | first
    folder = trip.home / "config" / "file-history" / trip.session
    states: dict[str, str | None] = {}
    for path, oldest in first.items():
        backup = at.get(path) or next(
            files[path] for files in known.values() if path in files and oldest
        )
        assert backup["realParentDir"] == os.path.realpath((trip.work / path).parent)
        name = backup["backupFileName"]
        copy = folder / str(name)
        states[path] = (
            None
            if name is None
            else f"{copy.stat().st_mode & 0o777:o} {copy.read_text(encoding='utf-8')}"
        )
    return states


@requirement("R282")
def test_every_prompt_can_be_restored_by_other_tools(trip: Trip) -> None:
    script = trip.work / "run.sh"
    script.write_text("echo one\n", encoding="utf-8")
    script.chmod(0o755)
    before: dict[str, dict[str, str]] = {}

    def turn(prompt: str, *calls: dict[str, Any]) -> None:
        before[prompt] = trip.files()
        trip.turn(prompt, *calls)

    turn("look around", bash("ls"))
    assert snapshots(trip) == {}
    turn("begin", write("new.txt", "1\n"), edit("run.sh", "one", "two"))
    turn("only talk")
    turn("go on", edit("new.txt", "1", "2"), bash("rm run.sh; mkdir sub; echo deep > sub/x"))
    script.write_text("by hand\n", encoding="utf-8")
    script.chmod(0o600)
    turn("last", bash("echo 3 > new.txt; echo more >> run.sh"))
    for prompt, files in before.items():
        expected = {path: files.get(path) for path in ("new.txt", "run.sh", "sub/x")}
        assert restored(trip, prompt) == expected, prompt
    # clew's own rewind changes files too; the snapshot of the next prompt knows them.
    trip.rewind(trip.prompt("go on"), "--files", "--force")
    turn("after a rewind", bash("echo 4 > new.txt"))
    assert restored(trip, "after a rewind")["new.txt"] == before["after a rewind"]["new.txt"]
    assert trip.run("sessions", "prune", trip.session, "--yes").returncode == 0
    assert list((trip.home / "config" / "file-history").iterdir()) == []


@requirement("R282")
def test_many_files_of_one_turn_take_a_line_each(trip: Trip) -> None:
    trip.turn("make", *(write(f"f{i}.txt", f"{i}\n") for i in range(25)))
    kinds = [entry["type"] for entry in trip.entries]
    assert kinds.count("file-history-snapshot") == 20
    assert kinds.count("file-history-delta") == 5
    assert restored(trip, "make") == {f"f{i}.txt": None for i in range(25)}
