"""What people wrote for their agent, as files: whether it is there, and what of it cannot be read."""

from collections.abc import Iterator

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
    many = count_of(sum(len(one.specs) for one in agents), "agent")
    own = sum(one.origin != "bundled" for one in skills.values())
    yield fine(
        subject, f"{many} and {count_of(own, 'command or skill', 'commands and skills')} of yours"
    )
