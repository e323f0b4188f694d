"""Short constructors for entries in tests of compaction."""

from typing import Any

from clew.core.messages import factories

Json = dict[str, Any]
AT = "2026-01-01T00:00:00.000Z"


def user(uuid: str, content: Any = "words", **more: Any) -> Json:
    return factories.make_user(content, uuid=uuid, at=AT, **more)


def said(uuid: str, *blocks: Any, answer: str | None = "m") -> Json:
    content = [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]
    message = {"id": answer, "role": "assistant", "model": "claude-opus-5-5", "content": content}
    return {"type": "assistant", "uuid": uuid, "timestamp": AT, "message": message}


def call(call_id: str, name: str = "Bash", **given: Any) -> Json:
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def result(uuid: str, call_id: str, content: Any = "ok", **more: Any) -> Json:
    return factories.make_tool_answer(call_id, content, uuid=uuid, at=AT, source_uuid=None, **more)


def fact(uuid: str, kind: str, words: str, role: str = "user") -> Json:
    return factories.make_attachment({"type": kind}, uuid=uuid, at=AT, rendered=[words], role=role)


def names(entries: Any) -> str:
    return " ".join(entry["uuid"] for entry in entries)
