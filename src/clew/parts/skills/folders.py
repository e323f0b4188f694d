"""Find command files and skills, and index them by name.

Owns the order in which places are searched. The user's own skills have precedence over the
project's, so a freshly cloned repository cannot redefine a skill that the user knows.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct, structs

from clew.parts.skills.skill import Origin, Skill, make_skill, rank_skills
from clew.system.config import frontmatter
from clew.system.config.load import read_stamp
from clew.system.config.paths import Places
from clew.system.files import find_markdown, is_folder, is_there, list_names, open_only_files

# Search folders for command files and skills, and read their front matter. Bodies are read on use.


SKILL_FILE = "SKILL.md"
# The front matter and the start of the body; the rest is read when the skill is called.
HEAD_BYTES = 2048
MAX_FILE_BYTES = 512 * 1024
CUT = f"(Only the first {MAX_FILE_BYTES // 1024} KiB of {{file}} are included.)"


# Returns why a file must not be sent to the model, given its path and origin.
Refuses: TypeAlias = Callable[[str, Origin], str | None]


def refuses_none(_: str, __: Origin) -> str | None:
    return None


class SkillListing(Struct):
    """The skills found so far, and the errors in files. `refuses` decides which files to skip."""

    skills: list[Skill]
    faults: list[str]
    refuses: Refuses = refuses_none


def skills_in(folder: Path, origin: Origin, listing: SkillListing, *, space: str = "") -> None:
    """Add the skills in a folder: one for each subfolder that contains a SKILL.md."""
    for name in list_names(folder, listing.faults):
        path = f"{folder}/{name}/{SKILL_FILE}"
        take(path, f"{space}{name}", origin, listing, folder=f"{folder}/{name}")


def skill_at(folder: Path, origin: Origin, listing: SkillListing, *, space: str = "") -> None:
    """Add the skill whose SKILL.md is directly in `folder`."""
    take(f"{folder}/{SKILL_FILE}", f"{space}{folder.name}", origin, listing, folder=str(folder))


def commands_in(folder: Path, origin: Origin, listing: SkillListing, *, space: str = "") -> None:
    """Add all command files in a folder.

    The names of subfolders become prefixes of command names.
    """
    for path, names in find_markdown(folder, listing.faults):
        take(path, space + ":".join(names), origin, listing)


def command_at(path: Path, origin: Origin, listing: SkillListing, *, space: str = "") -> None:
    take(str(path), f"{space}{path.stem}", origin, listing)


def take(path: str, name: str, origin: Origin, listing: SkillListing, *, folder: str = "") -> None:
    """Read the front matter of a file and add the skill.

    Add nothing if the file does not exist or is refused, or if the name contains spaces.
    """
    if listing.refuses(path, origin) is not None:
        return
    try:
        with open(path, "rb", buffering=0, opener=open_only_files) as file:
            data = file.read(HEAD_BYTES)
            if len(data) == HEAD_BYTES and data.startswith(b"---") and b"\n---" not in data[3:]:
                data += file.read(frontmatter.MAX_HEAD_CHARACTERS)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        listing.faults.append(f"{path}: {error.strerror}")
        return
    head = frontmatter.read(data.decode("utf-8", "replace"))
    listing.faults += [f"{path}:{fault}" for fault in head.faults]
    if name.split() != [name]:
        listing.faults.append(f"{path}: the name of a skill or command must not contain spaces")
        return
    listing.skills.append(make_skill(head, name=name, origin=origin, file=path, folder=folder))


def body_of(loaded_skill: Skill) -> str:
    """Read a skill's text below the front matter. Raise OSError if the file cannot be read."""
    with open(loaded_skill.file, "rb", opener=open_only_files) as file:
        data = file.read(MAX_FILE_BYTES + 1)
    body = frontmatter.read(data[:MAX_FILE_BYTES].decode("utf-8", "replace")).body.strip()
    return f"{body}\n\n{CUT.format(file=loaded_skill.file)}" if len(data) > MAX_FILE_BYTES else body


BUNDLED = Path(__file__).parent / "bundled"


class SkillFolder(Struct, frozen=True, kw_only=True):
    """A folder that is searched for skills, in its subfolders `commands` and `skills`."""

    folder: Path
    origin: Origin


class FromPlugin(Struct, frozen=True, kw_only=True):
    """The commands and skills of a plugin: folders and single files.

    `name` is the prefix of their names.
    """

    name: str
    root: Path
    # Whether the user trusts its programs. Then its skills' permission rules apply, too.
    is_trusted: bool = False
    command_folders: tuple[Path, ...] = ()
    command_files: tuple[Path, ...] = ()
    skill_folders: tuple[Path, ...] = ()
    single_skills: tuple[Path, ...] = ()


def places_of(
    places: Places, sources: Collection[str], further: Iterable[str] = ()
) -> list[SkillFolder]:
    """Return the folders that a session searches. `sources` are the enabled settings scopes."""
    skill_folders = [
        SkillFolder(folder=base, origin="managed")
        for folder in places.managed_folders
        for base in (folder, folder / ".claude")
    ]
    if "user" in sources:
        skill_folders.append(SkillFolder(folder=places.config_home, origin="user"))
    if "project" in sources:
        around = (folder / ".claude" for folder in (*upwards(places), *map(Path, further)))
        skill_folders += [
            SkillFolder(folder=folder, origin="project")
            for folder in dict.fromkeys(around)
            if folder != places.config_home
        ]
    return skill_folders


def upwards(places: Places) -> Iterator[Path]:
    """Yield the working folder and its parents, up to the repository's root or the home folder.

    Outside a repository, yield only the working folder.
    """
    is_inside = any(is_there(f / ".git") for f in (places.cwd, *places.cwd.parents))
    for folder in (places.cwd, *places.cwd.parents):
        yield folder
        if not is_inside or folder == places.home or is_there(folder / ".git"):
            return


class SkillLibrary:
    """All skills, by name. Files are searched on first use, and again on request."""

    def __init__(
        self,
        places: Sequence[SkillFolder],
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

    def add(self, place: SkillFolder) -> bool:
        """Also search another folder from now on. Return whether this may add skills."""
        if place in self._places:
            return False
        self._places.append(place)
        if not any(is_folder(place.folder / name) for name in ("commands", "skills")):
            return False
        self._by_name = None
        return True

    def refresh(self) -> None:
        """Search again on the next use if a folder has changed."""
        if any(read_stamp(folder) != before for folder, before in self._stamps.items()):
            self._by_name = None

    def forget(self) -> None:
        """Search again on the next use, even if no folder has changed."""
        self._by_name = None

    def replace_plugins(self, plugins: Sequence[FromPlugin]) -> None:
        self._plugins, self._by_name = list(plugins), None

    def _look(self) -> dict[str, Skill]:
        listing = SkillListing([], [], self._refuses)
        self._stamps = {}
        for place in self._places:
            for name, look in (("skills", skills_in), ("commands", commands_in)):
                folder = place.folder / name
                self._stamps[folder] = read_stamp(folder)
                look(folder, place.origin, listing)
        for plugin in self._plugins:
            add_plugin(plugin, listing)
        skills_in(BUNDLED, "bundled", listing)
        self.faults = listing.faults
        return rank_skills(listing.skills)


def add_plugin(plugin: FromPlugin, listing: SkillListing) -> None:
    space, own = f"{plugin.name}:", SkillListing([], listing.faults)
    for folder in plugin.skill_folders:
        skills_in(folder, "plugin", own, space=space)
    for folder in plugin.single_skills:
        skill_at(folder, "plugin", own, space=space)
    for folder in plugin.command_folders:
        commands_in(folder, "plugin", own, space=space)
    for file in plugin.command_files:
        command_at(file, "plugin", own, space=space)
    listing.skills += [
        structs.replace(own_skill, plugin_root=str(plugin.root), is_vouched=plugin.is_trusted)
        for own_skill in own.skills
    ]
