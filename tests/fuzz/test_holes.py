"""Every hole of the table, opened on purpose, is found within a minute."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.fuzz.__main__ import hole_command
from tests.fuzz.holes import HOLES, NEEDS, close
from tests.permissions.configurations import CONFIGURATIONS
from tests.permissions.world import World
from tests.system.sandbox.walls import can

FOUND = re.compile(r"(.*)\n(?:  .*\n)*?  allowed under: (.*)\n")


@pytest.mark.parametrize("name", HOLES)
def test_a_hole_can_be_opened(name: str) -> None:
    try:
        HOLES[name]()
    finally:
        close()


@pytest.mark.laws
@pytest.mark.parametrize("name", HOLES)
def test_a_hole_is_found_within_a_minute(name: str, world: World) -> None:
    if not can("bubblewrap") or shutil.which(NEEDS.get(name, "bash")) is None:
        return
    done = subprocess.run(
        hole_command(name, seed=1),
        capture_output=True,
        encoding="utf-8",
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 1, done.stderr
    found = FOUND.match(done.stdout)
    assert found is not None
    line = subprocess.run(
        ["bash", "-c", f"printf %s {found[1]}"], check=True, capture_output=True, encoding="utf-8"
    ).stdout
    # It is the hole that let it through. Git's history is that of the fuzzer's folder, and this world
    # has another.
    if found[2] in CONFIGURATIONS and name != "git's history":
        lists, mode = CONFIGURATIONS[found[2]]
        assert world.bash(line, world.rules(**lists), mode) != "allow"
