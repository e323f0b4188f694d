"""Notes, memories, proposals, and the summary for a returning user, with the real program."""

import json
from pathlib import Path
from typing import Any

import pytest

from clew.parts.away import AWAY
from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew
from tests.fronts.terminal.terminal import Terminal
from tests.record.rewind.trips import Trip, read, write
from tests.requirements import requirement

ALWAYS = {"scenario": 1, "answers": [{"text": "Seen.", "times": "always"}]}


@pytest.fixture
def trip(tmp_path: Path) -> Trip:
    return Trip(tmp_path)


def folder(trip: Trip) -> Path:
    (found,) = (trip.home / "config" / "projects").glob("*")
    return found / "memory"


def slash(trip: Trip, line: str, url: str = "http://127.0.0.1:9", code: int = 0) -> str:
    go_on = ["--resume", trip.session] if trip.session else []
    done = clew(trip.home, url, "-p", line, *go_on)
    assert done.returncode == code, (line, done.stdout, done.stderr)
    return done.stdout + done.stderr


def first_request(trip: Trip, *calls: dict[str, Any]) -> list[dict[str, Any]]:
    """What a new session sends."""
    bodies: list[dict[str, Any]] = []
    answers = [*({"content": [call]} for call in calls), {"text": "Well."}]
    plan = {"scenario": 1, "answers": answers}
    with serving(plan, strict=True, on_request=lambda r: bodies.append(r.body)) as server:
        done = clew(trip.home, server.url, "-p", "anew")
    assert done.returncode == 0, done.stderr
    return bodies


@requirement("R124")
def test_notes_go_to_the_file_that_was_chosen(tmp_path: Path) -> None:
    with (
        serving(ALWAYS, strict=True) as server,
        Terminal(tmp_path, server.url, "--linear") as terminal,
    ):
        terminal.expect("> ")
        terminal.type("# one for all\n")
        terminal.expect("added to")
        terminal.type("/memory to local\n")
        terminal.expect("Notes are saved in")
        terminal.expect("CLAUDE.local.md")
        terminal.type("# one for me\n")
        terminal.expect("added to")
        terminal.type("/memory to user\n")
        terminal.expect("Notes are saved in")
        terminal.type("# everywhere\n")
        terminal.expect("added to")
        terminal.type("/exit\n")
        assert terminal.end() == 0
    work = tmp_path / "work"
    assert (work / "CLAUDE.md").read_text("utf-8") == "- one for all\n"
    assert (work / "CLAUDE.local.md").read_text("utf-8") == "- one for me\n"
    assert (tmp_path / "config" / "CLAUDE.md").read_text("utf-8") == "- everywhere\n"


@requirement("R125")
def test_what_a_user_has_remembered_is_told_to_later_sessions(trip: Trip) -> None:
    trip.turn("hello")
    assert "Saved in" in slash(trip, "/remember Deploy with make ship, never by hand.")
    (memory,) = (p for p in folder(trip).glob("*.md") if p.name != "MEMORY.md")
    assert f"session: {trip.session}" in memory.read_text("utf-8")
    assert "by: person" in memory.read_text("utf-8")
    bodies = first_request(trip, read(str(memory)))
    told = json.dumps(bodies[0]["messages"])
    assert "Deploy with make ship, never by hand." in told
    assert "They permit nothing." in told
    result = json.dumps(bodies[1]["messages"][-1])
    assert "by: person" in result  # read without a question
    listed = slash(trip, "/memory list")
    assert "deploy-with-make-ship" in listed
    assert "1 in" in slash(trip, "/memory")
    slash(trip, f"/memory forget {memory.stem}")
    assert "make ship" not in json.dumps(first_request(trip)[0]["messages"])


PROPOSED: list[Any] = [
    {"title": "Tests run with nox", "text": "Not with tox, says the person."},
    {"title": "From nowhere", "text": "It names no message.", "message": "ffffffff"},
    {"title": "No text", "message": "x"},
    "odd",
]


def proposing(trip: Trip) -> dict[str, Any]:
    named = [{**PROPOSED[0], "message": trip.prompt("use nox")[:8]}, *PROPOSED[1:]]
    text = f"Here you are:\n{json.dumps(named)}"
    return {"scenario": 1, "answers": [{"text": text, "times": "always"}]}


@requirement("R125")
def test_what_a_model_finds_in_a_session_counts_when_it_is_accepted(trip: Trip) -> None:
    trip.turn("use nox")
    with serving(proposing(trip)) as server:
        shown = slash(trip, "/remember", server.url)
        again = slash(trip, "/remember", server.url)
        asked = json.dumps(server.requests[0].body["messages"])
    assert f"[{trip.prompt('use nox')[:8]}] user: use nox" in asked
    assert "Tests run with nox" in shown
    assert "from the user" in shown
    assert "From nowhere" not in shown
    assert "/memory accept tests-run-with-nox" in shown
    assert "nothing new" in again
    assert "Tests run with nox" not in json.dumps(first_request(trip)[0]["messages"])
    assert "1 proposed" in slash(trip, "/memory")
    assert "/memory drop all" in slash(trip, "/memory review")
    assert "no proposals left" in slash(trip, "/memory accept all")
    assert "Tests run with nox" in json.dumps(first_request(trip)[0]["messages"])
    shown = slash(trip, "/memory show tests-run-with-nox")
    assert f"in {trip.session[:8]}, message {trip.prompt('use nox')[:8]}" in shown


def test_an_answer_that_is_no_list_and_odd_words_propose_nothing(trip: Trip) -> None:
    trip.turn("hello")
    with serving(ALWAYS) as server:
        assert "is not a list" in slash(trip, "/remember", server.url, code=1)
    assert "not found in" in slash(trip, "/memory accept nothing", code=1)
    assert "show NAME" in slash(trip, "/memory burn", code=1)
    assert "project | local | user" in slash(trip, "/memory to nowhere", code=1)


def test_by_setting_a_session_leaves_proposals_behind_when_it_ends(trip: Trip) -> None:
    trip.turn("use nox")
    settings = json.dumps({"memoryExtraction": True})
    with serving(proposing(trip)) as server:
        done = clew(
            trip.home, server.url, "-p", "on", "--resume", trip.session, "--settings", settings
        )
        assert done.returncode == 0, done.stderr
    assert [p.stem for p in (folder(trip) / "proposed").glob("*.md")] == ["tests-run-with-nox"]
    off = json.dumps({"autoMemoryEnabled": False})
    slash(trip, "/memory accept all")
    bodies: list[dict[str, Any]] = []
    with serving(ALWAYS, on_request=lambda r: bodies.append(r.body)) as server:
        clew(trip.home, server.url, "-p", "anew", "--settings", off)
    assert "Tests run with nox" not in json.dumps(bodies[0]["messages"])


@requirement("R275")
def test_the_summary_for_who_comes_back_is_recorded_with_the_first_turn(trip: Trip) -> None:
    trip.turn("write it")
    path = trip.transcript
    path.write_text(path.read_text("utf-8").replace('"timestamp":"20', '"timestamp":"19'), "utf-8")
    arguments = ("--linear", "--resume", trip.session)
    with serving(ALWAYS, strict=True) as server:
        with Terminal(trip.home, server.url, *arguments) as terminal:
            terminal.expect(AWAY)
            terminal.type("/exit\n")
            assert terminal.end() == 0
        assert "away_summary" not in path.read_text("utf-8")
        with Terminal(trip.home, server.url, *arguments) as terminal:
            terminal.expect(AWAY)
            terminal.type("go on\n")
            terminal.expect("Done in ")
            terminal.type("/exit\n")
            assert terminal.end() == 0
        assert "you were away" not in json.dumps(server.requests[-1].body)
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    (away,) = (line for line in lines if line.get("subtype") == "away_summary")
    assert away["content"].startswith(AWAY)
    assert "your last prompt: write it" in away["content"]
    assert next(x for x in lines if x.get("uuid") == away["parentUuid"])["type"] == "assistant"


def test_who_comes_back_is_told_where_it_stood_and_what_others_changed(trip: Trip) -> None:
    trip.turn("write it", write("a.txt", "mine"))
    path = trip.transcript
    long_ago = path.read_text("utf-8").replace('"timestamp":"20', '"timestamp":"19')
    path.write_text(long_ago, "utf-8")
    (trip.work / "a.txt").write_text("not mine", "utf-8")
    with (
        serving(ALWAYS, strict=True) as server,
        Terminal(trip.home, server.url, "--linear", "--resume", trip.session) as terminal,
    ):
        terminal.expect(AWAY)
        terminal.expect("your last prompt: write it")
        terminal.expect("the last answer ended with: write it: done.")
        terminal.expect("changed since then outside this session: ")
        terminal.expect("a.txt")
        terminal.expect("> ")
        terminal.type("/exit\n")
        assert terminal.end() == 0
        assert not server.requests
    trip.turn("just now")
    with (
        serving(ALWAYS, strict=True) as server,
        Terminal(trip.home, server.url, "--linear", "--resume", trip.session) as terminal,
    ):
        terminal.type("/exit\n")
        assert terminal.end() == 0
        assert "clew --resume" in terminal.seen
        assert "you were away" not in terminal.seen
