"""Where command files and skills lie, and all of them by name.

Owns the order of the places. The person's own go before the project's: a repository that was just
cloned cannot put another text behind a name that a person is used to.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct, structs

from clew.config.load import stamp
from clew.config.paths import Places
from clew.config.there import is_folder, is_there
from clew.skills.find import (
    Found,
    Refuses,
    command_at,
    commands_in,
    refuses_none,
    skill_at,
    skills_in,
)
from clew.skills.skill import Origin, Skill, ranked

BUNDLED = Path(__file__).parent / "bundled"


class Place(Struct, frozen=True, kw_only=True):
    """A folder with `commands` and `skills` in it."""

    folder: Path
    origin: Origin


class FromPlugin(Struct, frozen=True, kw_only=True):
    """What a plugin adds: folders of commands and skills, single ones, and the name that stands before."""

    name: str
    root: Path
    # Whether a person lets it run things: then its skills may bring rules, too.
    is_trusted: bool = False
    command_folders: tuple[Path, ...] = ()
    command_files: tuple[Path, ...] = ()
    skill_folders: tuple[Path, ...] = ()
    single_skills: tuple[Path, ...] = ()


def places_of(places: Places, sources: Collection[str], further: Iterable[str] = ()) -> list[Place]:
    """The folders of a session; `sources` are the kinds of settings that count."""
    found = [
        Place(folder=each, origin="managed")
        for folder in places.managed_folders
        for each in (folder, folder / ".claude")
    ]
    if "user" in sources:
        found.append(Place(folder=places.config_home, origin="user"))
    if "project" in sources:
        around = (folder / ".claude" for folder in (*upwards(places), *map(Path, further)))
        found += [
            Place(folder=folder, origin="project")
            for folder in dict.fromkeys(around)
            if folder != places.config_home
        ]
    return found


def upwards(places: Places) -> Iterator[Path]:
    """The working folder and those around it, up to the repository's or the home folder."""
    is_inside = any(is_there(f / ".git") for f in (places.cwd, *places.cwd.parents))
    for folder in (places.cwd, *places.cwd.parents):
        yield folder
        if not is_inside or folder == places.home or is_there(folder / ".git"):
            return


class Shelf:
    """Everything that was found, by name; looked for when first asked, and again when asked to."""

    def __init__(
        self,
        places: Sequence[Place],
        plugins: Sequence[FromPlugin] = (),
        refuses: Refuses = refuses_none,
    ) -> None:
        self._places = list(places)
        self._refuses = refuses
        self._plugins = list(plugins)
        self._by_name: dict[str, Skill] | None = None
        self._stamps: dict[Path, object] = {}
        self.faults: list[str] = []

    def all(self) -> dict[str, Skill]:
        if self._by_name is None:
            self._by_name = self._look()
        return self._by_name

    def add(self, place: Place) -> bool:
        """Looks in one more folder from now on; False if it is known, or has nothing."""
        if place in self._places:
            return False
        self._places.append(place)
        if not any(is_folder(place.folder / name) for name in ("commands", "skills")):
            return False
        self._by_name = None
        return True

    def refresh(self) -> None:
        """Looks again if a folder has gained or lost something."""
        if any(stamp(folder) != before for folder, before in self._stamps.items()):
            self._by_name = None

    def forget(self) -> None:
        """Looks again, whatever has changed, when it is asked next."""
        self._by_name = None

    def replace_plugins(self, plugins: Sequence[FromPlugin]) -> None:
        self._plugins, self._by_name = list(plugins), None

    def _look(self) -> dict[str, Skill]:
        found = Found([], [], self._refuses)
        self._stamps = {}
        for place in self._places:
            for name, look in (("skills", skills_in), ("commands", commands_in)):
                folder = place.folder / name
                self._stamps[folder] = stamp(folder)
                look(folder, place.origin, found)
        for plugin in self._plugins:
            add_plugin(plugin, found)
        skills_in(BUNDLED, "bundled", found)
        self.faults = found.faults
        return ranked(found.skills)


def add_plugin(plugin: FromPlugin, found: Found) -> None:
    space, own = f"{plugin.name}:", Found([], found.faults)
    for folder in plugin.skill_folders:
        skills_in(folder, "plugin", own, space=space)
    for folder in plugin.single_skills:
        skill_at(folder, "plugin", own, space=space)
    for folder in plugin.command_folders:
        commands_in(folder, "plugin", own, space=space)
    for file in plugin.command_files:
        command_at(file, "plugin", own, space=space)
    found.skills += [
        structs.replace(one, plugin_root=str(plugin.root), is_vouched=plugin.is_trusted)
        for one in own.skills
    ]
