"""A denied file can't be reached by another name, by code on a line, or by startup files."""

import pytest

from clew.permissions.files import NAMES_MAX
from tests.permissions.world import World

DENIED = ["Read(./secrets/**)", "Read(.env)"]


@pytest.mark.parametrize(
    "command",
    [
        "ln -s / r",
        "ln -s . d; cat d/secrets/key",
        "ln -sT .. up",
        "ln -s ../secrets src/d",
        "ln -s ../secrets src",
        "ln -st src ../secrets",
        "ln --target-directory=src -s ../secrets",
        "ln .env e",
        "mount --bind . d",
        "sudo mount -o bind . d",
        "bindfs . d",
        "chroot . cat /secrets/key",
        "docker run -v .:/x alpine cat /x/.env",
        "podman run --mount=type=bind,src=.,dst=/x alpine cat /x/.env",
        "docker run --volume . alpine",
        "python3 -c 'print(open(\".env\").read())'",
        "python3.12 -c 'open(\"src/../secrets/key\")'",
        "node -e \"require('fs').readFileSync('.env')\"",
        "cd src && ruby -e 'puts File.read(\"../.env\")'",
        "sed -n '1r .env' a.py",
        "awk 'BEGIN { while ((getline l < \".env\") > 0) print l }'",
        "perl -ne 'print' -e 'open F, q(.env)'",
        "sqlite3 x.db '.read .env'",
        f"python -c '{' '.join(f'a{n}' for n in range(NAMES_MAX + 1))}'",
    ],
)
def test_where_files_are_denied_another_way_to_them_is_not_allowed(
    world: World, command: str
) -> None:
    rules = world.rules(allow=["Bash"], deny=DENIED)
    assert world.bash(command, rules) in ("ask", "deny")
    assert world.bash(command, rules, "bypassPermissions") in ("ask", "deny")
    assert world.bash(command, world.rules(allow=["Bash"])) == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "ln -s a.py src/link",
        "ln -s ~/x.py src",
        "docker ps -a",
        "docker run alpine ls",
        "python a.py",
        "python -c 'import os; print(os.name)'",
        "sed 's/a/b/' a.py",
        "node --version",
        "echo 'print(open(\".env\"))'",
    ],
)
def test_what_names_no_denied_file_is_left_alone(world: World, command: str) -> None:
    (world.cwd / "src" / "link").touch()
    rules = world.rules(allow=["Bash"], deny=["Read(./secrets/**)", "Read(/.env)"])
    assert world.bash(command, rules) == "allow"


def test_what_every_shell_runs_first_is_not_changed_unasked(world: World) -> None:
    setup = str(world.cwd / "setup.sh")
    first = {"startup_files": (setup,), "program_folders": (str(world.cwd / "bin"),)}
    edits = world.rules(allow=["Edit", "Bash(*)"])
    for path in ("setup.sh", "bin/ls", "src/../bin/git"):
        edit = {"file_path": path}
        assert world.verdict("Write", edit, edits, "acceptEdits", **first) == "ask", path
        assert world.bash(f"echo x > {path}", edits, **first) == "ask", path
        assert world.verdict("Write", edit, edits, "acceptEdits") == "allow", path
    deep = {"file_path": "bin/data/x"}
    assert world.verdict("Write", deep, edits, "acceptEdits", **first) == "allow"
