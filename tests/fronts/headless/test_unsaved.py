"""A full disk, as users see it: reported once, shown while it lasts, and its end is reported."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import LoopbackServer, serving
from tests.fronts.headless.clew_process import clew, transcripts
from tests.fronts.headless.host_process import Hosted
from tests.fronts.terminal.screen import OnScreen
from tests.fronts.terminal.terminal import Terminal
from tests.fronts.terminal.test_screen import READY
from tests.requirements import requirement

FREE = ("--allowedTools", "Bash")
CALL = {"tool": "Bash", "input": {"command": "echo seen"}}
TALK: dict[str, Any] = {
    "scenario": 1,
    "answers": [
        {"text": "First."},
        {"content": [CALL]},
        {"content": [CALL, CALL]},
        {"text": "Second."},
        {"text": "Third."},
        {"text": "Fourth."},
    ],
}
WELL = "All unsaved lines have been saved."


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with serving(TALK, strict=True) as served:
        yield served


class Projects:
    """The folder of all transcripts, which can be moved where nothing can be created."""

    def __init__(self, home: Path) -> None:
        self._place = home / "config" / "projects"

    def breaks(self) -> None:
        self._place.rename(self._place.with_name("away"))
        self._place.write_bytes(b"")

    def is_well(self) -> None:
        self._place.unlink()
        self._place.with_name("away").rename(self._place)


def rescued(home: Path) -> Path:
    (copy,) = (home / "config" / "clew" / "unsaved").glob("*.jsonl")
    return copy


def unbroken(text: str) -> str:
    """Return the text with its lines joined."""
    return "".join(text.split())


@requirement("R258")
def test_on_the_screen_what_is_not_saved_stands_below_until_it_is(
    tmp_path: Path, server: LoopbackServer
) -> None:
    projects = Projects(tmp_path)
    with OnScreen(tmp_path, server.url, *FREE, columns=120, rows=50) as screen:
        screen.expect(READY)
        screen.type("one\r")
        screen.expect("First.")
        screen.expect_rest()
        assert "not saved" not in screen.text
        projects.breaks()
        screen.type("two\r")
        screen.expect("Second.")
        screen.expect(lambda text: "lines not saved: " in text.splitlines()[-2])
        copy = rescued(tmp_path)
        screen.type("three\r")
        screen.expect("Third.")
        screen.expect_rest()
        assert "lines not saved: " in screen.picture.splitlines()[-2]
        assert unbroken(screen.text).count(unbroken(f"not saved; a copy is in {copy}")) == 1
        projects.is_well()
        screen.type("four\r")
        screen.expect("Fourth.")
        screen.expect(WELL)
        screen.expect_gone("lines not saved: ")
        screen.type("\x04")
        assert screen.end() == 0
        assert screen.text.count(WELL) == 1
    assert not copy.exists()
    (path,) = transcripts(tmp_path)
    assert all(word in path.read_text("utf-8") for word in ("Second.", "Third.", "Fourth."))


@requirement("R258")
@pytest.mark.parametrize("front", [Terminal, OnScreen])
def test_what_is_not_saved_at_the_end_is_the_last_word(
    tmp_path: Path, server: LoopbackServer, front: type[Terminal | OnScreen]
) -> None:
    with front(tmp_path, server.url, *FREE) as place:
        place.expect("> " if front is Terminal else READY)
        place.type("one" + ("\n" if front is Terminal else "\r"))
        place.expect("First.")
        Projects(tmp_path).breaks()
        for number, said in enumerate(("Second.", "Third.")):
            place.type(f"go on {number}" + ("\n" if front is Terminal else "\r"))
            place.expect(said)
        place.expect("> ")
        place.type("\x04")
        assert place.end() == 0
        text = unbroken(place.all if isinstance(place, Terminal) else place.text)
    told = unbroken(f"not saved; a copy is in {rescued(tmp_path)}")
    assert text.count(told) == 2
    assert text.rindex(told) > text.rindex("Third.")


def test_a_host_is_warned_once_and_told_when_all_is_well(
    tmp_path: Path, server: LoopbackServer
) -> None:
    projects = Projects(tmp_path)
    with Hosted(tmp_path, server.url, *FREE) as host:
        host.say("one")
        host.result()
        projects.breaks()
        for words in ("two", "three"):
            host.say(words)
            host.result()
        projects.is_well()
        host.say("four")
        host.result()
        assert host.end() == 0
    said = [str(frame.get("content", "")) for frame in host.frames if frame["type"] == "system"]
    told = [words for words in said if "saved" in words]
    assert len(told) == 2, told
    assert "not saved; a copy is in " in told[0]
    assert told[1] == WELL


def test_one_prompt_is_told_at_the_beginning_and_at_the_end(
    tmp_path: Path, server: LoopbackServer
) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "projects").write_bytes(b"")
    clew(tmp_path, server.url, "-p", "one")
    done = clew(tmp_path, server.url, "-p", "two", *FREE)
    assert (done.returncode, done.stdout) == (0, "Second.\n")
    told = [line for line in done.stderr.splitlines() if "not saved; a copy is in " in line]
    assert len(told) == 2, done.stderr
    assert told[0].split(": ")[-2:] != told[1].split(": ")[-2:]
