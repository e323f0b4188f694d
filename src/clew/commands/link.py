"""`clew link`: create a program named `claude` that starts clew, for programs that call `claude`.

It never replaces or removes a file that it did not create.
"""

import os
import shlex
import shutil
import stat
import sys
from pathlib import Path

from clew.core.messages.errors import UserError
from clew.system.command_groups import Group
from clew.system.files import is_there, read_content

NAME = "claude"
# Where the published SDKs look after the PATH, so that no shell has to be restarted.
FOLDER = "~/.local/bin"
MARK = "# Made by clew link; clew link --remove removes it."


def make_shim(program: str) -> str:
    """Return the text of a program that starts clew with the same arguments."""
    return f'#!/bin/sh\n{MARK}\nexec {shlex.quote(program)} "$@"\n'


def is_ours(path: Path) -> bool:
    """Return whether `clew link` made the file."""
    try:
        is_link = stat.S_ISLNK(path.lstat().st_mode)
        return not is_link and MARK.encode() in read_content(path, 1000).split(b"\n")[:2]
    except OSError:
        return False


def link(folder: Path, program: str) -> str:
    """Create the program in the folder, and return a message about the result."""
    path = folder / NAME
    if os.path.lexists(path) and not is_ours(path):
        raise UserError(
            f"{path} already exists, and clew link never replaces a program; use --folder"
        )
    folder.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    # Fails if another program created the file in the meantime.
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o755)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(make_shim(program))
    first = shutil.which(NAME)
    if first is None:
        return f"{path} starts clew, but {folder} is not on your PATH"
    if Path(first).resolve() != path.resolve():
        return f"{path} starts clew, but {first} comes first on your PATH"
    return f"{path} starts clew"


def unlink(folder: Path) -> str:
    path = folder / NAME
    if not os.path.lexists(path):
        return f"{path}: not found"
    if not is_ours(path):
        raise UserError(f"{path} was not created by clew link, so it was not removed")
    path.unlink()
    return f"removed {path}"


def find_program() -> str:
    """Return the path of the installed clew that is running."""
    beside = Path(sys.executable).with_name("clew")
    program = str(beside) if is_there(beside) else shutil.which("clew")
    if program is None:
        raise UserError("clew not found on the PATH; install it with pip, pipx or uv tool")
    return program


def main(argv: list[str]) -> int:
    parser = Group(
        prog="clew link",
        description=f"Create a program named {NAME} that starts clew, for programs that call"
        f" {NAME}. Existing programs are never replaced.",
    )
    parser.add_argument(
        "--folder", default=FOLDER, help=f"Folder for the program (default: {FOLDER})"
    )
    parser.add_argument("--remove", action="store_true", help="Remove the program")
    options = parser.parse_args(argv)
    folder = Path(options.folder).expanduser().absolute()
    did = unlink(folder) if options.remove else link(folder, find_program())
    sys.stdout.write(f"{did}\n")
    return 0
