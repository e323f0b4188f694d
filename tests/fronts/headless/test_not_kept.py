"""A session that is not saved leaves nothing on disk when it has ended."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, transcripts
from tests.fronts.headless.host_process import Hosted
from tests.fronts.terminal.screen import OnScreen
from tests.fronts.terminal.terminal import Terminal
from tests.fronts.terminal.test_screen import READY
from tests.requirements import requirement

WORD = "needle-in-hay"
# More than an answer to the model holds: the rest of it is read from a file.
MUCH = {"tool": "Bash", "input": {"command": f"seq 1 20000; echo {WORD}"}}
PLANS = {"tool": "TaskCreate", "input": {"subject": WORD, "description": WORD}}
FLAGS = ("--no-session-persistence", "--allowedTools", "Bash,TaskCreate,Read")


def by_print(home: Path, url: str) -> str:
    done = clew(home, url, "-p", WORD, *FLAGS)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def by_host(home: Path, url: str) -> str:
    with Hosted(home, url, *FLAGS) as host:
        host.say(WORD)
        said = str(host.result()["result"])
        assert host.end() == 0
    return said


def on_the_screen(home: Path, url: str) -> str:
    with OnScreen(home, url, *FLAGS) as screen:
        screen.expect(READY)
        screen.type(f"{WORD}\r")
        screen.expect("All seen.")
        screen.expect_rest()
        screen.type("\x1b[A")
        screen.expect(f"> {WORD}\n──")
        screen.type("\x03")
        screen.type("\x04")
        assert screen.end() == 0
        return screen.text


def line_by_line(home: Path, url: str) -> str:
    with Terminal(home, url, *FLAGS) as terminal:
        terminal.expect("> ")
        terminal.type(f"{WORD}\n")
        terminal.expect("All seen.")
        terminal.expect("> ")
        terminal.type("\x04")
        assert terminal.end() == 0
        return terminal.all


@requirement("R252")
def test_a_run_that_is_not_kept_leaves_the_session_it_continues_with_as_it_was(
    tmp_path: Path,
) -> None:
    def model(body: dict[str, Any]) -> dict[str, Any]:
        is_asked = "tool_use" not in str(body["messages"]) and WORD in str(body["messages"])
        return {"content": [MUCH]} if is_asked else {"text": "Fine."}

    with serving(model, strict=True) as server:
        assert clew(tmp_path, server.url, "-p", "one").returncode == 0
        (path,) = transcripts(tmp_path)
        before = path.read_bytes()
        for more in ((), ("--fork-session",)):
            done = clew(tmp_path, server.url, "-p", WORD, "--resume", path.stem, *more, *FLAGS)
            assert (done.returncode, done.stdout) == (0, "Fine.\n"), done.stderr
            assert "20000" in str(server.requests[-1].body["messages"])
    assert transcripts(tmp_path) == [path]
    assert path.read_bytes() == before
    left = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert [file for file in left if WORD.encode() in file.read_bytes()] == []


@requirement("R252")
@pytest.mark.parametrize("front", [by_print, by_host, on_the_screen, line_by_line])
def test_no_word_of_a_session_that_is_not_kept_is_there_when_it_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, front: Callable[[Path, str], str]
) -> None:
    spare = tmp_path / "spare"
    spare.mkdir()
    kept: list[Path] = []

    def model(body: dict[str, Any]) -> dict[str, Any]:
        """The file that the call's result names exists while the session lasts."""
        if len(body["messages"]) < 3:
            return {"content": [MUCH, PLANS]}
        kept.extend(path for path in spare.rglob("*.txt") if WORD in path.read_text("utf-8"))
        return {"text": "All seen."}

    shim = tmp_path / "shim"
    shim.mkdir()
    before = f"import os\nos.environ['TMPDIR'] = {str(spare)!r}\n"
    (shim / "sitecustomize.py").write_text(before, "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(shim))
    with serving(model, strict=True) as server:
        said = front(tmp_path, server.url)
        answer = str(server.requests[-1].body["messages"])
    assert "All seen." in said
    assert "--resume" not in said
    assert len(kept) == 1
    assert str(kept[0]) in answer
    left = [path for path in tmp_path.rglob("*") if path.is_file() and path.parent != shim]
    assert [path for path in left if WORD.encode() in path.read_bytes()] == []
    assert transcripts(tmp_path) == []
    assert list(spare.iterdir()) == []
