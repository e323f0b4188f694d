"""What a terminal showed, held against a picture that somebody looked at.

Pictures lie in tests/fronts/terminal/pictures/. `CLEW_DRAW=1` draws those anew that have changed, to be looked at.
"""

import os
import re
import time
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path

from tests.fronts.terminal.screen import OnScreen

PICTURES = Path(__file__).parent / "pictures"
PATIENCE_S = 30.0
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TIMES = re.compile(r"(?<=[ (])(\d+m)?\d+s\b")
LEFT = re.compile(r"\b(in|for) \d+ s\b")
PROJECT = re.compile(r"HOME/projects/[^/\s]+")
COUNTS = re.compile(r"\b\d+, \d+ of them")
MOMENTS = re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d(?= SESSION)")
SECONDS = re.compile(r"\b\d+\.\d s\b")
SIZES = re.compile(r"\b\d+\.\d kB\b")
SHORT = re.compile(r"(?<=/tree )[0-9a-f]{8}\b")
SPINNER = re.compile(r"^[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏] ", re.M)
FOLDER = re.compile(r"/\S*/work\b")
HOME = re.compile(r"/\S*/config\b")


def told(picture: str) -> str:
    """A picture without what is another each time."""
    for pattern, instead in (
        (UUID, "SESSION"),
        (TIMES, "0s"),
        (LEFT, r"\1 0 s"),
        (SPINNER, "* "),
        (FOLDER, "WORK"),
        (HOME, "HOME"),
        (PROJECT, "HOME/projects/PROJECT"),
        (SIZES, "N kB"),
        (COUNTS, "N, N of them"),
        (MOMENTS, "MOMENT"),
        (SECONDS, "0.0 s"),
        (SHORT, "PROMPT"),
    ):
        picture = pattern.sub(instead, picture)
    return picture


def looks_like(
    screen: OnScreen, name: str, part: Callable[[OnScreen], str] = attrgetter("picture")
) -> None:
    """Whether the terminal, or a part of it, looks like the picture of that name once it rests."""
    path = PICTURES / f"{name}.txt"
    wanted = path.read_text("utf-8") if path.exists() else ""
    deadline = time.monotonic() + PATIENCE_S
    screen.settle()
    while told(part(screen)) != wanted and time.monotonic() < deadline:
        screen.settle()
        if os.environ.get("CLEW_DRAW"):
            break
    is_like(part(screen), name)


def is_like(picture: str, name: str) -> None:
    """Whether what was shown is what the picture of that name holds."""
    path = PICTURES / f"{name}.txt"
    seen = told(picture)
    if os.environ.get("CLEW_DRAW"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(seen, "utf-8")
    assert path.exists(), f"no picture {name}; CLEW_DRAW=1 draws it:\n{seen}"
    assert seen == path.read_text("utf-8"), f"not like {path}:\n{seen}"
