"""Keep personal files that clew creates in a project out of the project's commits.

One line is added to the repository's own `info/exclude`, which git never commits. A repository may
come from someone else, so no link is followed, and nothing outside the repository's folder is
written.
"""

import os
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path

from clew.system.config.git_guard import OWN_GIT, prepare_git_reading
from clew.system.files import is_folder, read_content
from clew.system.process.programs import find_own_program

MAX_POINTER_BYTES = 4096
GIT_TIMEOUT_S = 5.0


def exclude_from_git(path: Path, environ: Mapping[str, str]) -> None:
    """Exclude a file from its repository, unless git ignores it already.

    Do nothing outside a repository, or if the repository can't be written.
    """
    try:
        folder = path.parent.resolve()
        top = next((f for f in (folder, *folder.parents) if os.path.lexists(f / ".git")), None)
        git = None if top is None else find_git_folder(top)
        if top is None or git is None or is_ignored(folder / path.name, environ):
            return
        append_line(git, f"/{(folder / path.name).relative_to(top).as_posix()}")
    except (OSError, ValueError, subprocess.SubprocessError):
        return


def find_git_folder(top: Path) -> Path | None:
    """Return the git folder that a working tree shares with its linked trees; None if unclear.


    A linked working tree names its folder in the repository, and this folder must name the working
    tree in turn.
    """
    git = top / ".git"
    if stat.S_ISLNK(os.lstat(git).st_mode):
        return None
    if is_folder(git):
        return git
    word, _, name = read_line(git).partition(" ")
    own = Path(top, name).resolve(strict=True)
    common = Path(own, read_line(own / "commondir")).resolve(strict=True)
    back = Path(own, read_line(own / "gitdir"))
    is_linked = word == "gitdir:" and own.parent == common / "worktrees"
    return common if is_linked and back.resolve() == git else None


def read_line(path: Path) -> str:
    return read_content(path, MAX_POINTER_BYTES).decode("utf-8").strip()


def is_ignored(path: Path, environ: Mapping[str, str]) -> bool:
    """Return whether git ignores a file or already tracks it."""
    environment = prepare_git_reading(environ, path.parent).environment
    program = find_own_program("git", folder=str(path.parent))
    if program is None:
        raise FileNotFoundError("git is not installed")
    done = subprocess.run(
        [program, *OWN_GIT[1:], "-C", str(path.parent), "check-ignore", "--quiet", path.name],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=GIT_TIMEOUT_S,
    )
    # 1 means that no pattern matches; anything else is a match or an error.
    return done.returncode != 1


def append_line(git: Path, line: str) -> None:
    """Add a line to the list of excluded files, without following a link."""
    info = os.open(git / "info", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        with os.fdopen(os.open("exclude", flags, 0o644, dir_fd=info), "rb+") as file:
            before = file.read()
            separator = b"" if not before or before.endswith(b"\n") else b"\n"
            file.write(separator + os.fsencode(line) + b"\n")
    finally:
        os.close(info)
