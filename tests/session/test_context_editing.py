"""Ranges of a conversation excluded, summarized and restored, with the real program."""

import json
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew
from tests.record.rewind.trips import ALLOWED, Trip, read

LONG = "a very long line of a file\n" * 60


@pytest.fixture
def trip(tmp_path: Path) -> Trip:
    trip = Trip(tmp_path)
    (trip.work / "long.txt").write_text(LONG, "utf-8")
    (trip.work / "CLAUDE.md").write_text("Answer in verse.", "utf-8")
    trip.turn("look at it", read("long.txt"))
    trip.turn("what now")
    return trip


def slash(trip: Trip, line: str, url: str = "http://127.0.0.1:9", code: int = 0) -> str:
    done = clew(trip.home, url, "-p", line, "--resume", trip.session)
    assert done.returncode == code, (line, done.stdout, done.stderr)
    return done.stdout + done.stderr


def sent(trip: Trip, prompt: str) -> str:
    """What a turn more sends, as text; the service is strict about it."""
    bodies: list[dict[str, Any]] = []
    plan = {"scenario": 1, "answers": [{"text": "Well.", "id": f"msg_{prompt.replace(' ', '_')}"}]}
    with serving(plan, strict=True, on_request=lambda r: bodies.append(r.body)) as server:
        done = clew(trip.home, server.url, "-p", prompt, ALLOWED, "--resume", trip.session)
    assert done.returncode == 0, done.stderr
    return json.dumps(bodies[-1]["messages"])


def test_a_range_is_left_out_with_its_effect_shown_first_and_comes_back(trip: Trip) -> None:
    first = trip.prompt("look at it")[:8]
    listed = slash(trip, "/context messages")
    assert f"> {first}" in listed
    assert "look at it" in listed
    shown = slash(trip, f"/context exclude {first}")
    assert "range: 4 messages" in shown
    assert "the request stays valid" in shown
    assert "will be sent and cached again, $" in shown
    assert f"/context exclude {first} now" in shown
    assert "a very long line" in sent(trip, "still there")
    assert "Edit 1: 4 messages excluded" in slash(trip, f"/context exclude {first} now")
    request = sent(trip, "and now")
    assert "a very long line" not in request
    assert "look at it" not in request
    assert "Answer in verse." in request
    assert "what now" in request
    assert "1  exclude  4 messages" in slash(trip, "/context edits")
    assert "[1: exclude]" in slash(trip, "/context messages")
    whole = [m for m in trip.run("sessions", "show", trip.session).stdout if m]
    assert "look at it" in "".join(whole)
    assert "restore 1 now" in slash(trip, "/context restore 1")
    assert "Edit 1 undone" in slash(trip, "/context restore 1 now")
    assert "a very long line" in sent(trip, "back again")
    assert trip.run("sessions", "check", trip.session).returncode == 0


def test_a_range_is_put_short_by_a_model_and_a_fork_keeps_it_short(trip: Trip) -> None:
    first = trip.prompt("look at it")[:8]
    asked: list[dict[str, Any]] = []
    plan = {"scenario": 1, "answers": [{"text": "It is sixty lines of one kind."}]}
    with serving(plan, on_request=lambda r: asked.append(r.body)) as server:
        done = slash(trip, f"/context summarize {first} now", server.url)
    assert "replaced by a summary" in done
    assert "a very long line" in json.dumps(asked[-1]["messages"])
    request = sent(trip, "and now")
    assert "It is sixty lines of one kind." in request
    assert "a very long line" not in request
    plan = {"scenario": 1, "answers": [{"text": "Well.", "id": "msg_short"}]}
    bodies: list[dict[str, Any]] = []
    with serving(plan, strict=True, on_request=lambda r: bodies.append(r.body)) as server:
        clew(trip.home, server.url, "-p", "on", "--resume", trip.session, "--fork-session")
    assert "It is sixty lines of one kind." in json.dumps(bodies[-1]["messages"])
    costs = [e for e in trip.entries if e.get("type") == "request-cost"]
    assert any(e.get("purpose") == "compaction" for e in costs)


def test_a_part_of_an_answer_means_all_of_it_and_odd_words_change_nothing(trip: Trip) -> None:
    result = next(e["uuid"] for e in trip.entries if "toolUseResult" in e)
    assert "range: 2 messages" in slash(trip, f"/context exclude {result[:8]}")
    for line, words in (
        ("/context exclude nowhere", "no message ID in the context"),
        ("/context burn it", "exclude FROM [TO]"),
        ("/context restore 7", "edit not found"),
        ("/context exclude a b c", "exclude FROM [TO]"),
    ):
        assert words in slash(trip, line, code=1)
    assert not any(e.get("type") == "context-edits" for e in trip.entries)
    with serving({"scenario": 1, "answers": [{"status": 400}]}) as server:
        failed = slash(trip, f"/context summarise {result[:8]} now", server.url, code=1)
    assert "nothing was changed" in failed
    assert not any(e.get("type") == "context-edits" for e in trip.entries)


def test_what_is_pinned_stays_word_for_word_after_a_summary(trip: Trip) -> None:
    for n in range(4):
        trip.turn(f"question {n}")
    first = trip.prompt("question 1")[:8]
    assert "pinned" in slash(trip, f"/context pin {first} now")
    out = trip.prompt("question 2")[:8]
    slash(trip, f"/context exclude {out} now")
    summary = (
        "<summary>" + "They asked questions and had answers to all of them. " * 3 + "</summary>"
    )
    asked: list[dict[str, Any]] = []
    plan = {"scenario": 1, "answers": [{"text": summary, "times": "always"}]}
    with serving(plan, strict=True, on_request=lambda r: asked.append(r.body)) as server:
        slash(trip, "/compact", server.url)
    assert "question 2" not in json.dumps(asked)
    for _ in range(2):
        request = sent(trip, "and now")
        assert "question 1: done." in request
        assert "They asked questions" in request
        assert "question 0: done." not in request
        assert "question 2: done." not in request
    assert "pin" in slash(trip, "/context edits")
    assert trip.run("sessions", "check", trip.session).returncode == 0


ODD_LINES = (
    "exclude",
    "exclude ''",
    "exclude %",
    "exclude \x1b[2J",
    "exclude ../../etc/passwd",
    "exclude " + "f" * 5_000,
    "exclude " + "a " * 500,
    "pin now now now",
    "summarize now",
    "restore",
    "restore -1",
    "restore 1e9",
    "restore 99999999999999999999999999",
    "edits and more",
    "messages \u202e",
)


@pytest.mark.parametrize("words", ODD_LINES)
def test_odd_words_are_answered_in_words_and_change_nothing(words: str, trip: Trip) -> None:
    before = len(trip.entries)
    done = clew(
        trip.home, "http://127.0.0.1:9", "-p", f"/context {words}", "--resume", trip.session
    )
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert not any(e.get("type") == "context-edits" for e in trip.entries[before:])


def test_whatever_was_edited_the_next_request_is_one_that_the_service_takes(trip: Trip) -> None:
    """Ranges backwards, over each other, of everything, of what a summary stands for."""
    first, last = trip.prompt("look at it")[:8], trip.prompt("what now")[:8]
    for line in (
        f"/context exclude {last} {first} now",
        f"/context pin {first} {last} now",
        f"/context exclude {first} {last} now",
        f"/context exclude {first} {first} now",
        f"/context pin {last} now",
    ):
        done = clew(trip.home, "http://127.0.0.1:9", "-p", line, "--resume", trip.session)
        assert "Traceback" not in done.stdout + done.stderr
        sent(trip, "on")
    trip.turn("a long question " + "in many words " * 100)
    summary = "<summary>" + "They asked questions and had answers to all. " * 3 + "</summary>"
    plan = {"scenario": 1, "answers": [{"text": summary, "times": "always"}]}
    with serving(plan, strict=True) as server:
        slash(trip, "/compact", server.url)
    boundary = next(e["uuid"] for e in trip.entries if e.get("subtype") == "compact_boundary")
    standing = next(e["uuid"] for e in trip.entries if e.get("isCompactSummary"))
    for uuid in (boundary, standing):
        done = clew(
            trip.home, "http://127.0.0.1:9", "-p", f"/context exclude {uuid} now",
            "--resume", trip.session,
        )  # fmt: skip
        assert "Traceback" not in done.stdout + done.stderr
        sent(trip, "on")


@pytest.mark.parametrize(
    "edits",
    [
        "text",
        [{"number": 1, "kind": "exclude", "uuids": "all"}],
        [{"number": 1, "kind": "burn", "uuids": ["x"]}],
        [{"number": 1, "kind": "exclude", "uuids": [None, 3, {}]}],
        [{"number": 10**30, "kind": "summarise", "uuids": ["x"], "words": ["no text"]}],
        [[[[]]]],
    ],
)
def test_a_line_of_edits_that_someone_else_wrote_ends_no_session(edits: Any, trip: Trip) -> None:
    uuids = [e["uuid"] for e in trip.entries if e.get("uuid")]
    line = {"type": "context-edits", "edits": edits, "uuids": uuids, "sessionId": trip.session}
    with trip.transcript.open("ab") as file:
        file.write(json.dumps(line).encode() + b"\n")
    assert "look at it" in sent(trip, "on")
    assert "Traceback" not in slash(trip, "/context edits")
