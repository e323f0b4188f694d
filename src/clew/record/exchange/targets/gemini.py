"""Write a session as a Gemini CLI session, which `gemini --resume ID` continues. Does no I/O."""

from collections.abc import Iterator
from hashlib import sha256

from clew.core.json_object import Json, object_of
from clew.record.exchange.targets.contents import (
    count_input,
    make_part,
    make_result_part,
    tool_name,
)
from clew.record.exchange.targets.turns import ExportedSession, ExportedTurn, encode_lines


def encode_gemini(session: ExportedSession) -> bytes:
    return encode_lines(_lines(session))


def gemini_id(session: ExportedSession) -> str:
    return session.derive_id("gemini", session.last_uuid)


def _lines(session: ExportedSession) -> Iterator[Json]:
    head: Json = {
        "sessionId": gemini_id(session),
        "projectHash": sha256(session.cwd.encode("utf-8", "replace")).hexdigest(),
        "startTime": session.begun_at,
        "lastUpdated": session.turns[-1].at if session.turns else "",
        "kind": "main",
    }
    yield head | ({"summary": session.title} if session.title else {})
    results = {turn.call_id: turn for turn in session.turns if turn.role == "result"}
    for number, turn in enumerate(session.turns):
        if turn.role != "result":
            place = {"id": session.derive_id("gemini", number), "timestamp": turn.at}
            yield place | _message(turn, results)


def _message(turn: ExportedTurn, results: dict[str, ExportedTurn]) -> Json:
    content = [make_part(block) for block in turn.blocks if block["type"] in ("text", "image")]
    if turn.role == "user":
        return {"type": "user", "content": content}
    thoughts = [
        {"subject": "", "description": block["thinking"], "timestamp": turn.at}
        for block in turn.blocks
        if block["type"] == "thinking" and block["thinking"]
    ]
    prompt, cached, output = count_input(turn)
    tokens = {"input": prompt, "output": output, "cached": cached, "thoughts": 0, "tool": 0,
              "total": prompt + output}  # fmt: skip
    message: Json = {
        "type": "gemini", "content": content, "thoughts": thoughts, "tokens": tokens,
        "model": turn.model,
    }  # fmt: skip
    calls = [_call(block, results[block["id"]]) for block in turn.calls]
    return message | ({"toolCalls": calls} if calls else {})


def _call(block: Json, result: ExportedTurn) -> Json:
    return {
        "id": block["id"],
        "name": tool_name(block["name"]),
        "args": object_of(block.get("input")),
        "result": [make_result_part(result)],
        "status": "error" if result.is_error else "success",
        "timestamp": result.at,
    }
