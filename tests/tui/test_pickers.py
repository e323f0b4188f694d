"""What a person chooses from, as it looks: sessions, messages, models, and the ways to get going."""

import os
from pathlib import Path

from clew.testing.server import serving
from tests.headless.clew_process import clew, transcripts
from tests.requirements import requirement
from tests.tui.pictures import looks_like
from tests.tui.screen import OnScreen
from tests.tui.test_first_run import NO_KEY
from tests.tui.test_linear import HELLO, WRITES
from tests.tui.test_screen import READY

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


def test_sessions_of_this_folder_and_of_every_one_from_within_a_session(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server:
        three_matters(tmp_path, server.url)
        with OnScreen(tmp_path, server.url, env=UTC) as screen:
            screen.expect(READY)
            screen.type("/resume\r")
            screen.expect("go on with")
            assert "elsewhere" not in screen.picture
            screen.type("\x1b")
            screen.expect_gone("go on with")
            screen.type("/resume --all\r")
            screen.expect("other: a matter elsewhere")
            looks_like(screen, "resume-all")
            screen.type("\r")
            screen.expect("> a matter elsewhere")
            screen.type("go on\r")
            screen.expect(lambda text: text.count("Hello!") == 2)
        said = str(server.requests[-1].body["messages"])
    assert "a matter elsewhere" in said
    assert "first matter" not in said


def test_what_going_back_would_do(tmp_path: Path) -> None:
    # So wide that no name of a folder, however long here, is wrapped.
    with (
        serving(WRITES, strict=True) as server,
        OnScreen(tmp_path, server.url, columns=200) as screen,
    ):
        screen.expect(READY)
        screen.type("write it\r")
        screen.expect("yes, this once")
        screen.type("y")
        screen.expect("So be it.")
        screen.expect_rest()
        screen.type("/rewind\r")
        screen.expect("changed since")
        screen.type("\r")
        screen.expect("take back")
        looks_like(screen, "rewind")


def test_the_models_to_choose_from(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("/model\r")
        screen.expect("the model from the next prompt on")
        looks_like(screen, "model-command")


def test_the_first_run_without_a_key(tmp_path: Path) -> None:
    nobody = NO_KEY | {"OLLAMA_HOST": "127.0.0.1:9"}
    with OnScreen(tmp_path, "", env=nobody) as screen:
        screen.expect("clew demo")
        screen.expect(READY)
        looks_like(screen, "first-run")
