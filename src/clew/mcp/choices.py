"""What a person said about servers in a project: of its own, and of those it brings along.

Owns `<config home>/clew/mcp-projects.json`, bits 0600. A yes is for a server as it was then: one whose
entry has changed since is asked about again. It lies outside the project, so that no project can say
yes to itself, and no person's token lies in a repository.
"""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from msgspec import Struct

from clew.config.paths import Places
from clew.config.write import alone, replace
from clew.mcp.content import as_json
from clew.mcp.names import digest

Json = dict[str, Any]


class Choices(Struct, frozen=True, kw_only=True):
    """For one project: server -> the digest of the entry that was approved; and who was turned down."""

    approved: dict[str, str] = {}
    denied: frozenset[str] = frozenset()

    def says(self, name: str, entry: Any) -> bool | None:
        """Yes, no, or nothing yet."""
        if name in self.denied:
            return False
        return True if self.approved.get(name) == mark(entry) else None


def mark(entry: Any) -> str:
    return digest(as_json(entry))


def path_of(places: Places) -> Path:
    return places.own / "mcp-projects.json"


def read_all(places: Places) -> Json:
    """A store that cannot be read approves nothing."""
    try:
        data = json.loads(path_of(places).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def of_project(places: Places) -> Json:
    said = read_all(places).get(str(places.root.resolve()))
    return said if isinstance(said, dict) else {}


def keep(places: Places, said: Json) -> None:
    """Writes what is said about this project; nothing of others' is lost."""
    everything = read_all(places)
    if any(said.values()):
        everything[str(places.root.resolve())] = {k: v for k, v in said.items() if v}
    else:
        everything.pop(str(places.root.resolve()), None)
    replace(path_of(places), json.dumps(everything, indent=2) + "\n", mode=0o600)


def read(places: Places) -> Choices:
    said = of_project(places)
    approved, denied = said.get("approved"), said.get("denied")
    return Choices(
        approved=approved if isinstance(approved, dict) else {},
        denied=frozenset(n for n in denied if isinstance(n, str))
        if isinstance(denied, list)
        else frozenset(),
    )


def write(places: Places, choices: Choices) -> None:
    said = {"approved": choices.approved, "denied": sorted(choices.denied)}
    keep(places, of_project(places) | said)


def forget(places: Places) -> None:
    """Takes back every yes and no; a person's own servers stay."""
    with alone(places.config_home):
        write(places, Choices())


def servers(places: Places) -> Json:
    """A person's own servers in this project."""
    found = of_project(places).get("servers")
    return found if isinstance(found, dict) else {}


def add_server(places: Places, name: str, entry: Any) -> None:
    with alone(places.config_home):
        keep(places, of_project(places) | {"servers": servers(places) | {name: entry}})


def remove_server(places: Places, name: str) -> None:
    with alone(places.config_home):
        left = {known: entry for known, entry in servers(places).items() if known != name}
        keep(places, of_project(places) | {"servers": left})


def approve(places: Places, entries: Json) -> None:
    with alone(places.config_home):
        before = read(places)
        write(
            places,
            Choices(
                approved=before.approved | {name: mark(entry) for name, entry in entries.items()},
                denied=before.denied - set(entries),
            ),
        )


def deny(places: Places, names: Collection[str]) -> None:
    with alone(places.config_home):
        before = read(places)
        kept = {name: was for name, was in before.approved.items() if name not in names}
        write(places, Choices(approved=kept, denied=before.denied | set(names)))
