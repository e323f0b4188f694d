"""Write a session as a Qwen Code chat, which `qwen --resume ID` continues. Does no I/O."""

from collections.abc import Iterator

from clew.core.json_object import Json
from clew.record.exchange.targets.contents import (
    count_input,
    make_part,
    make_parts,
    make_result_part,
)
from clew.record.exchange.targets.turns import ExportedSession, ExportedTurn, encode_lines

VERSION = "0.24.0"


def encode_qwen(session: ExportedSession) -> bytes:
    return encode_lines(_lines(session))


def qwen_id(session: ExportedSession) -> str:
    return session.derive_id("qwen", session.last_uuid)


def _lines(session: ExportedSession) -> Iterator[Json]:
    place: Json = {"sessionId": qwen_id(session), "cwd": session.cwd, "version": VERSION}
    if session.branch:
        place["gitBranch"] = session.branch
    parent: str | None = None
    for number, turn in enumerate(session.turns):
        own = session.derive_id("qwen", number)
        yield {"uuid": own, "parentUuid": parent, "timestamp": turn.at, **place, **_record(turn)}
        parent = own
    if session.title:
        own = session.derive_id("qwen", "title")
        at = session.turns[-1].at if session.turns else ""
        title = {"customTitle": session.title}
        yield {"uuid": own, "parentUuid": parent, "timestamp": at, **place, "type": "system",
               "subtype": "custom_title", "systemPayload": title}  # fmt: skip


def _record(turn: ExportedTurn) -> Json:
    if turn.role == "user":
        parts = [make_part(block) for block in turn.blocks]
        return {"type": "user", "message": {"role": "user", "parts": parts}}
    if turn.role == "result":
        status = "error" if turn.is_error else "success"
        return {
            "type": "tool_result",
            "message": {"role": "user", "parts": [make_result_part(turn)]},
            "toolCallResult": {"callId": turn.call_id, "status": status},
        }
    prompt, cached, output = count_input(turn)
    usage = {
        "promptTokenCount": prompt, "cachedContentTokenCount": cached,
        "candidatesTokenCount": output, "totalTokenCount": prompt + output,
    }  # fmt: skip
    return {
        "type": "assistant",
        "model": turn.model,
        "message": {"role": "model", "parts": list(make_parts(turn))},
        "usageMetadata": usage,
    }
