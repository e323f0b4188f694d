"""What people wrote for their agent, as files: whether it is there, and what of it cannot be read."""

import os
from collections.abc import Iterator
from pathlib import Path

from clew.doctor.finding import Finding, fault, fine
from clew.messages.counts import count_of
from clew.permissions.session_rules import Standing
from clew.skills.folders import Shelf, places_of
from clew.subagents.files import folders, in_folder

SOURCES = ("user", "project")


def definitions(standing: Standing) -> Iterator[Finding]:
    """Agents, commands and skills, as a session finds them without flags; those of plugins are theirs."""
    subject, places = "agents and skills", standing.places
    agents = [in_folder(path, origin) for origin, path in folders(places, SOURCES)]
    shelf = Shelf(places_of(places, SOURCES))
    skills = shelf.all()
    for line in (*(line for one in agents for line in one.faults), *shelf.faults):
        yield fault(subject, line, "mend that file: its head stands between two lines of ---")
    for path in open_to_others(places.config_home):
        words = f"{path} can be changed by other users, and what it says counts as your word"
        yield fault(subject, words, f"look at it, and make it yours alone: chmod o-w {path}")
    many = count_of(sum(len(one.specs) for one in agents), "agent")
    own = sum(one.origin != "bundled" for one in skills.values())
    yield fine(
        subject, f"{many} and {count_of(own, 'command or skill', 'commands and skills')} of yours"
    )


def open_to_others(home: Path) -> Iterator[Path]:
    """What a person's own word is read from, where somebody else could put theirs: the config home, its
    settings, and every folder and file of agents, commands and skills."""
    yield from filter(is_open, (home, home / "settings.json"))
    for name in ("agents", "commands", "skills"):
        for folder, _, files in os.walk(home / name):
            yield from filter(is_open, (Path(folder), *(Path(folder, file) for file in files)))


def is_open(path: Path) -> bool:
    """Whether others may write to it, or own it; an administrator may anyway."""
    try:
        found = path.stat()
    except OSError:
        return False
    return bool(found.st_mode & 0o002) or found.st_uid not in (0, os.getuid())
