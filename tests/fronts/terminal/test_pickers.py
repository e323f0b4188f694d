"""Lists to choose from: sessions, messages, models, and the options at the first start."""

import json
import os
from pathlib import Path

from clew.commands.slash.record import NOW_ENDS
from clew.record.transcript.paths import encode_path
from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, transcripts
from tests.fronts.terminal.pictures import looks_like
from tests.fronts.terminal.screen import OnScreen
from tests.fronts.terminal.test_first_run import NO_KEY
from tests.fronts.terminal.test_linear import HELLO, WRITES
from tests.fronts.terminal.test_screen import READY
from tests.requirements import requirement

AT_S = 1_770_000_000
UTC = {"TZ": "UTC"}


def three_matters(home: Path, url: str) -> None:
    """Two sessions of the folder and one of another, an hour apart."""
    for number, prompt in enumerate(("first matter", "second matter", "a matter elsewhere")):
        session_id = f"{number}0000000-0000-4000-8000-000000000000"
        done = clew(home, url, "-p", prompt, "--session-id", session_id)
        assert done.returncode == 0, done.stderr
        (path,) = (one for one in transcripts(home) if one.stem == session_id)
        if number == 2:
            here, there = str(home / "work"), str(home / "other")
            text = path.read_text("utf-8").replace(here, there)
            path.unlink()
            path = path.parents[1] / path.parent.name.replace("-work", "-other") / path.name
            path.parent.mkdir()
            path.write_text(text, "utf-8")
        os.utime(path, (AT_S + number * 3600, AT_S + number * 3600))


@requirement("R195", "R198")
def test_the_sessions_to_go_on_with(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server:
        three_matters(tmp_path, server.url)
        with OnScreen(tmp_path, server.url, "--resume", env=UTC) as screen:
            screen.expect("second matter")
            looks_like(screen, "resume")
            screen.type("fir")
            screen.expect_gone("second matter")
            looks_like(screen, "resume-search")


def test_keys_of_the_list_are_named_in_whole_in_a_narrow_terminal(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server:
        three_matters(tmp_path, server.url)
        with OnScreen(tmp_path, server.url, "--resume", env=UTC, columns=60, rows=20) as screen:
            screen.expect("second matter")
            screen.expect("2 sessions in this folder ·")
            said = " ".join(screen.picture.split())
            assert "ctrl+a all folders · ctrl+t branches search:" in said
            screen.type("fir")
            screen.expect("search: fir")
            screen.expect_gone("second matter")


def test_sessions_of_this_folder_and_of_every_one_from_within_a_session(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server:
        three_matters(tmp_path, server.url)
        with OnScreen(tmp_path, server.url, env=UTC) as screen:
            screen.expect(READY)
            screen.type("/resume\r")
            screen.expect("2 sessions in this folder")
            assert "elsewhere" not in screen.picture
            screen.type("\x01")
            screen.expect("3 sessions in all folders")
            screen.expect("other: a matter elsewhere")
            screen.type("\x01")
            screen.expect("2 sessions in this folder")
            screen.type("\x1b")
            screen.expect_gone("Resume session")
            screen.type("/resume --all\r")
            screen.expect("other: a matter elsewhere")
            looks_like(screen, "resume-all")
            screen.type("\r")
            screen.expect(
                lambda text: "Resume session" not in text and "> a matter elsewhere" in text
            )
            screen.type("go on\r")
            screen.expect(lambda text: text.count("Hello!") == 2)
        said = str(server.requests[-1].body["messages"])
    assert "a matter elsewhere" in said
    assert "first matter" not in said


def talk(*turns: tuple[str, str]) -> dict[str, object]:
    """A model with these answers to these prompts."""
    answers = [
        {"when": {"user": {"contains": asked}}, "text": said, "times": "always"}
        for asked, said in turns
    ]
    return {"scenario": 1, "answers": answers}


@requirement("R198")
def test_a_session_is_found_by_what_was_said_in_it_and_looked_into(tmp_path: Path) -> None:
    plan = talk(("first matter", "It is about zirconium."), ("second matter", "Nothing of note."))
    with serving(plan, strict=True) as server:
        for prompt in ("first matter", "second matter"):
            assert clew(tmp_path, server.url, "-p", prompt).returncode == 0
        with OnScreen(tmp_path, server.url, "--resume", env=UTC) as screen:
            screen.expect("Nothing of note.")
            screen.type("zircon")
            screen.expect_gone("second matter")
            screen.expect("It is about zirconium.")
            screen.expect("1 of 2 sessions in this folder")
            screen.type("ia")
            screen.expect("no matches")
            screen.type("\b\b")
            screen.expect("It is about zirconium.")
            screen.type("\r")
            screen.expect("> first matter")
            screen.expect_gone("Resume session")
            screen.expect(READY)


def test_every_session_can_be_found_however_many_there_are(tmp_path: Path) -> None:
    from tests.record.library.many import generate

    (tmp_path / "work").mkdir()
    made = generate(tmp_path / "config", sessions=1500, projects=1, entries=2, words=8)
    for number, path in enumerate(made):
        here = path.read_text("utf-8").replace("/work/p0", str(tmp_path / "work"))
        path.unlink()
        moved = tmp_path / "config" / "projects" / encode_path(str(tmp_path / "work")) / path.name
        moved.parent.mkdir(exist_ok=True)
        moved.write_text(here, "utf-8")
        os.utime(moved, (AT_S + number, AT_S + number))
    with serving(HELLO) as server, OnScreen(tmp_path, server.url, "--resume", env=UTC) as screen:
        screen.expect("task number 1499")
        screen.expect("1,500 sessions in this folder ·")
        screen.type("number 0:")
        screen.expect("> 2026-02-02 02:40  task number 0:")


def branched(home: Path, url: str) -> None:
    """A session with two branches, and its current leaf."""
    with OnScreen(home, url) as screen:
        screen.expect(READY)
        for prompt, answer in (("begin", "Begun."), ("to the left", "Left it is.")):
            screen.type(f"{prompt}\r")
            screen.expect(answer)
            screen.expect_rest()
        screen.type("/rewind\r")
        screen.expect("> 1. to the left")
        screen.type("\r")
        screen.expect("would end before “to the left”")
        # No file changed, so there is nothing else to restore.
        screen.expect("> 1. Conversation only")
        assert "files" not in screen.picture.partition("> 1. Conversation only")[2]
        assert "and files" not in screen.picture
        screen.type("1")
        screen.expect(f"{NOW_ENDS} before “to the left”")
        screen.type("\x15to the right\r")
        screen.expect("Right it is.")
        screen.expect_rest()
        screen.type("\x04")
        assert screen.end() == 0


TURNS = (("right", "Right it is."), ("left", "Left it is."), ("begin", "Begun."))


@requirement("R198")
def test_a_session_is_seen_as_a_tree_and_gone_on_with_from_any_branch(tmp_path: Path) -> None:
    with serving(talk(("further", "Further on."), *TURNS)) as server:
        branched(tmp_path, server.url)
        (path,) = transcripts(tmp_path)
        before = path.read_bytes()
        with OnScreen(tmp_path, server.url, "--resume", env=UTC) as screen:
            screen.expect("Right it is.")
            screen.type("\x14")
            screen.expect("○ to the left")
            looks_like(screen, "resume-tree")
            screen.type("left")
            screen.expect_gone("to the right  (")
            screen.type("\r")
            screen.expect_gone("select where to continue")
            screen.expect(lambda text: text.count("Left it is.") == 1 and "Right" not in text)
            screen.expect(READY)
            screen.type("further\r")
            screen.expect("Further on.")
        said = str(server.requests[-1].body["messages"])
        assert "to the left" in said
        assert "to the right" not in said
        assert path.read_bytes() == before
        assert len(transcripts(tmp_path)) == 2
        # Both sessions name each other by their titles.
        fork = clew(tmp_path, server.url, "-p", "/tree", "--continue").stdout
        assert "A fork of “begin”" in fork
        origin = clew(tmp_path, server.url, "-p", "/tree", "--resume", path.stem).stdout
        assert "Fork: begin" in origin


@requirement("R198")
def test_the_tree_of_the_open_session_leads_to_every_branch(tmp_path: Path) -> None:
    with serving(talk(("further", "Further on."), *TURNS)) as server:
        branched(tmp_path, server.url)
        with OnScreen(tmp_path, server.url, "--continue") as screen:
            screen.expect("Right it is.")
            screen.expect(READY)
            screen.type("/tree\r")
            screen.expect("○ to the left")
            looks_like(screen, "tree")
            screen.type("2")
            screen.expect("After its response, in a fork")
            looks_like(screen, "tree-ways")
            screen.type("1")
            screen.expect(f"{NOW_ENDS} after the answer to “to the left”")
            screen.type("further\r")
            screen.expect("Further on.")
            screen.expect_rest()
            said = str(server.requests[-1].body["messages"])
            assert "to the left" in said
            assert "to the right" not in said
        assert len(transcripts(tmp_path)) == 1
        told = clew(tmp_path, server.url, "-p", "/tree", "--continue").stdout
        assert "● begin  (1 message)" in told
        assert "further  (1 message)" in told


def test_what_going_back_would_do(tmp_path: Path) -> None:
    # So wide that no name of a folder, however long here, is wrapped.
    with (
        serving(WRITES, strict=True) as server,
        OnScreen(tmp_path, server.url, columns=200) as screen,
    ):
        screen.expect(READY)
        screen.type("write it\r")
        screen.expect("1. Yes")
        screen.type("y")
        screen.expect("So be it.")
        screen.expect_rest()
        screen.type("/rewind\r")
        screen.expect("changed since")
        screen.type("\r")
        screen.expect("Restore")
        looks_like(screen, "rewind")


def test_the_models_to_choose_from(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("/model\r")
        screen.expect("Select a model")
        screen.expect("effort: auto")
        looks_like(screen, "model-command")
        screen.type("\x1b[C\x1b[C\x1b[C")
        screen.expect("effort: high")
        screen.type("\x1b[D")
        screen.expect("effort: medium")
        screen.type("\r")
        screen.expect("Model set to claude-sonnet-5-5, effort medium")
        screen.type("hi\r")
        screen.expect("Hello!")
        assert server.requests[-1].body["output_config"]["effort"] == "medium"


def test_settings_are_searched_toggled_chosen_and_written(tmp_path: Path) -> None:
    path = tmp_path / "config" / "settings.json"
    with serving(HELLO, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("/config\r")
        screen.expect("user settings")
        screen.type("autoCompactE")
        screen.expect("autoCompactEnabled: true (default)")
        looks_like(screen, "settings")
        screen.type("\r")
        screen.expect("autoCompactEnabled = false")
        screen.expect("user settings")
        screen.type("editorM")
        screen.expect("> editorMode: not set")
        screen.type("\r")
        screen.expect("3. vim")
        screen.type("2")
        screen.expect("editorMode = emacs")
        screen.expect("user settings")
        screen.type("\x1b[C\x1b[C")
        screen.expect("local settings")
        screen.type("language")
        screen.expect("> language: not set")
        screen.type("\r")
        screen.expect("a string")
        screen.type("German\r")
        screen.expect("language = German")
        screen.type("\x1b")
        screen.expect("language set")
    assert json.loads(path.read_text("utf-8")) == {
        "autoCompactEnabled": False,
        "editorMode": "emacs",
    }
    local = tmp_path / "work" / ".claude" / "settings.local.json"
    assert json.loads(local.read_text("utf-8")) == {"language": "German"}


def test_the_first_run_without_a_key(tmp_path: Path) -> None:
    nobody = NO_KEY | {"OLLAMA_HOST": "127.0.0.1:9"}
    with OnScreen(tmp_path, "", env=nobody) as screen:
        screen.expect("clew demo")
        screen.expect(READY)
        looks_like(screen, "first-run")
