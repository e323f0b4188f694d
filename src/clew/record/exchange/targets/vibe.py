"""Write a session as the two files of a Mistral Vibe session. Does no I/O.

`vibe --resume ID` continues it; version 3 first copies it to its own store.
"""

from collections.abc import Iterator

from clew.core.json_object import Json, object_of, text_of
from clew.core.messages.encoding import encode
from clew.record.exchange.targets.turns import ExportedSession, ExportedTurn, encode_lines

# Mistral Vibe's names for clew's tools that have the same parameters.
_TOOLS = {"Bash": "bash"}


def encode_vibe(session: ExportedSession) -> bytes:
    """Return the session as one object, as old versions stored it."""
    value = {"metadata": _metadata(session), "messages": list(_messages(session))}
    return encode(value) + b"\n"


def encode_messages(session: ExportedSession) -> bytes:
    """Return the lines of `messages.jsonl`."""
    return encode_lines(_messages(session))


def encode_metadata(session: ExportedSession) -> bytes:
    """Return the content of `meta.json`, next to the messages."""
    return encode(_metadata(session)) + b"\n"


def _metadata(session: ExportedSession) -> Json:
    return {
        "session_id": vibe_id(session), "start_time": session.begun_at,
        "end_time": session.turns[-1].at if session.turns else None,
        "git_commit": None, "git_branch": session.branch or None, "username": "",
        "environment": {"working_directory": session.cwd},
        "title": session.title or None, "title_source": "auto",
    }  # fmt: skip


def _messages(session: ExportedSession) -> Iterator[Json]:
    for number in range(len(session.turns)):
        yield _message(session, number)


def vibe_id(session: ExportedSession) -> str:
    return session.derive_id("vibe", session.last_uuid)


def _message(session: ExportedSession, number: int) -> Json:
    turn = session.turns[number]
    pictures = list(_images(turn))
    message: Json = {"role": turn.role, "content": turn.text}
    if turn.role == "result":
        name = _TOOLS.get(turn.tool, turn.tool)
        return message | {"role": "tool", "name": name, "tool_call_id": turn.call_id}
    message["message_id"] = session.derive_id("vibe", number)
    if turn.role == "user":
        return (
            message
            | ({"injected": True} if turn.is_meta else {})
            | ({"images": pictures} if pictures else {})
        )
    if turn.thinking:
        message["reasoning_content"] = turn.thinking
    calls = [
        {"id": block["id"], "index": index, "type": "function", "function": _function(block)}
        for index, block in enumerate(turn.calls)
    ]
    return message | ({"tool_calls": calls} if calls else {})


def _function(block: Json) -> Json:
    arguments = encode(object_of(block.get("input"))).decode("utf-8", "replace")
    return {"name": _TOOLS.get(block["name"], block["name"]), "arguments": arguments}


def _images(turn: ExportedTurn) -> Iterator[Json]:
    for block in turn.blocks:
        source = object_of(block.get("source"))
        if block["type"] == "image" and type(source.get("data")) is str:
            media = text_of(source.get("media_type"))
            yield {"alias": "image", "mime_type": media,
                   "source": {"kind": "inline", "data": source["data"]}}  # fmt: skip
