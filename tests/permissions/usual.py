"""The usual looks of coding agents, and how many of them run without a question.

Owns corpus/usual.txt and what commit 4dc56ad, the last before the strict grammar, asked about of it
(corpus/usual_asked.txt). That list was made in a checkout of this repository by

    git worktree add OLD 4dc56ad
    PYTHONPATH=OLD/src python -m tests.permissions.usual >tests/permissions/corpus/usual_asked.txt
"""

import sys
import tempfile
from pathlib import Path

from tests.permissions.world import World

CORPUS = Path(__file__).parent / "corpus"
# What the lines of the corpus call the project.
PROJECT = "/repo"


def read_lines(name: str) -> list[str]:
    """Return the lines of a file of the corpus; a comment that goes on is a line."""
    return [
        line
        for line in (CORPUS / name).read_text("utf-8").split("\n")
        if line and not (line.startswith("# ") and "⏎" not in line)
    ]


def asked(world: World, lines: list[str]) -> list[str]:
    """Return the lines that need approval where no rule matches."""
    return [
        line
        for line in lines
        if world.bash(line.replace("⏎", "\n").replace(PROJECT, str(world.cwd))) != "allow"
    ]


def share(world: World) -> tuple[float, list[str]]:
    """The share of what 4dc56ad allowed that is allowed now, and the lines that are lost."""
    before = set(read_lines("usual_asked.txt"))
    held = [line for line in read_lines("usual.txt") if line not in before]
    lost = asked(world, held)
    return 1 - len(lost) / len(held), lost


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        found = asked(World(Path(name)), read_lines("usual.txt"))
    heading = (
        "# The lines of usual.txt that commit 4dc56ad asked about; see tests/permissions/usual.py."
    )
    sys.stdout.write("\n".join([heading, *found, ""]))


if __name__ == "__main__":
    main()
