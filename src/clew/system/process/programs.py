"""Find the programs that clew itself runs: shells, git, ripgrep, bubblewrap, zstd, clipboards.

A project must not supply them. PATH often has folders of a project, such as `node_modules/.bin` or
a relative `bin`, and a program in them would run at the start of a session, without a question and
whether or not the folder is trusted. Programs that the user configures are looked up as usual.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

# Another process of clew. Without -P, Python would import modules from the current folder.
OWN_COMMAND = (sys.executable, "-P", "-m", "clew")
OWN_PROGRAMS = frozenset(
    {"bash", "sh", "git", "rg", "bwrap", "wl-paste", "xclip", "pngpaste", "zstd"}
)


def find_own_program(name: str, path: str | None = None, *, folder: str = "") -> str | None:
    """Return the path of a program that clew itself runs, or None if it is not installed.

    The project is in `folder` or in this process's folder. `path` is a value of PATH.
    """
    entries = os.pathsep.join(
        outside(os.environ.get("PATH", os.defpath) if path is None else path, folder)
    )
    return shutil.which(name, path=entries) if entries else None


def outside(path: str, folder: str) -> Iterator[str]:
    """Yield the folders of PATH that are absolute and outside the project."""
    projects = [Path(project) for project in dict.fromkeys(find_projects(folder))]
    for entry in path.split(os.pathsep):
        if entry.startswith("/") and not any(
            Path(place).is_relative_to(project)
            for place in (os.path.normpath(entry), os.path.realpath(entry))
            for project in projects
        ):
            yield entry


def find_projects(folder: str) -> Iterator[str]:
    """Yield the real folders in which a project may be, except the home folder and its parents."""
    home = Path(os.path.realpath(Path.home()))
    for project in filter(None, (folder, current_folder())):
        real = os.path.realpath(project)
        if not home.is_relative_to(real):
            yield real
            yield os.path.normpath(project)


def current_folder() -> str:
    try:
        return str(Path.cwd())
    except OSError:  # it was deleted
        return ""
