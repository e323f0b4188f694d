"""Sessions of another program: clew rewinds their files from the copies that this program made.

The other program's session is one of clew's without what only clew records. A real one is rewound
in tests/compat/oracle/test_rewinding.py.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from clew.record.rewind.others import GONE, MOVED, NO_COPY
from tests.record.rewind.trips import Trip, bash, edit, read, write

OWN = ("clew-session", "prompt-hashes", "file-change", "request-cost", "tool-started")


@pytest.fixture
def trip(tmp_path: Path) -> Trip:
    """Three turns: two files are made, changed and deleted."""
    trip = Trip(tmp_path)
    trip.turn("one", write("a", "1\n"))
    trip.turn("two", read("a"), edit("a", "1", "2"), write("b", "new\n"))
    trip.turn("three", read("a"), write("a", "3\n"), bash("chmod 600 a; rm b"))
    as_other_program(trip)
    return trip


def as_other_program(trip: Trip, *, has_copies: bool = True) -> None:
    """Take out of the transcript and the config home what only clew records."""
    kept: list[dict[str, Any]] = []
    for entry in trip.entries:
        if entry["type"] in OWN:
            continue
        if entry["type"].startswith("file-history"):
            if not has_copies:
                continue
            del entry["sessionId"]
        kept.append(entry)
    lines = "".join(json.dumps(entry) + "\n" for entry in kept)
    trip.transcript.write_text(lines, "utf-8")
    shutil.rmtree(trip.home / "config" / "clew" / "files")


def test_files_return_to_their_state_before_each_prompt(trip: Trip) -> None:
    last = trip.files()
    assert last == {"a": "600 3\n"}
    trip.rewind(trip.prompt("three"))
    assert trip.files() == {"a": "644 2\n", "b": "644 new\n"}
    trip.rewind(trip.prompt("two"))
    assert trip.files() == {"a": "644 1\n"}
    trip.rewind(trip.prompt("one"), "--files")
    assert trip.files() == {}
    for _ in range(3):
        trip.rewind("--redo")
    assert trip.files() == last


def test_a_turn_of_clew_follows(trip: Trip) -> None:
    trip.turn("four", read("a"), write("a", "4\n"), write("c", "new\n"))
    (trip.work / "c").write_text("mine\n", "utf-8")
    assert "outside clew" in json.dumps(trip.rewind(trip.prompt("two"), code=1))
    trip.rewind(trip.prompt("two"), "--force")
    assert trip.files() == {"a": "644 1\n"}
    trip.rewind("--redo")
    assert trip.files() == {"a": "600 4\n", "c": "644 mine\n"}


def test_what_cannot_be_restored_is_named(trip: Trip) -> None:
    copies = trip.home / "config" / "file-history" / trip.session
    for copy in copies.glob("*@v2"):
        copy.unlink()
    refused = trip.rewind(trip.prompt("two"), "--files", code=1)
    assert GONE in json.dumps(refused)
    assert trip.files() == {"a": "600 3\n"}


def test_a_folder_that_is_now_a_link_is_left_alone(tmp_path: Path) -> None:
    trip = Trip(tmp_path)
    trip.turn("one", write("in/a", "1\n"))
    trip.turn("two", read("in/a"), write("in/a", "2\n"))
    as_other_program(trip)
    (trip.work / "in").rename(trip.home / "elsewhere")
    (trip.work / "in").symlink_to(trip.home / "elsewhere")
    assert MOVED in json.dumps(trip.rewind(trip.prompt("two"), "--files", code=1))
    assert (trip.home / "elsewhere" / "a").read_text("utf-8") == "2\n"


def test_changes_without_copies_are_named(tmp_path: Path) -> None:
    trip = Trip(tmp_path)
    trip.turn("one", write("a", "1\n"))
    trip.turn("two", read("a"), edit("a", "1", "2"), edit("b", "x", "y"))
    as_other_program(trip, has_copies=False)
    refused = json.dumps(trip.rewind(trip.prompt("two"), "--files", code=1))
    assert NO_COPY in refused
    assert str(trip.work / "b") not in refused  # That call failed.
    trip.turn("three", read("a"), write("a", "3\n"))
    trip.rewind(trip.prompt("three"), "--files")
    assert trip.files() == {"a": "644 2\n"}


def test_lines_of_any_shape_are_harmless(trip: Trip) -> None:
    odd: list[Any] = [
        {"snapshot": 5}, {"snapshot": {"messageId": 5, "trackedFileBackups": 5}},
        {"snapshot": {"messageId": trip.prompt("two"), "trackedFileBackups": {"x": 5, "": {}}}},
        {
            "snapshot": {
                "messageId": trip.prompt("two"),
                "trackedFileBackups": {"y": {"backupFileName": "../../../etc/passwd"}},
            }
        },
    ]  # fmt: skip
    with trip.transcript.open("a", encoding="utf-8") as file:
        for fields in odd:
            file.write(json.dumps({"type": "file-history-snapshot", **fields}) + "\n")
        file.write(json.dumps({"type": "file-history-delta", "trackingPath": 5}) + "\n")
        call = {"type": "tool_use", "name": "Write", "input": 5}
        message = {"role": "assistant", "content": [5, call]}
        file.write(json.dumps({"type": "assistant", "uuid": "x", "message": message}) + "\n")
    trip.rewind(trip.prompt("two"), "--files")
    assert trip.files() == {"a": "644 1\n"}
