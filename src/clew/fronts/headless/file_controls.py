"""File requests from a host, subject to the permission rules of the Read tool.

A host can also report which files it has read itself.
"""

import base64
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from clew.agent.context.git import Changes, find_changes
from clew.agent.context.git_report import GitChange
from clew.core.json_object import Json
from clew.core.messages.errors import UserError
from clew.fronts.headless.framing import list_agents, list_commands
from clew.fronts.headless.servers import describe_servers
from clew.fronts.headless.session_controls import (
    ControlContext,
    ControlHandlers,
    ControlRefusedError,
)
from clew.permissions.decision import Allow
from clew.session.session import Session
from clew.system.files import is_file, read_content

# The uncommitted changes in a session's folder for a host: files, counts, and hunks within limits.


# Limits that keep the answer in one frame: the number of files, and the characters of one file and
# of all files.
FILES = 500
FILE_CHARACTERS = 100_000
ALL_CHARACTERS = 250_000


async def get_workspace_diff(context: ControlContext, _: Json) -> Json:
    session = context.session
    standing = session.rules.standing
    diff = await find_changes(session.workspace.launcher, standing.places.cwd, standing.environ)
    if diff is None:
        return {"diff": None, "noDiffReason": "no-repository"}
    may_read = session.rules.may_read(str(diff.root))
    return {"diff": told(diff, {file.path for file in diff.files if not may_read(file.path)})}


def told(git_changes: Changes, hidden: set[str]) -> Json:
    """Return a description of uncommitted changes, without the lines of the `hidden` files."""
    files = git_changes.files[:FILES]
    hunks, large = within(change for change in files if change.path not in hidden)
    return {
        "stats": {
            "filesCount": len(git_changes.files),
            "linesAdded": sum(file.added for file in git_changes.files),
            "linesRemoved": sum(file.removed for file in git_changes.files),
        },
        "perFileStats": [counted(change) for change in files],
        "omitted": {"files": len(git_changes.files) - len(files), "exact": not git_changes.is_cut},
        "hunks": hunks,
        "skippedLarge": large,
        "restricted": [change.path for change in files if change.path in hidden],
        "source": (
            {"kind": "branch", "baseBranch": git_changes.branch, "baseRef": git_changes.base}
            if git_changes.base
            else {"kind": "working-tree"}
        ),
    }


def within(files: Iterable[GitChange]) -> tuple[list[Json], list[str]]:
    """Return the hunks that fit into the answer, and the files whose hunks do not fit."""
    rows: list[Json] = []
    large: list[str] = []
    left = ALL_CHARACTERS
    for file in files:
        hunks = file.hunks
        size = 0 if hunks is None else sum(len(line) for hunk in hunks for line in hunk.lines)
        if hunks is None or size > min(left, FILE_CHARACTERS):
            large.append(file.path)
        elif hunks:
            left -= size
            rows.append({"path": file.path, "hunks": msgspec.to_builtins(hunks)})
    return rows, large


def counted(change: GitChange) -> Json:
    before = {"previousPath": change.previous, "newPath": change.path} if change.previous else {}
    return {
        "path": change.path,
        "added": change.added,
        "removed": change.removed,
        "isBinary": change.is_binary,
        "isUntracked": change.is_untracked,
        "status": change.status,
        **before,
    }


MOST_BYTES = 4 << 20


async def file_suggestions(context: ControlContext, fields: Json) -> Json:
    """Return the files that match part of a name, best first, like the completion after `@`."""
    query = fields.get("query")
    if not isinstance(query, str):
        raise UserError("file_suggestions: query: expected a string")
    names = await context.session.workspace.file_names.find(query)
    return {"suggestions": [{"path": name} for name in names]}


async def read_file(context: ControlContext, fields: Json) -> Json:
    path, real = permitted(context.session, fields)
    wanted = fields.get("max_bytes", MOST_BYTES)
    if not isinstance(wanted, int) or isinstance(wanted, bool) or wanted < 0:
        raise UserError("read_file: max_bytes: expected a non-negative integer")
    most = min(wanted, MOST_BYTES)
    try:
        data = read_content(real, most + 1, through_links=False)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
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


async def seed_read_state(context: ControlContext, fields: Json) -> Json:
    """Record that the host has read a file, so that the file can be edited if it is unchanged."""
    session = context.session
    (_, real), mtime = permitted(session, fields), fields.get("mtime")
    if not isinstance(mtime, int | float) or isinstance(mtime, bool):
        raise UserError("seed_read_state: mtime: expected a time in milliseconds")
    return {"seeded": session.tools.note_seen(real, int(mtime))}


def permitted(session: Session, fields: Json) -> tuple[Path, Path]:
    """Return the path of the requested file, and the real path on which permissions decided.

    Raise an error if the permission rules do not allow Read to read it without asking.
    """
    name = fields.get("path")
    if not isinstance(name, str) or not name:
        raise UserError(f"{fields.get('subtype')}: path: expected a non-empty string")
    path = Path(session.workspace.cwd, name)
    places: dict[str, str] = {}
    decision = session.rules.judge(
        "Read", {"file_path": str(path)}, cwd=session.workspace.cwd, places=places
    )
    if not isinstance(decision, Allow):
        raise UserError(f"{path}: the permission rules do not allow reading this file")
    if not is_file(path):
        raise UserError(f"{path}: file not found")
    return path, Path(places[str(path)])


# Reloading for a host: commands and skills, plugins, output styles.


class BusyError(ControlRefusedError):
    """The session is running a turn, and the host asked not to reload during a turn."""

    code = "reload_plugins_busy"


async def reload_skills(context: ControlContext, _: Json) -> Json:
    """Reload commands and skills. The model learns of new ones with the next prompt."""
    session = context.session
    session.parts.skills.reload()
    context.view.tell_commands()
    return {
        "skills": [
            {"name": skill.name, "description": skill.description, "argumentHint": skill.hint}
            for skill in session.parts.skills.all()
        ]
    }


async def reload_plugins(context: ControlContext, fields: Json) -> Json:
    """Reload plugins with all their parts.

    Plugins can be reloaded at any time, because the cached beginning of requests does not change.
    """
    session = context.session
    is_busy = session.conversation.is_running or session.parts.agents.are_working
    if fields.get("refuse_if_busy") is True and is_busy:
        raise BusyError("the session is busy; try again when it is idle")
    result = await session.parts.reloading.all(folders_of(fields.get("add_plugins")))
    context.view.tell_commands()
    return {
        "commands": list_commands(session),
        "agents": list_agents(session),
        "plugins": list(result.plugins),
        "mcpServers": describe_servers(session.parts.mcp),
        "error_count": len(result.faults),
        "errors": list(result.faults),
        **({"held": False} if fields.get("hold_on_cache_impact") is True else {}),
    }


def folders_of(value: Any) -> tuple[str, ...]:
    """Return the plugin folders that a host adds. The host is responsible for the code in them."""
    folders: list[str] = []
    for item in value if isinstance(value, list) else [] if value is None else [value]:
        path = item.get("path") if isinstance(item, dict) else None
        if not isinstance(path, str) or not Path(path).is_absolute():
            raise ControlRefusedError(
                'add_plugins: each item must have a "path", the absolute path of a folder'
            )
        folders.append(path)
    return tuple(folders)


async def reload_output_styles(context: ControlContext, _: Json) -> Json:
    """Reload the list of output styles. The session keeps the style that it uses."""
    return {"available_output_styles": list(context.session.parts.reloading.styles())}


CONTROLS: ControlHandlers = {
    "reload_skills": reload_skills,
    "reload_plugins": reload_plugins,
    "reload_output_styles": reload_output_styles,
    "file_suggestions": file_suggestions,
    "read_file": read_file,
    "seed_read_state": seed_read_state,
    "get_workspace_diff": get_workspace_diff,
}
