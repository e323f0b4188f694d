"""Start-up time: the modules that the first screen may load are a list, not a time limit."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import clew
from clew.cli import COMMANDS, main
from clew.session.flags import flag_rows
from clew.version import VERSION
from tests.requirements import requirement

# A bare `python -m clew` process loads these of its own accord; clew may add only itself.
OURS_FOR_VERSION = {"clew", "clew.cli", "clew.version"}
LIST_MODULES = "import sys; before = set(sys.modules); from clew.cli import main; main([{arg!r}]); print(*sorted(set(sys.modules) - before), file=sys.stderr)"


def loaded(argument: str) -> set[str]:
    """Return what `clew ARGUMENT` imports in addition to a bare interpreter."""
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


def test_the_screen_of_a_session_loads_no_lexers_before_there_is_code_to_color() -> None:
    # They take 0.8 MB of memory, with all names of HTML entities.
    code = "import sys, clew.fronts.terminal.opened; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-P", "-s", "-c", code],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    assert {"clew.fronts.terminal.opened"} == {
        "clew.fronts.terminal.opened", "pygments", "html.entities", "difflib",
    } & set(done.stdout.split())  # fmt: skip


def test_version_and_help_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"clew {VERSION}\n"
    assert main(["--help"]) == 0
    assert capsys.readouterr().out.startswith("usage: clew")


def test_the_version_is_said_beside_options_that_are_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--permission-mode", "dontAsk", "--version"]) == 0
    assert capsys.readouterr().out == f"clew {VERSION}\n"
    assert main(["--bogus", "--version"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "unknown option --bogus" in told.err


def test_every_command_and_option_stands_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--help"])
    shown = capsys.readouterr().out
    assert all(f"\n  {name}" in shown for name in COMMANDS)
    assert "  PROMPT " in shown
    assert all(f"  {row.flag.spelling}" in shown for row in flag_rows())


@pytest.mark.parametrize(
    "words", ["sessions list", "sessions stats", "mcp list", "plugin list", "hooks list", "cost"]
)
def test_a_reader_who_has_seen_enough_is_no_failure(words: str, tmp_path: Path) -> None:
    session = tmp_path / "projects" / "-a" / "6a3c5c1e-0f43-4c1c-9d3a-0d4f1f1c8a01.jsonl"
    session.parent.mkdir(parents=True)
    session.write_text(
        '{"type": "user", "message": {"role": "user", "content": "hello"}}\n', "utf-8"
    )
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "clew", *words.split()],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path), "CLEW_CONFIG_DIR": str(tmp_path)},
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
        timeout=60,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("option", ["--json-schema", "--mcp-config"])
def test_a_file_that_is_not_there_is_said_without_its_error_number(
    option: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "clew", "-p", option, "missing.json", "hello"],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path), "ANTHROPIC_API_KEY": "none"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=60,
    )
    assert done.returncode != 0
    assert "missing.json: No such file or directory" in done.stderr
    assert "Errno" not in done.stderr


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--versoin", "did you mean --version?"),
        ("--bogus", "unknown option --bogus; "),
        ("sesions", 'did you mean "sessions"'),
        ("uninstall", "pip uninstall"),
        ("frobnicate", "clew -- frobnicate"),
        ("replay", "clew -- replay"),
        ("server", 'did you mean "serve"'),
        ("ps", "use clew tasks"),
        ("install", "clew doctor"),
        ("mpc list", 'did you mean "mcp"'),
    ],
)
def test_an_unknown_word_is_an_error_that_names_the_nearest(
    line: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert words in said.err


@pytest.mark.parametrize(
    ("shell", "code", "words"),
    [
        ("clew --help > /dev/full", 1, "clew: No space left on device"),
        ("clew demo talk --speed max > /dev/full", 1, "No space left on device"),
        ("clew -p hi --unheard-of 2> /dev/full", 2, ""),
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


# No file may grow beyond a few kilobytes: as on a disk that is full.
NO_ROOM = ("sh", "-c", 'trap "" XFSZ; ulimit -f 8; exec "$@"', "sh")


def test_a_full_disk_leaves_nothing_that_the_next_start_fails_over(tmp_path: Path) -> None:
    package = Path(clew.__file__).parent
    shutil.copytree(package, tmp_path / "clew", ignore=shutil.ignore_patterns("__pycache__"))
    words = [sys.executable, "-m", "clew", "config", "list"]
    environ = os.environ | {"PYTHONPATH": str(tmp_path), "HOME": str(tmp_path)}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)

    def run(*before: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*before, *words],
            env=environ,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )

    run(*NO_ROOM)
    assert list(tmp_path.rglob("*.pyc")), "nothing was kept at all"
    done = run()
    assert (done.stderr, done.returncode) == ("", 0)


STRIKES = """
import os, signal, sys

class Strikes:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Strikes())
"""


@pytest.mark.parametrize(
    "module",
    ["clew.cli", "clew.session.flags", "clew.agent.options", "asyncio", "clew.fronts.headless.run"],
)
def test_an_interrupt_while_modules_are_loaded_ends_without_a_traceback(
    module: str, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(STRIKES.format(module=module), "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "clew", "-p", "hi"],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path), "PYTHONPATH": f"{tmp_path}:{Path.cwd()}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    # A shell says 130 for a process that SIGINT ended, too.
    assert done.returncode in (130, -signal.SIGINT)
    assert (done.stdout, done.stderr) == ("", "")
