"""Where a session finds its kinds of agents: folders of a person, of the project, and what it is told."""

from collections.abc import Iterable
from pathlib import Path

from clew.app.brought import Brought
from clew.app.ground import Ground
from clew.options import SOURCES
from clew.subagents.catalog import Catalog
from clew.subagents.files import Found, in_folder, in_object
from clew.subagents.specs import Origin

FOLDER = "agents"


def kinds_of(
    ground: Ground, brought: Brought, plugins: Iterable[tuple[str, Path]] = ()
) -> tuple[Catalog, tuple[str, ...]]:
    """The kinds of agents there are, and what is wrong with the definitions of others."""
    found = in_files(ground, plugins)
    found.append(in_object(ground.options.agents or {}, "flag"))
    found.append(in_object(brought.agents, "host"))
    return Catalog(spec for one in found for spec in one.specs), faults_of(found)


def in_files(ground: Ground, plugins: Iterable[tuple[str, Path]]) -> list[Found]:
    """`plugins` are the names and agent folders of the plugins that are there."""
    found = [in_folder(path, origin) for origin, path in folders(ground)]
    return found + [in_folder(path, "plugin", prefix=f"{name}:") for name, path in plugins]


def folders(ground: Ground) -> list[tuple[Origin, Path]]:
    if ground.options.is_bare:
        return []
    places = ground.began.places
    sources = SOURCES if ground.options.sources is None else ground.options.sources
    all_of_them: list[tuple[str, Origin, Path]] = [
        ("managed", "managed", folder / ".claude" / FOLDER) for folder in places.managed_folders
    ]
    all_of_them.append(("user", "user", places.config_home / FOLDER))
    all_of_them.append(("project", "project", places.root / ".claude" / FOLDER))
    return [(origin, path) for scope, origin, path in all_of_them if scope in (*sources, "managed")]


def faults_of(found: Iterable[Found]) -> tuple[str, ...]:
    return tuple(fault for one in found for fault in one.faults)
