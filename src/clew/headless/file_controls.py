"""Files as a host asks for them: read by the rules of Read, and what it has seen of them itself."""

import base64
from pathlib import Path
from typing import Any, TypeAlias

from clew.app.session import Session
from clew.config.there import is_file
from clew.messages.errors import UserError
from clew.permissions.decision import Allow

Json: TypeAlias = dict[str, Any]
MOST_BYTES = 4 << 20


async def file_suggestions(session: Session, fields: Json) -> Json:
    """Files by a part of their name, the best first: what the screen offers behind `@`."""
    query = fields.get("query")
    if not isinstance(query, str):
        raise UserError("file_suggestions: query: expected a text")
    found = await session.names.find(query)
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
    path = Path(session.cwd, name)
    decision = session.rules.judge("Read", {"file_path": str(path)}, cwd=session.cwd)
    if not isinstance(decision, Allow):
        raise UserError(f"{path}: the rules do not allow to read it")
    if not is_file(path):
        raise UserError(f"{path}: no such file")
    return path
