"""The status line: what is always shown, what a narrow terminal omits, and notices next to it."""

from pathlib import Path

import pytest

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew
from tests.fronts.terminal.pictures import looks_like
from tests.fronts.terminal.screen import OnScreen
from tests.fronts.terminal.test_dialogs import settings
from tests.fronts.terminal.test_linear import HELLO

TO_PLAN = "\x1b[Z\x1b[Z"


def test_a_mode_that_is_not_the_default_shows_below_a_line_of_the_users_own(tmp_path: Path) -> None:
    settings(tmp_path, statusLine={"type": "command", "command": "echo a line of mine"})
    with serving(HELLO, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect("a line of mine")
        assert "default" not in screen.rows[-1]
        screen.type(TO_PLAN)
        screen.expect("plan mode")
        looks_like(screen, "own-line-plan")


def test_a_hint_leaves_the_status_line_where_it_is(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect("default")
        screen.type(TO_PLAN)
        screen.expect("plan mode")
        screen.type("\x1b")
        screen.expect("Nothing to interrupt")
        assert "Sonnet" in screen.picture
        assert "plan mode" in screen.picture
        screen.type("\x18\x02")
        screen.expect("No background tasks")
        assert "plan mode" in screen.picture


@pytest.mark.parametrize(("tokens", "is_told"), [(100, False), (10_000, True)])
def test_a_lost_cache_is_told_if_it_costs_more_than_a_cent(
    tmp_path: Path, tokens: int, *, is_told: bool
) -> None:
    usage = {"input_tokens": tokens, "output_tokens": 10}
    plan = {"scenario": 1, "answers": [{"text": "Fine.", "usage": usage, "times": "always"}]}
    with serving(plan, strict=True) as server:
        assert clew(tmp_path, server.url, "-p", "go").returncode == 0
        args = ("--continue", "--append-system-prompt", "Rhyme.")
        with OnScreen(tmp_path, server.url, *args) as screen:
            screen.expect("default")
            screen.expect("Fine.")
            screen.settle()
            assert ("cache can't be used" in " ".join(screen.text.split())) == is_told


def test_a_narrow_terminal_keeps_model_and_mode(tmp_path: Path) -> None:
    with (
        serving(HELLO, strict=True) as server,
        OnScreen(tmp_path, server.url, columns=40, rows=12) as screen,
    ):
        screen.expect("default")
        screen.type("hi\r")
        screen.expect("Hello!")
        screen.expect_rest()
        screen.type(TO_PLAN)
        screen.expect("plan mode")
        looks_like(screen, "status-narrow")


def test_vim_keys_show_their_mode_and_begin_each_prompt_by_inserting(tmp_path: Path) -> None:
    settings(tmp_path, editorMode="vim")
    with serving(HELLO, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect("INSERT")
        screen.type("half a thought\x1b")
        screen.expect("NORMAL")
        screen.type("v")
        screen.expect("VISUAL")
        screen.type("\x1b\x03")
        screen.expect("INSERT")
        screen.type("/vim off\r")
        screen.expect("Vim mode off")
        screen.expect_gone("INSERT")
