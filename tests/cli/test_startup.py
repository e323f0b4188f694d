"""Start-up is a feature: what the first screen may load, as a list and not as a stopwatch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from clew.cli import COMMANDS, main
from clew.flags import parser
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


@pytest.mark.parametrize(
    ("shell", "code", "words"),
    [
        ("clew --help > /dev/full", 1, "clew: No space left on device"),
        ("clew demo talk --speed max > /dev/full", 1, "No space left on device"),
        ("clew --help >&-", 0, ""),
        ("clew demo --speed max >&- 2>&-", 0, ""),
        ("clew demo --speed max | head -1 >/dev/null; exit $?", 0, ""),
        ("cd / && HOME=/proc clew config set model opus", 2, "clew"),
    ],
)
def test_outputs_that_are_full_closed_or_gone_are_said_in_a_line(
    shell: str, code: int, words: str
) -> None:
    binaries = Path(sys.executable).parent
    done = subprocess.run(
        ["sh", "-c", shell],
        env={"PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}", "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
