"""Files as a host asks for them: read by the rules of Read, and what it has seen of them itself."""

import base64
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from clew.agent.context.git import Changes, changes
from clew.agent.context.git_report import GitChange
from clew.core.json_object import Json
from clew.core.messages.errors import UserError
from clew.fronts.headless.servers import status
from clew.fronts.headless.session_controls import (
    ControlRefusedError,
    SessionControls,
    agents,
    commands,
)
from clew.permissions.decision import Allow
from clew.session.session import Session
from clew.system.files import is_file

# What has changed in the folder of a session, as a host asks for it: files, counts, and hunks within bounds.


# The answer is one frame: so many files are named, and so much is told of their lines, of one and of all.
FILES = 500
FILE_CHARACTERS = 100_000
ALL_CHARACTERS = 250_000


async def get_workspace_diff(session: Session, _: Json) -> Json:
    standing = session.rules.standing
    found = await changes(session.workspace.launcher, standing.places.cwd, standing.environ)
    if found is None:
        return {"diff": None, "noDiffReason": "no-repository"}
    may_read = session.rules.may_read(str(found.root))
    return {"diff": told(found, {file.path for file in found.files if not may_read(file.path)})}


def told(found: Changes, hidden: set[str]) -> Json:
    """The answer; of the files of `hidden` no line is told."""
    named = found.files[:FILES]
    hunks, large = within(one for one in named if one.path not in hidden)
    return {
        "stats": {
            "filesCount": len(found.files),
            "linesAdded": sum(file.added for file in found.files),
            "linesRemoved": sum(file.removed for file in found.files),
        },
        "perFileStats": [counted(one) for one in named],
        "omitted": {"files": len(found.files) - len(named), "exact": not found.is_cut},
        "hunks": hunks,
        "skippedLarge": large,
        "restricted": [one.path for one in named if one.path in hidden],
        "source": (
            {"kind": "branch", "baseBranch": found.branch, "baseRef": found.base}
            if found.base
            else {"kind": "working-tree"}
        ),
    }


def within(files: Iterable[GitChange]) -> tuple[list[Json], list[str]]:
    """The hunks of the files, as far as they have room, and the files for which there was none."""
    told: list[Json] = []
    large: list[str] = []
    left = ALL_CHARACTERS
    for file in files:
        hunks = file.hunks
        size = 0 if hunks is None else sum(len(line) for hunk in hunks for line in hunk.lines)
        if hunks is None or size > min(left, FILE_CHARACTERS):
            large.append(file.path)
        elif hunks:
            left -= size
            told.append({"path": file.path, "hunks": msgspec.to_builtins(hunks)})
    return told, large


def counted(one: GitChange) -> Json:
    before = {"previousPath": one.previous, "newPath": one.path} if one.previous else {}
    return {
        "path": one.path,
        "added": one.added,
        "removed": one.removed,
        "isBinary": one.is_binary,
        "isUntracked": one.is_untracked,
        "status": one.status,
        **before,
    }


MOST_BYTES = 4 << 20


async def file_suggestions(session: Session, fields: Json) -> Json:
    """Files by a part of their name, the best first: what the screen offers behind `@`."""
    query = fields.get("query")
    if not isinstance(query, str):
        raise UserError("file_suggestions: query: expected a text")
    found = await session.workspace.file_names.find(query)
    return {"suggestions": [{"path": name} for name in found]}


def read_file(session: Session, fields: Json) -> Json:
    path = permitted(session, fields)
    wanted = fields.get("max_bytes", MOST_BYTES)
    if not isinstance(wanted, int) or isinstance(wanted, bool) or wanted < 0:
        raise UserError("read_file: max_bytes: expected a number of 0 or more")
    most = min(wanted, MOST_BYTES)
    with path.open("rb") as file:
        data = file.read(most + 1)
    cut = {"truncated": True} if len(data) > most else {}
    data = data[:most]
    if fields.get("encoding") == "base64":
        return {
            "contents": base64.b64encode(data).decode(),
            "absPath": str(path),
            "encoding": "base64",
            **cut,
        }
    text = data.decode("utf-8", "replace")
    lossy = text.encode("utf-8") != data
    return {"contents": text, "absPath": str(path), "lossy": lossy, **cut}


def seed_read_state(session: Session, fields: Json) -> Json:
    """The host has seen a file; an edit of it may follow, if it is still as it was."""
    path, mtime = permitted(session, fields), fields.get("mtime")
    if not isinstance(mtime, int | float) or isinstance(mtime, bool):
        raise UserError("seed_read_state: mtime: expected milliseconds")
    return {"seeded": session.tools.note_seen(path, int(mtime))}


def permitted(session: Session, fields: Json) -> Path:
    """A file that Read may read without a question."""
    name = fields.get("path")
    if not isinstance(name, str) or not name:
        raise UserError(f"{fields.get('subtype')}: path: expected a text")
    path = Path(session.workspace.cwd, name)
    decision = session.rules.judge("Read", {"file_path": str(path)}, cwd=session.workspace.cwd)
    if not isinstance(decision, Allow):
        raise UserError(f"{path}: the rules do not allow to read it")
    if not is_file(path):
        raise UserError(f"{path}: no such file")
    return path


# What a host has looked for anew: commands and skills, plugins, output styles.


class BusyError(ControlRefusedError):
    """The session works; the host wanted to be told rather than to disturb it."""

    code = "reload_plugins_busy"


def reload_skills(session: Session, _: Json) -> Json:
    """Commands and skills, looked for anew; the model hears of what is new with the next prompt."""
    session.parts.skills.reload()
    return {"skills": [skill.name for skill in session.parts.skills.all()]}


async def reload_plugins(session: Session, fields: Json) -> Json:
    """Plugins with all their parts; what requests begin with stays, so there is nothing to hold back for."""
    is_busy = session.conversation.is_running or session.parts.agents.are_working
    if fields.get("refuse_if_busy") is True and is_busy:
        raise BusyError("the session works; ask again when it is idle")
    found = await session.parts.reloading.all(folders_of(fields.get("add_plugins")))
    return {
        "commands": commands(session),
        "agents": agents(session),
        "plugins": list(found.plugins),
        "mcpServers": status(session.parts.mcp),
        "error_count": len(found.faults),
        "errors": list(found.faults),
        **({"held": False} if fields.get("hold_on_cache_impact") is True else {}),
    }


def folders_of(given: Any) -> tuple[str, ...]:
    """The folders of plugins that a host adds, which is its word for what they run."""
    found: list[str] = []
    for one in given if isinstance(given, list) else [] if given is None else [given]:
        path = one.get("path") if isinstance(one, dict) else None
        if not isinstance(path, str) or not Path(path).is_absolute():
            raise ControlRefusedError(
                "add_plugins: expected objects with the absolute path of a folder"
            )
        found.append(path)
    return tuple(found)


def reload_output_styles(session: Session, _: Json) -> Json:
    """The styles there could be; the session goes on in the one it began with."""
    return {"available_output_styles": list(session.parts.reloading.styles())}


CONTROLS: SessionControls = {
    "reload_skills": reload_skills,
    "reload_plugins": reload_plugins,
    "reload_output_styles": reload_output_styles,
    "file_suggestions": file_suggestions,
    "read_file": read_file,
    "seed_read_state": seed_read_state,
    "get_workspace_diff": get_workspace_diff,
}
