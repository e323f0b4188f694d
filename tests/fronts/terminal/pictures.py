"""Compare what a terminal shows with a golden screen that a person has checked.

The golden screens are in `tests/fronts/terminal/golden/`, one file each. `make golden` redraws those
that have changed (it sets CLEW_DRAW=1); read the diff before you commit it.
"""

import os
import re
import time
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path

from tests.fronts.terminal.screen import OnScreen

GOLDEN = Path(__file__).parent / "golden"
PATIENCE_S = 30.0
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TIMES = re.compile(r"(?<=[ (])(\d+m)?\d+s\b")
LEFT = re.compile(r"\b(in|for) \d+ s\b")
PROJECT = re.compile(r"HOME/projects/[^/\s]+")
COUNTS = re.compile(r"\b\d+ \(\d+ loaded")
MOMENTS = re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d(?= SESSION|  user: )")
DAYS = re.compile(r"\b\d{4}-\d\d-\d\d\b(?= {3,}\d)")
SECONDS = re.compile(r"\b\d+\.\d s\b")
SIZES = re.compile(r"\b\d+\.\d kB\b")
SHORT = re.compile(r"(?<=/tree )[0-9a-f]{8}\b")
WORK = re.compile(r"(?<=· )[\d.]+k? tokens(?= · \d)")
SPINNER = re.compile(r"^[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏] ", re.M)
FOLDER = re.compile(r"/\S*/work\b")
HOME = re.compile(r"/\S*/config\b")


def normalize(picture: str) -> str:
    """Replace what differs from run to run: ids, times, folders, the spinner."""
    for pattern, instead in (
        (UUID, "SESSION"),
        (TIMES, "0s"),
        (WORK, "N tokens"),
        (LEFT, r"\1 0 s"),
        (SPINNER, "* "),
        (FOLDER, "WORK"),
        (HOME, "HOME"),
        (PROJECT, "HOME/projects/PROJECT"),
        (SIZES, "N kB"),
        (COUNTS, "N (N loaded"),
        (MOMENTS, "MOMENT"),
        (SECONDS, "0.0 s"),
        (DAYS, "TODAY-DATE"),
        (SHORT, "PROMPT"),
    ):
        picture = pattern.sub(instead, picture)
    return picture


def looks_like(
    screen: OnScreen, name: str, part: Callable[[OnScreen], str] = attrgetter("picture")
) -> None:
    """Assert that the terminal, or a part of it, settles to the golden screen `name`."""
    path = GOLDEN / f"{name}.txt"
    wanted = path.read_text("utf-8") if path.exists() else ""
    deadline = time.monotonic() + PATIENCE_S
    screen.settle()
    while normalize(part(screen)) != wanted and time.monotonic() < deadline:
        screen.settle()
        if os.environ.get("CLEW_DRAW"):
            break
    is_like(part(screen), name)


def is_like(picture: str, name: str) -> None:
    """Assert that `picture` equals the golden screen `name`; with CLEW_DRAW, write it first."""
    path = GOLDEN / f"{name}.txt"
    seen = normalize(picture)
    if os.environ.get("CLEW_DRAW"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(seen, "utf-8")
    assert path.exists(), f"no golden screen {name}; `make golden` draws it:\n{seen}"
    assert seen == path.read_text("utf-8"), f"differs from {path}:\n{seen}"
