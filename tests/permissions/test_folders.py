"""The folders that a line leads to.

`cd` resolves `..` by name, and a home may follow empty quotes.
"""

import itertools
import os
import subprocess
from pathlib import Path

import pytest

from clew.permissions.decision import runs_confined
from clew.permissions.grammar import Unread, read_line
from tests.permissions.world import World

TARGETS = ("deep", "way", "..", ".", "way/..", "way/../..", "up/..", "./deep/../way", "-P way")


@pytest.fixture
def linked(tmp_path: Path) -> World:
    """A world with a link to a folder two levels down, whose parent differs by name and in fact."""
    world = World(tmp_path)
    (world.cwd / "way").symlink_to("deep/er")
    (world.cwd / "up").symlink_to(world.cwd.parent / "elsewhere")
    (world.cwd / "deep" / "way").symlink_to("er")
    (world.home / "notes.txt").write_text("a note\n", "utf-8")
    return world


@pytest.mark.parametrize(
    "line",
    [
        "cd way && cd .. && cat ../home/notes.txt",
        "cd way/.. && cat ../home/notes.txt",
        'cd way && cd "$PWD/.." && cat ../home/notes.txt',
        'cd "$PWD/way" && cd .. && head ../home/notes.txt',
        "cd way && cd .. && cat < ../home/notes.txt",
        "cd -- -x && cat notes.txt",
        "cd -P -- -x && cat notes.txt",
        """cat ''"$HOME/notes.txt" """,
        """cat ""''"$HOME/notes.txt" """,
        """cat < ''"${HOME}/notes.txt" """,
    ],
)
def test_a_line_that_leaves_the_workspace_asks(linked: World, line: str) -> None:
    (linked.cwd / "-x").symlink_to(linked.home)
    assert linked.bash(line) == "ask"
    assert linked.bash(line, linked.rules(), "acceptEdits") == "ask"


@pytest.mark.parametrize(
    "line",
    [
        """echo x > ''"$HOME/new" """,
        """touch ''"$HOME/new" """,
        "cd way && cd .. && touch ../home/new",
        "cd way/.. && echo x > ../home/new",
    ],
)
def test_a_line_that_writes_outside_asks_in_accept_edits(linked: World, line: str) -> None:
    assert linked.bash(line, linked.rules(), "acceptEdits") == "ask"


def test_a_denied_file_behind_a_link_to_a_folder_is_denied(linked: World) -> None:
    rules = linked.rules(deny=["Read(./a.py)"])
    assert linked.bash("cd way && cd .. && cat a.py", rules) == "deny"
    assert linked.bash("cd way/../deep/.. && cat a.py", rules) == "deny"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("cd deep && cd .. && cat a.py", "allow"),
        ("cd src && cat a.py", "allow"),
        ("cd src/../deep && cat er/x", "allow"),
        ("cd -P src && cat a.py", "allow"),
        ("cd ~/.. && cat a.py", "ask"),
        ("cd /.. && cat a.py", "ask"),
        ("cd src - && cat a.py", "ask"),
        ("cd - && cat a.py", "ask"),
        ("cd a b && cat a.py", "ask"),
        ("cd -@ src && cat a.py", "ask"),
        # A variable that stands elsewhere than at the head says nothing of where the word leads.
        ("cat .$PWD/a.py", "ask"),
        ("""cat '~'"$HOME/a.py" """, "ask"),
    ],
)
def test_a_usual_change_of_folder_is_followed(linked: World, line: str, expected: str) -> None:
    assert linked.bash(line) == expected


@pytest.mark.e2e
def test_the_folders_of_a_line_hold_the_one_that_bash_goes_to(linked: World) -> None:
    """Every sequence of three `cd` commands, compared with the folder that bash reports."""
    walks = list(itertools.product(TARGETS, repeat=3))
    script = "".join(
        "( " + " && ".join(f"cd {t}" for t in walk) + " && command pwd -P ) 2>/dev/null\necho\n"
        for walk in walks
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        cwd=linked.cwd,
        env={"PATH": "/usr/bin:/bin", "HOME": str(linked.home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        timeout=60,
        encoding="utf-8",
    )
    seen = 0
    answers = iter(done.stdout.split("\n"))
    for walk in walks:
        told = next(answers)
        if not told:
            continue
        next(answers)
        seen += 1
        line = read_line(" && ".join([*(f"cd {t}" for t in walk), "ls"]))
        assert not isinstance(line, Unread)
        folders = line.commands[-1].folders
        real = {os.path.realpath(linked.cwd / folder) for folder in folders}
        assert told in real or not folders, (walk, told, folders)
    assert seen > 200


def test_what_only_looks_after_a_cd_runs_in_the_sandbox(linked: World) -> None:
    assert runs_confined(linked.decide("Bash", {"command": "cd deep && cd .. && ls"}))
