"""Looks for command files and skills in folders, and reads their heads; their texts when they are called.

Must never follow a folder for ever, or end a session for a file: what cannot be read is a complaint.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from clew.config import frontmatter
from clew.config.folders import markdown_below, names_in
from clew.config.regular import only_files
from clew.skills.skill import Origin, Skill, skill

SKILL_FILE = "SKILL.md"
# The head and the first words of what follows; the rest is read when the skill is called.
HEAD_BYTES = 2048
MAX_FILE_BYTES = 512 * 1024
CUT = f"(Only the first {MAX_FILE_BYTES // 1024} KiB of {{file}} are here.)"


# Why a file may not be sent to the model, by its path and where it is from.
Refuses: TypeAlias = Callable[[str, Origin], str | None]


def refuses_none(_: str, __: Origin) -> str | None:
    return None


class Found(Struct):
    """What was found so far, and what is wrong with it."""

    skills: list[Skill]
    faults: list[str]
    refuses: Refuses = refuses_none


def skills_in(folder: Path, origin: Origin, found: Found, *, space: str = "") -> None:
    """Every skill of a folder of skills: its subfolders that have a SKILL.md."""
    for name in names_in(folder, found.faults):
        path = f"{folder}/{name}/{SKILL_FILE}"
        take(path, f"{space}{name}", origin, found, folder=f"{folder}/{name}")


def skill_at(folder: Path, origin: Origin, found: Found, *, space: str = "") -> None:
    """One skill, whose folder this is."""
    take(f"{folder}/{SKILL_FILE}", f"{space}{folder.name}", origin, found, folder=str(folder))


def commands_in(folder: Path, origin: Origin, found: Found, *, space: str = "") -> None:
    """Every command file of a folder and of those below it, whose names stand before theirs."""
    for path, names in markdown_below(folder, found.faults):
        take(path, space + ":".join(names), origin, found)


def command_at(path: Path, origin: Origin, found: Found, *, space: str = "") -> None:
    take(str(path), f"{space}{path.stem}", origin, found)


def take(path: str, name: str, origin: Origin, found: Found, *, folder: str = "") -> None:
    """Adds the skill of a file; no file is no skill, and one that has no name to call it by neither."""
    if found.refuses(path, origin) is not None:
        return
    try:
        with open(path, "rb", buffering=0, opener=only_files) as file:
            data = file.read(HEAD_BYTES)
            if len(data) == HEAD_BYTES and data.startswith(b"---") and b"\n---" not in data[3:]:
                data += file.read(frontmatter.MAX_HEAD_CHARACTERS)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        found.faults.append(f"{path}: {error.strerror}")
        return
    head = frontmatter.read(data.decode("utf-8", "replace"))
    found.faults += [f"{path}:{fault}" for fault in head.faults]
    if name.split() != [name]:
        found.faults.append(f"{path}: a name with spaces in it cannot be called")
        return
    found.skills.append(skill(head, name=name, origin=origin, file=path, folder=folder))


def body_of(one: Skill) -> str:
    """The text below the head, as it is now. Raises OSError."""
    with open(one.file, "rb", opener=only_files) as file:
        data = file.read(MAX_FILE_BYTES + 1)
    body = frontmatter.read(data[:MAX_FILE_BYTES].decode("utf-8", "replace")).body.strip()
    return f"{body}\n\n{CUT.format(file=one.file)}" if len(data) > MAX_FILE_BYTES else body
