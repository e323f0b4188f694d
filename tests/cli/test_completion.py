"""`clew completion`: the suggestions of real shells."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.sessions.place import Place
from tests.record.transcript.build import SESSION, talk

BIN = Path(sys.executable).parent


@pytest.fixture
def place(tmp_path: Path) -> Place:
    found = Place(tmp_path)
    found.write([*talk(1), {"type": "custom-title", "customTitle": "My work; rm -rf $HOME"}])
    return found


def environment(place: Place) -> dict[str, str]:
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "CLEW_CONFIG_DIR": str(place.home)}


def words(place: Place, *typed: str) -> list[str]:
    done = subprocess.run(
        [str(BIN / "clew"), "completion", "--words", *typed],
        cwd=place.cwd,
        env=environment(place),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_words_options_choices_and_sessions_are_completed(place: Place) -> None:
    assert words(place, "sess") == ["sessions"]
    assert {"search", "rewind", "export"} <= set(words(place, "sessions", ""))
    assert words(place, "sessions", "exp") == ["export"]
    assert "--redact" in words(place, "sessions", "export", "--")
    assert words(place, "sessions", "show", "My") == ["My work; rm -rf $HOME"]
    assert words(place, "sessions", "show", SESSION[:3]) == [SESSION]
    assert words(place, "sessions", "import", "") == []
    assert words(place, "sessions", "search", "--session", SESSION[:3]) == [SESSION]
    assert words(place, "sessions", "pull", "--store", "") == []
    assert words(place, "--resume", SESSION[:4]) == [SESSION]
    assert "--model" in words(place, "--mo")
    assert words(place, "completion", "b") == ["bash"]
    assert words(place, "config", "--he") == ["--help"]
    assert words(place, "config", "un") == ["unset", "untrust"]
    assert words(place, "mcp", "reset") == ["reset-project-choices"]
    assert words(place, "plugin", "marketplace", "u") == ["update"]
    assert words(place, "nothing", "to") == []
    assert words(place, "cost", "--by", "") is not None


def test_bash_completes_with_it(place: Place) -> None:
    """Return the line that bash completes, for a title with every dangerous character."""
    script = """
eval "$(clew completion bash)"
COMP_WORDS=(clew sessions sho); COMP_CWORD=2; _clew; echo "${COMPREPLY[@]}"
COMP_WORDS=(clew sessions show My); COMP_CWORD=3; _clew; eval "printf '%s\\n' ${COMPREPLY[0]}"
complete -p clew
"""
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        cwd=place.cwd,
        env=environment(place),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )
    assert done.stdout.splitlines() == ["show", "My work; rm -rf $HOME", "complete -F _clew clew"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_script_is_one_its_shell_can_read(place: Place, shell: str) -> None:
    script = subprocess.run(
        [str(BIN / "clew"), "completion", shell], capture_output=True, check=True, timeout=60
    ).stdout
    assert b"clew completion --words" in script
    program = shutil.which(shell)
    if program is not None:  # only bash is on every machine
        subprocess.run([program, "-n"], input=script, check=True, timeout=60)


def test_an_unknown_shell_is_told_what_there_is() -> None:
    done = subprocess.run(
        [str(BIN / "clew"), "completion", "tcsh"], capture_output=True, check=False, timeout=60
    )
    assert done.returncode == 2
    assert b"bash|zsh|fish" in done.stderr
