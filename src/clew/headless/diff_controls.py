"""What has changed in the folder of a session, as a host asks for it: files, counts, and hunks within bounds.

A file that the rules do not let Read read is named, and no line of it told.
"""

from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec

from clew.app.session import Session
from clew.context.git import Changes, changes
from clew.context.git_changes import Change

Json: TypeAlias = dict[str, Any]

# The answer is one frame: so many files are named, and so much is told of their lines, of one and of all.
FILES = 500
FILE_CHARACTERS = 100_000
ALL_CHARACTERS = 250_000


async def get_workspace_diff(session: Session, _: Json) -> Json:
    standing = session.rules.standing
    found = await changes(session.launcher, standing.places.cwd, standing.environ)
    if found is None:
        return {"diff": None, "noDiffReason": "no-repository"}
    may_read = session.rules.may_read(str(found.root))
    return {"diff": told(found, {one.path for one in found.files if not may_read(one.path)})}


def told(found: Changes, hidden: set[str]) -> Json:
    """The answer; of the files of `hidden` no line is told."""
    named = found.files[:FILES]
    hunks, large = within(one for one in named if one.path not in hidden)
    return {
        "stats": {
            "filesCount": len(found.files),
            "linesAdded": sum(one.added for one in found.files),
            "linesRemoved": sum(one.removed for one in found.files),
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


def within(files: Iterable[Change]) -> tuple[list[Json], list[str]]:
    """The hunks of the files, as far as they have room, and the files for which there was none."""
    told: list[Json] = []
    large: list[str] = []
    left = ALL_CHARACTERS
    for one in files:
        hunks = one.hunks
        size = 0 if hunks is None else sum(len(line) for hunk in hunks for line in hunk.lines)
        if hunks is None or size > min(left, FILE_CHARACTERS):
            large.append(one.path)
        elif hunks:
            left -= size
            told.append({"path": one.path, "hunks": msgspec.to_builtins(hunks)})
    return told, large


def counted(one: Change) -> Json:
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
