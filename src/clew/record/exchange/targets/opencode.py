"""Write a session as an opencode export, which `opencode import FILE` reads. Does no I/O."""

from collections.abc import Iterator
from typing import Any

from clew.core.json_object import Json, object_of, text_of
from clew.core.messages.encoding import encode
from clew.record.exchange.targets.turns import (
    NO_RESULT,
    ExportedSession,
    ExportedTurn,
    count_tokens,
    picture_url,
)

# opencode's names for clew's tools and their parameters.
_TOOLS: dict[str, tuple[str, dict[str, str]]] = {
    "Bash": ("bash", {}),
    "Read": ("read", {"file_path": "filePath"}),
    "Write": ("write", {"file_path": "filePath"}),
    "Edit": (
        "edit", {"file_path": "filePath", "old_string": "oldString", "new_string": "newString"}),
    "Grep": ("grep", {}),
    "Glob": ("glob", {}),
}  # fmt: skip
VERSION = "1.0.0"
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def opencode_id(session: ExportedSession) -> str:
    return _id(session, "ses", 0, "session", session.last_uuid)


def _id(session: ExportedSession, kind: str, at_ms: int, *names: int | str) -> str:
    """Return an ID in opencode's form: 12 sortable hex digits, then 14 letters or digits.

    If the last of `names` is a number, IDs with the same time are sorted by this number.
    """
    number = int(session.derive_id("opencode", kind, *names).replace("-", ""), 16)
    letters = ""
    for _ in range(14):
        number, digit = divmod(number, 62)
        letters += _DIGITS[digit]
    place = names[-1] if isinstance(names[-1], int) else 0
    return f"{kind}_{at_ms * 4096 + place & 0xFFFFFFFFFFFF:012x}{letters}"


def encode_opencode(session: ExportedSession) -> bytes:
    times = [turn.at_ms for turn in session.turns] or [0]
    own = opencode_id(session)
    info = {
        "id": own,
        "slug": "clew",
        "version": VERSION,
        "projectID": "global",
        "directory": session.cwd,
        "title": session.title or "clew",
        "time": {"created": times[0], "updated": times[-1]},
    }
    value = {"info": info, "messages": list(_messages(session, own))}
    return encode(value) + b"\n"


def _messages(session: ExportedSession, own: str) -> Iterator[Json]:
    results = {turn.call_id: turn for turn in session.turns if turn.role == "result"}
    prompt_id, order = "", 0
    for turn in session.turns:
        if turn.role == "result":
            continue
        order += 1
        message_id = _id(session, "msg", turn.at_ms + order, order)
        place = {"sessionID": own, "messageID": message_id}
        if turn.role == "user":
            prompt_id = message_id
            model = next((t.model for t in session.turns if t.model), "unknown")
            info: Json = {
                "id": message_id, "sessionID": own, "role": "user",
                "time": {"created": turn.at_ms}, "agent": "build",
                "model": {"providerID": "anthropic", "modelID": model},
            }  # fmt: skip
            parts = [_given(block, is_meta=turn.is_meta) for block in turn.blocks]
        else:
            info = _assistant(turn, session, own, message_id, prompt_id)
            parts = [_said(block, turn, results) for block in turn.blocks]
        yield {
            "info": info,
            "parts": [
                {"id": _id(session, "prt", turn.at_ms + order, order, number), **place, **part}
                for number, part in enumerate(parts)
            ],
        }


def _assistant(
    turn: ExportedTurn, session: ExportedSession, own: str, message_id: str, asked: str
) -> Json:
    usage = turn.usage
    return {
        "id": message_id,
        "sessionID": own,
        "role": "assistant",
        "parentID": asked,
        "mode": "build",
        "agent": "build",
        "path": {"cwd": session.cwd, "root": session.cwd},
        "modelID": turn.model or "unknown",
        "providerID": "anthropic",
        "cost": turn.cost_usd,
        "tokens": {
            "input": count_tokens(usage, "input_tokens"),
            "output": count_tokens(usage, "output_tokens"),
            "reasoning": 0,
            "cache": {
                "read": count_tokens(usage, "cache_read_input_tokens"),
                "write": count_tokens(usage, "cache_creation_input_tokens"),
            },
        },
        "time": {"created": turn.at_ms, "completed": turn.at_ms},
        "finish": "tool-calls" if turn.calls else "stop",
    }


def _given(block: Json, *, is_meta: bool) -> Json:
    if block["type"] == "image":
        media = text_of(object_of(block.get("source")).get("media_type"))
        return {"type": "file", "mime": media, "url": picture_url(block), "filename": "image"}
    part = {"type": "text", "text": text_of(block.get("text"))}
    return part | ({"synthetic": True} if is_meta else {})


def _said(block: Json, turn: ExportedTurn, results: dict[str, ExportedTurn]) -> Json:
    time = {"start": turn.at_ms, "end": turn.at_ms}
    match block["type"]:
        case "text":
            return {"type": "text", "text": block["text"], "time": time}
        case "thinking":
            return {"type": "reasoning", "text": block["thinking"], "time": time}
    name, keys = _TOOLS.get(block["name"], (block["name"], {}))
    value = {keys.get(key, key): v for key, v in object_of(block.get("input")).items()}
    result = results.get(block["id"])
    ended = {"start": turn.at_ms, "end": result.at_ms if result else turn.at_ms}
    state: Json = {"input": value, "time": ended}
    if result is None or result.is_error:
        state |= {"status": "error", "error": result.text if result else NO_RESULT}
    else:
        state |= {
            "status": "completed", "output": result.text, "title": name, "metadata": {},
        }  # fmt: skip
        pictures: list[Any] = [b for b in result.blocks if b["type"] == "image"]
        if pictures:
            state["attachments"] = [_given(b, is_meta=False) for b in pictures]
    return {"type": "tool", "tool": name, "callID": block["id"], "state": state}
