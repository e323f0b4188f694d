"""Short constructors for histories in tests."""

from typing import Any

Entry = dict[str, Any]


def words(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def call(use_id: str, name: str = "Bash", **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": use_id, "name": name, "input": given}


def result(use_id: str, content: Any = "done", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": use_id, "content": content, **more}


def thought(text: str = "hm", signature: str = "sig") -> dict[str, Any]:
    return {"type": "thinking", "thinking": text, "signature": signature}


def user(*content: Any, uuid: str = "u", **fields: Any) -> Entry:
    blocks = [words(c) if isinstance(c, str) else c for c in content]
    return {"type": "user", "uuid": uuid, "message": {"role": "user", "content": blocks}, **fields}


def answer(
    message_id: str | None,
    *content: Any,
    uuid: str = "a",
    model: str = "claude-opus-4-5",
    stop: str = "end_turn",
    **fields: Any,
) -> Entry:
    blocks = [words(c) if isinstance(c, str) else c for c in content]
    message = {"role": "assistant", "model": model, "content": blocks, "stop_reason": stop}
    if message_id is not None:
        message["id"] = message_id
    return {"type": "assistant", "uuid": uuid, "message": message, **fields}


def system(subtype: str, content: Any = None, **fields: Any) -> Entry:
    return {"type": "system", "uuid": "s", "subtype": subtype, "content": content, **fields}


def attachment(*rendered: Any, role: str = "user", uuid: str = "t", **payload: Any) -> Entry:
    entry: Entry = {"type": "attachment", "uuid": uuid, "attachment": payload}
    if rendered:
        entry |= {"rendered": [{"content": part} for part in rendered], "renderedRole": role}
    return entry


def as_entries(messages: list[dict[str, Any]], model: str = "claude-x") -> list[Entry]:
    """Return a history that is equivalent to the messages of a request."""
    entries: list[Entry] = []
    for number, message in enumerate(messages):
        role, content = message["role"], message["content"]
        if role == "system":
            entries.append(attachment(content, role="system"))
        elif role == "user":
            entries.append(user(*content))
        else:
            entries.append(answer(f"again_{number}", *content, model=model))
    return entries


def told(messages: list[dict[str, Any]]) -> list[str]:
    """Return a request in short form: `?id` is a call, `!id` a result."""
    return [f"{m['role'][0]}: {' '.join(map(_short, m['content']))}" for m in messages]


def _short(block: dict[str, Any]) -> str:
    kind = block["type"]
    if kind == "text":
        return str(block["text"])
    if kind == "tool_use":
        return f"?{block['id']}"
    return f"!{block['tool_use_id']}" if kind == "tool_result" else f"<{kind}>"
