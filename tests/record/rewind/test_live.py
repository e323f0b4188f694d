"""Rewinds of a session that is open: typed at a terminal, asked for by a host, given to `clew -p`."""

import json
from pathlib import Path
from typing import Any

import pytest

from clew.commands.slash.record import NOW_ENDS
from clew.record.rewind.restore import NO_REWIND
from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, transcripts
from tests.fronts.headless.host_process import Hosted
from tests.fronts.terminal.terminal import Terminal
from tests.record.rewind.trips import ALLOWED, Trip, bash, edit, read, write
from tests.requirements import requirement

BOTH = {
    "scenario": 1,
    "answers": [
        {"content": [write("a.txt", "first\n")]},
        {"text": "Made."},
        {"content": [edit("a.txt", "first", "second")]},
        {"text": "Changed."},
        {"text": "Gone on."},
    ],
}


@pytest.fixture
def trip(tmp_path: Path) -> Trip:
    return Trip(tmp_path)


def prompts_of(body: dict[str, Any]) -> list[str]:
    """What a person said, by the messages of a request."""
    said = []
    for message in body["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if message["role"] == "user":
            said += [b["text"] for b in blocks if b["type"] == "text"]
    return [text for text in said if text in ("make it", "change it", "go on")]


@requirement("R200")
def test_at_a_terminal_a_prompt_is_picked_read_and_taken_back(trip: Trip) -> None:
    bodies: list[dict[str, Any]] = []
    with (
        serving(BOTH, strict=True, on_request=lambda r: bodies.append(r.body)) as server,
        Terminal(trip.home, server.url, ALLOWED) as terminal,
    ):
        terminal.expect("> ")
        terminal.type("make it\r")
        terminal.expect("Made.")
        terminal.expect("> ")
        terminal.type("change it\r")
        terminal.expect("Changed.")
        terminal.expect("> ")
        terminal.type("/rewind\r")
        terminal.expect("1  change it  (1 file changed since)")
        terminal.expect("2  make it")
        terminal.expect("cancel): ")
        terminal.type("1\r")
        terminal.expect("-second")
        terminal.expect("+first")
        terminal.expect("1  Conversation and files")
        terminal.type("1\r")
        terminal.expect("restored: ")
        terminal.expect("Your prompt was:")
        terminal.expect("change it")
        assert trip.files() == {"a.txt": "644 first\n"}
        terminal.expect("> ")
        terminal.type("go on\r")
        terminal.expect("Gone on.")
        terminal.expect("> ")
        terminal.type("/exit\r")
        assert terminal.end() == 0
    assert prompts_of(bodies[-1]) == ["make it", "go on"]
    trip.session = transcripts(trip.home)[0].stem
    assert trip.conversation() == ["make it", "go on"]


def test_the_place_is_kept_at_once_and_a_redo_leads_back(trip: Trip) -> None:
    states = [trip.files()]
    for n, prompt in enumerate(("one", "two")):
        trip.turn(prompt, write(f"{n}.txt", prompt), bash(f"echo {prompt} >> log.txt"))
        states.append(trip.files())
    short = trip.prompt("two")[:8]
    done = slash(trip, f"/rewind {short} both")
    assert (trip.files(), trip.conversation()) == (states[1], ["one"]), done
    slash(trip, "/rewind redo")
    assert (trip.files(), trip.conversation()) == (states[2], ["one", "two"])
    slash(trip, f"/rewind {short} conversation")
    assert (trip.files(), trip.conversation()) == (states[2], ["one"])
    slash(trip, "/rewind redo")
    slash(trip, f"/rewind {short} files")
    assert (trip.files(), trip.conversation()) == (states[1], ["one", "two"])
    slash(trip, "/rewind start both")
    assert trip.files() == states[0]
    slash(trip, "/rewind redo")
    assert (trip.files(), trip.conversation()) == (states[1], ["one", "two"])


def slash(trip: Trip, line: str, code: int = 0) -> str:
    done = clew(trip.home, "http://127.0.0.1:9", "-p", line, "--resume", trip.session)
    assert done.returncode == code, (line, done.stdout, done.stderr)
    return done.stdout + done.stderr


def test_without_a_user_the_choices_are_lines_to_type(trip: Trip) -> None:
    trip.turn("one", write("a", "1\n"))
    trip.turn("two", read("a"), edit("a", "1", "2"))
    listed = slash(trip, "/rewind")
    assert f"/rewind {trip.prompt('two')[:8]}  two" in listed
    shown = slash(trip, f"/rewind {trip.prompt('two')[:8]}")
    assert "-2" in shown
    assert "+1" in shown
    assert f"/rewind {trip.prompt('two')[:8]} both" in shown
    assert trip.files() == {"a": "644 2\n"}
    assert "not found" in slash(trip, "/rewind nowhere both", code=1)
    assert "MESSAGE [both" in slash(trip, "/rewind start everything", code=1)


def test_what_others_changed_stops_it_until_it_is_forced(trip: Trip) -> None:
    trip.turn("one", write("a", "1"))
    (trip.work / "a").write_text("mine", "utf-8")
    before = trip.files()
    assert "outside clew" in slash(trip, f"/rewind {trip.prompt('one')[:8]} both", code=1)
    assert (trip.files(), len(trip.conversation())) == (before, 1)
    assert "both force" in slash(trip, f"/rewind {trip.prompt('one')[:8]}")
    slash(trip, f"/rewind {trip.prompt('one')[:8]} files force")
    assert trip.files() == {}
    slash(trip, "/rewind redo")
    assert trip.files() == before


@requirement("R200")
def test_a_host_takes_files_back_and_may_ask_what_would_be(trip: Trip) -> None:
    with serving(BOTH, strict=True) as server, Hosted(trip.home, server.url, ALLOWED) as host:
        host.say("make it", uuid="9a3f6f5e-8b1f-4b3d-9c7b-0f8f0d3b1a01")
        host.result()
        host.say("change it", uuid="9a3f6f5e-8b1f-4b3d-9c7b-0f8f0d3b1a02")
        host.result()
        second = {"user_message_id": "9a3f6f5e-8b1f-4b3d-9c7b-0f8f0d3b1a02"}
        would = host.ask("rewind_files", **second, dry_run=True)["response"]
        assert would == {
            "canRewind": True,
            "filesChanged": [str(trip.work / "a.txt")],
            "insertions": 1,
            "deletions": 1,
        }
        assert trip.files() == {"a.txt": "644 second\n"}
        done = host.ask("rewind_files", **second)["response"]
        assert (done["canRewind"], done["skippedLinks"]) == (True, 0)
        assert trip.files() == {"a.txt": "644 first\n"}
        (trip.work / "a.txt").write_text("mine", "utf-8")
        first = {"user_message_id": "9a3f6f5e-8b1f-4b3d-9c7b-0f8f0d3b1a01"}
        would = host.ask("rewind_files", **first, dry_run=True)["response"]
        assert (would["canRewind"], "outside clew" in would["error"]) == (False, True)
        assert "outside clew" in host.ask("rewind_files", **first)["error"]
        assert "not found" in host.ask("rewind_files", user_message_id="x")["error"]
        host.say("go on")
        host.result()
        assert host.end() == 0
    trip.session = transcripts(trip.home)[0].stem
    assert trip.conversation() == ["make it", "change it", "go on"]


def test_without_a_log_there_is_no_way_back(trip: Trip) -> None:
    with (
        serving(BOTH, strict=True) as server,
        Hosted(trip.home, server.url, ALLOWED, "--no-session-persistence") as host,
    ):
        host.say("make it", uuid="9a3f6f5e-8b1f-4b3d-9c7b-0f8f0d3b1a01")
        host.result()
        asked = host.ask("rewind_files", user_message_id="9a3f6f5e-8b1f-4b3d-9c7b-0f8f0d3b1a01")
        assert asked["error"] == "File rewinding is not enabled."


def test_a_fork_knows_the_way_back_and_the_original_keeps_its_own(trip: Trip) -> None:
    trip.turn("one", write("a", "1"))
    trip.turn("two", read("a"), write("a", "2"))
    trip.turn("three", write("b", "3"))
    trip.rewind(trip.prompt("three"))
    original, before = trip.session, trip.transcript.read_bytes()
    plan = {"scenario": 1, "answers": [{"content": [write("c", "4")]}, {"text": "Done."}]}
    with serving(plan, strict=True) as server:
        done = clew(
            trip.home, server.url, "-p", "four", ALLOWED, "--resume", original, "--fork-session",
            "--output-format", "json",
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    fork = json.loads(done.stdout)["session_id"]
    assert fork != original
    two = trip.prompt("two")[:8]
    assert NO_REWIND in trip.run("sessions", "rewind", fork, "--redo").stderr
    back = trip.run("sessions", "rewind", fork, two)
    assert back.returncode == 0, back.stdout + back.stderr
    assert trip.files() == {"a": "644 1"}
    assert trip.run("sessions", "rewind", fork, "--redo").returncode == 0
    assert trip.files() == {"a": "644 2", "c": "644 4"}
    assert trip.transcript.read_bytes() == before
    assert trip.run("sessions", "check", fork).returncode == 0


def test_the_list_of_what_is_to_be_done_goes_back_with_the_conversation(trip: Trip) -> None:
    def todos(content: str) -> dict[str, Any]:
        todo = {"content": content, "status": "pending", "activeForm": content}
        return {"tool": "TodoWrite", "input": {"todos": [todo]}}

    trip.turn("one", todos("paint it"))
    trip.turn("two", todos("burn it"))
    with (
        serving(BOTH, strict=True) as server,
        Terminal(trip.home, server.url, "--linear", "--resume", trip.session) as terminal,
    ):
        terminal.type("/todos\n")
        terminal.expect("burn it")
        terminal.type(f"/rewind {trip.prompt('two')[:8]} conversation\n")
        terminal.expect(f"{NOW_ENDS} before “two”")
        terminal.type("/todos\n")
        terminal.expect("paint it")
        terminal.type("/rewind redo\n")
        terminal.expect(f"{NOW_ENDS} after the answer to “two”")
        terminal.type("/todos\n")
        terminal.expect("burn it")
        terminal.type("/exit\n")
        assert terminal.end() == 0
