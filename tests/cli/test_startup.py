"""Start-up is a feature: what the first screen may load, as a list and not as a stopwatch."""

import subprocess
import sys

import pytest

from clew.cli import COMMANDS, main
from clew.options import parser
from clew.version import VERSION
from tests.requirements import requirement

# A bare `python -m clew` process loads these of its own accord; clew may add only itself.
OURS_FOR_VERSION = {"clew", "clew.cli", "clew.version"}
LIST_MODULES = "import sys; before = set(sys.modules); from clew.cli import main; main([{arg!r}]); print(*sorted(set(sys.modules) - before), file=sys.stderr)"


def loaded(argument: str) -> set[str]:
    """What `clew ARGUMENT` imports beyond a bare interpreter."""
    done = subprocess.run(
        [sys.executable, "-P", "-s", "-c", LIST_MODULES.format(arg=argument)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    return set(done.stderr.split())


@requirement("R219", "R266")
@pytest.mark.parametrize("argument", ["--version", "--help"])
def test_the_first_words_load_nothing_but_the_command_line(argument: str) -> None:
    assert sorted(loaded(argument) - OURS_FOR_VERSION) == []


def test_version_and_help_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"clew {VERSION}\n"
    assert main(["--help"]) == 0
    assert capsys.readouterr().out.startswith("usage: clew")


def test_every_command_and_option_stands_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--help"])
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown for name in COMMANDS)
    for action in parser()._actions:
        assert any(spelling in shown for spelling in action.option_strings or ["PROMPT"])


@pytest.mark.parametrize(
    ("argument", "words"),
    [("--versoin", "did you mean --version?"), ("sesions", "did you mean sessions?")],
)
def test_an_unknown_word_is_an_error_that_names_the_nearest(
    argument: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([argument]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert words in said.err
