"""The sandbox: offered at the first start, kept as answered, and explained by a page."""

import json
from pathlib import Path
from typing import Any

import pytest

from clew.fronts.questions import SANDBOX_QUESTION as QUESTION
from clew.testing.server import serving
from tests.fronts.headless.test_sandbox import bash, run, settings
from tests.fronts.terminal.screen import OnScreen
from tests.fronts.terminal.terminal import Terminal
from tests.requirements import requirement
from tests.system.sandbox.walls import can

HELLO = {"scenario": 1, "answers": [{"text": "Hello.", "times": "always"}]}
WORKS = can("landlock") or can("bubblewrap")


def kept(home: Path) -> Any:
    file = home / "config" / "settings.json"
    return json.loads(file.read_text("utf-8"))["sandbox"]["enabled"] if file.exists() else None


@requirement("R220")
@pytest.mark.parametrize(("key", "value"), [("y", True), ("n", False), ("a", None)])
def test_the_first_start_offers_it_once_and_keeps_the_answer(
    tmp_path: Path, key: str, value: bool | None
) -> None:
    with serving(HELLO, strict=True) as server:
        with OnScreen(tmp_path, server.url, is_first=True) as screen:
            if WORKS:
                screen.expect(QUESTION)
                rows = screen.rows
                # The program says what it is before it asks anything.
                assert rows[0].startswith("  clew ")
                text = rows[rows.index(QUESTION) + 1 : rows.index("")]
                assert all(row.startswith("  ") for row in text), rows
                screen.type(key)
                screen.expect_gone(QUESTION)
            screen.type("hi\r")
            screen.expect("Hello.")
            screen.type("/permissions sandbox\r")
            screen.expect("read-only sandbox")
        with OnScreen(tmp_path, server.url, "again", is_first=True) as screen:
            screen.expect("Hello.")
            assert QUESTION not in screen.text
    assert kept(tmp_path) == (value if WORKS else None)


@pytest.mark.parametrize(("answer", "value"), [("y", True), ("n", False), ("", None)])
def test_line_by_line_too(tmp_path: Path, answer: str, value: bool | None) -> None:
    with (
        serving(HELLO, strict=True) as server,
        Terminal(tmp_path, server.url, "--linear", is_first=True) as terminal,
    ):
        if WORKS:
            terminal.expect(QUESTION)
            terminal.expect("accept edits modes: ")
            terminal.type(f"{answer}\n")
        terminal.expect("> ")
        terminal.type("hi\n")
        terminal.expect("Hello.")
        terminal.expect("> ")
        terminal.type("\x04")
        assert terminal.end() == 0
    assert kept(tmp_path) == (value if WORKS else None)


def test_who_has_decided_is_not_asked(tmp_path: Path) -> None:
    settings(tmp_path, {"enabled": False})
    with (
        serving(HELLO, strict=True) as server,
        Terminal(tmp_path, server.url, "--linear", is_first=True) as terminal,
    ):
        terminal.expect("> ")
        terminal.type("/permissions sandbox\n")
        terminal.expect("read-only sandbox")
        terminal.expect("off (set in settings)")
        terminal.expect("allowed hosts")
        terminal.expect("none")
        assert QUESTION not in terminal.all
        terminal.type("\x04")
        terminal.end()


def test_the_page_says_why_none_can_be_had(tmp_path: Path) -> None:
    done, _ = run(
        tmp_path, args=("--permission-mode", "acceptEdits"), prompt="/permissions sandbox", without_walls=True
    )  # fmt: skip
    why = "landlock: the kernel does not support Landlock; bubblewrap:"
    assert f"read-only sandbox  not available: {why}" in done.stdout
    assert (
        "on in mode acceptEdits (turned on automatically in auto and acceptEdits); not available:"
        in done.stdout
    )


@pytest.mark.parametrize("mode", ["acceptEdits", "default"])
def test_in_mode_acceptedits_it_is_on_by_itself(tmp_path: Path, mode: str) -> None:
    settings(tmp_path, {})
    outside = tmp_path / "outside"
    script = tmp_path / "line.sh"
    script.write_text(f"echo in > inside; echo out > {outside}", "utf-8")
    run(
        tmp_path, bash(f"bash {script}"), args=("--permission-mode", mode, "--allowedTools", "Bash")
    )
    assert (tmp_path / "work" / "inside").exists()
    assert outside.exists() is not (WORKS and mode == "acceptEdits")
