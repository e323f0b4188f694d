"""What a person said about the servers that a project brings along.

Owns `<config home>/clew/mcp-choices.json`, bits 0600. A yes is for a server as it was then: one whose
entry has changed since is asked about again. It lies outside the project, so that no project can say
yes to itself.
"""

import json
from collections.abc import Collection
from typing import Any

from msgspec import Struct

from clew.config.paths import Places
from clew.config.write import replace
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


def path_of(places: Places) -> Any:
    return places.own / "mcp-choices.json"


def read_all(places: Places) -> Json:
    """A store that cannot be read approves nothing."""
    try:
        data = json.loads(path_of(places).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def read(places: Places) -> Choices:
    said = read_all(places).get(str(places.root.resolve()))
    if not isinstance(said, dict):
        return Choices()
    approved, denied = said.get("approved"), said.get("denied")
    return Choices(
        approved=approved if isinstance(approved, dict) else {},
        denied=frozenset(denied) if isinstance(denied, list) else frozenset(),
    )


def write(places: Places, choices: Choices) -> None:
    everything = read_all(places)
    said = {"approved": choices.approved, "denied": sorted(choices.denied)}
    everything[str(places.root.resolve())] = said
    replace(path_of(places), json.dumps(everything, indent=2) + "\n", mode=0o600)


def forget(places: Places) -> None:
    everything = read_all(places)
    if everything.pop(str(places.root.resolve()), None) is not None:
        replace(path_of(places), json.dumps(everything, indent=2) + "\n", mode=0o600)


def approve(places: Places, entries: Json) -> None:
    before = read(places)
    write(
        places,
        Choices(
            approved=before.approved | {name: mark(entry) for name, entry in entries.items()},
            denied=before.denied - set(entries),
        ),
    )


def deny(places: Places, names: Collection[str]) -> None:
    before = read(places)
    kept = {name: was for name, was in before.approved.items() if name not in names}
    write(places, Choices(approved=kept, denied=before.denied | set(names)))
