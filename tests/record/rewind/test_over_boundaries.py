"""A rewind past a compaction boundary.

Compacted messages are live again, and a redo hides them again.
"""

import json
from pathlib import Path
from typing import Any

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew
from tests.record.rewind.trips import ALLOWED, Trip, edit, read, write

SUMMARY = "<summary>" + "They asked for files and got them, one after another. " * 3 + "</summary>"


def slash(trip: Trip, line: str, url: str = "http://127.0.0.1:9") -> str:
    done = clew(trip.home, url, "-p", line, "--resume", trip.session)
    assert done.returncode == 0, (line, done.stdout, done.stderr)
    return done.stdout + done.stderr


def sent(trip: Trip) -> str:
    bodies: list[dict[str, Any]] = []
    plan = {"scenario": 1, "answers": [{"text": "Well."}]}
    with serving(plan, strict=True, on_request=lambda r: bodies.append(r.body)) as server:
        done = clew(trip.home, server.url, "-p", "and now", ALLOWED, "--resume", trip.session)
    assert done.returncode == 0, done.stderr
    return json.dumps(bodies[-1]["messages"])


def test_a_rewind_leads_after_a_summary_and_a_redo_before_it_again(tmp_path: Path) -> None:
    trip = Trip(tmp_path)
    trip.turn("one", write("a", "1\n"))
    trip.turn("two", read("a"), edit("a", "1", "2"))
    with serving({"scenario": 1, "answers": [{"text": SUMMARY, "times": "always"}]}) as server:
        slash(trip, "/compact", server.url)
    trip.turn("three", read("a"), edit("a", "2", "3"))
    slash(trip, f"/rewind {trip.prompt('two')[:8]} both")
    assert trip.files() == {"a": "644 1\n"}
    request = sent(trip)
    assert "They asked for files" not in request
    assert "one: done." in request
    assert "two: done." not in request
    slash(trip, "/rewind redo")
    assert trip.files() == {"a": "644 3\n"}
    request = sent(trip)
    assert "They asked for files" in request
    assert "three: done." in request
    assert "one: done." not in request
    slash(trip, f"/rewind {trip.prompt('three')[:8]} both")
    assert trip.files() == {"a": "644 2\n"}
    request = sent(trip)
    assert "They asked for files" in request
    assert "three: done." not in request


def todos(*wanted: tuple[str, str]) -> dict[str, Any]:
    listed = [{"content": c, "status": s, "activeForm": f"{c}..."} for c, s in wanted]
    return {"tool": "TodoWrite", "input": {"todos": listed}}


def listed_before(trip: Trip) -> list[str]:
    """What the list held when the last call wrote it anew, as the tool itself knew it."""
    raw = [e["toolUseResult"] for e in trip.entries if "newTodos" in (e.get("toolUseResult") or ())]
    return [todo["content"] for todo in raw[-1]["oldTodos"]]


def test_the_list_of_tasks_outlives_a_summary_and_goes_back_with_the_conversation(
    tmp_path: Path,
) -> None:
    trip = Trip(tmp_path)
    trip.turn("one", todos(("north", "in_progress"), ("south", "pending")))
    trip.turn("long " + "word " * 500)
    with serving({"scenario": 1, "answers": [{"text": SUMMARY, "times": "always"}]}) as server:
        slash(trip, "/compact", server.url)
    trip.turn("two", todos(("south", "pending"), ("east", "pending")))
    assert listed_before(trip) == ["north", "south"]
    # Behind the boundary, to where only what was told again knows of the list.
    slash(trip, f"/rewind {trip.prompt('two')[:8]} conversation")
    trip.turn("three", todos(("west", "pending")))
    assert listed_before(trip) == ["north", "south"]
    # Over the boundary, to before there was one.
    slash(trip, f"/rewind {trip.prompt('one')[:8]} conversation")
    trip.turn("four", todos(("roof", "pending")))
    assert listed_before(trip) == []


def test_going_back_into_what_was_summarised_after_a_kept_beginning_stays_there(
    tmp_path: Path,
) -> None:
    trip = Trip(tmp_path)
    for word in ("one", "two", "three " + "word " * 500):
        trip.turn(word)
    with serving({"scenario": 1, "answers": [{"text": SUMMARY, "times": "always"}]}) as server:
        slash(trip, "/compact --from 2", server.url)
    slash(trip, f"/rewind {trip.prompt('two')[:8]} conversation")
    for _ in range(3):
        request = sent(trip)
        assert "They asked for files" not in request
        assert "one: done." in request
        assert "two: done." not in request
