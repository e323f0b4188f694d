"""Sessions of a moved or renamed project, recognized by its repository and offered once.

The repository's identity is in the first line of its sessions (`recording.identify_project`).
Nothing is moved without the user's answer.
"""

import os
from pathlib import Path

import msgspec

from clew.core.input import Pick, PickRow
from clew.core.messages.encoding import decode_object
from clew.core.messages.text import format_count
from clew.record.library.keeping import Gone
from clew.record.transcript import light
from clew.record.transcript.header import read_header
from clew.record.transcript.paths import get_own_dir, get_projects_dir
from clew.system.files import is_folder

LEFT = "left-projects.jsonl"


def find_moved_project(home: Path, identity: str) -> Gone | None:
    """Return the missing folder whose sessions belong to this repository, or None."""
    projects = get_projects_dir(home)
    for folder in sorted(projects.iterdir()) if is_folder(projects) else ():
        paths = light.list_session_files(folder)
        header = read_header(paths[0]) if paths else {}
        cwd = header.get("cwd")
        if header.get("project") == identity and isinstance(cwd, str) and not is_folder(cwd):
            return Gone(cwd=cwd, sessions=len(paths))
    return None


def offer_moved_sessions(home: Path, cwd: str, identity: str) -> Pick | None:
    """Return the dialog that asks whether to move the sessions.

    Return None if there are no such sessions, or the question was already answered.
    """
    moved = find_moved_project(home, identity)
    if moved is None or _was_left(home, moved.cwd, cwd):
        return None
    count = format_count(moved.sessions, "session")
    rows = (
        PickRow(line=f"/relocate {moved.cwd}", label=f"Move {count} to this folder"),
        PickRow(line=f"/relocate --leave {moved.cwd}", label="Don't move, and don't ask again"),
    )
    text = f"This repository was in {moved.cwd}, which no longer exists. clew has {count} from it."
    return Pick(title="Sessions of a moved project", rows=rows, text=text)


def leave_sessions(home: Path, old: str, cwd: str) -> None:
    """Record that the sessions of a missing folder don't belong to this one."""
    path = get_own_dir(home) / LEFT
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(msgspec.json.encode({"from": old, "to": cwd}) + b"\n")


def _was_left(home: Path, old: str, cwd: str) -> bool:
    try:
        lines = (get_own_dir(home) / LEFT).read_bytes().split(b"\n")
    except FileNotFoundError:
        return False
    return any(decode_object(line) == {"from": old, "to": cwd} for line in lines)
