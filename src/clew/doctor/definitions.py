"""What people wrote for their agent, as files: whether it is there, and what of it cannot be read."""

import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

from clew.doctor.finding import Finding, fault, fine, note
from clew.messages.counts import count_of
from clew.permissions.session_rules import Standing
from clew.skills.folders import Shelf, places_of
from clew.subagents.files import folders, in_folder

SOURCES = ("user", "project")
NO_TOOL = ": there is no tool "
NOBODYS_TOOL = "it counts once a program that starts clew brings such a tool; else mend the name"
OF_A_LINE = re.compile(r":\d+: ")


def definitions(standing: Standing) -> Iterator[Finding]:
    """Agents, commands and skills, as a session finds them without flags; those of plugins are theirs."""
    subject, places = "agents and skills", standing.places
    agents = [in_folder(path, origin) for origin, path in folders(places, SOURCES)]
    shelf = Shelf(places_of(places, SOURCES))
    skills = shelf.all()
    for line in (*(line for one in agents for line in one.faults), *shelf.faults):
        made = note if NO_TOOL in line else fault
        yield made(subject, line, remedy(line))
    for path in open_to_others(places.config_home):
        words = f"{path} can be changed by other users, and what it says counts as your word"
        yield fault(subject, words, f"look at it, and make it yours alone: chmod o-w {path}")
    many = count_of(sum(len(one.specs) for one in agents), "agent")
    own = sum(one.origin != "bundled" for one in skills.values())
    yield fine(
        subject, f"{many} and {count_of(own, 'command or skill', 'commands and skills')} of yours"
    )


def remedy(line: str) -> str:
    """What to do about a file that says something wrong, or cannot be read."""
    if NO_TOOL in line:
        return NOBODYS_TOOL
    if line.endswith(f": {os.strerror(errno.EACCES)}"):
        return "give it back to yourself (chown, chmod)"
    if OF_A_LINE.search(line):
        return "mend that file: its head is lines of NAME: VALUE between two lines of ---"
    return "mend what is named of that file"


def open_to_others(home: Path) -> Iterator[Path]:
    """What a person's own word is read from, where somebody else could put theirs: the config home, its
    settings, and every folder and file of agents, commands and skills."""
    yield from filter(is_open, (home, home / "settings.json"))
    for name in ("agents", "commands", "skills"):
        for folder, _, files in os.walk(home / name):
            yield from filter(is_open, (Path(folder), *(Path(folder, file) for file in files)))


def is_open(path: Path) -> bool:
    """Whether others may write to it, or own it; an administrator may anyway."""
    # Reported here and not refused by a session: the mode says who may have changed a file, not that
    # one did, and a home on a foreign file system shows modes that its owner didn't choose.
    try:
        found = path.stat()
    except OSError:
        return False
    return bool(found.st_mode & 0o002) or found.st_uid not in (0, os.getuid())
