"""Convert entries to Messages API messages and repair them, for all adapters."""

from collections.abc import Iterable
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from clew.core.json_object import Json, list_of, object_of, text_of
from clew.core.messages.encoding import decode
from clew.core.normalize.for_api import for_api
from clew.core.normalize.target import Target
from clew.record.transcript.light import is_uuid


def group_entries(entries: Iterable[Json]) -> list[Json]:
    """Return entries, or Messages API messages, as messages with lists of blocks.

    The entries of one answer become one message. `uuid` and `last_uuid` are the UUIDs of the
    message's first and last entry.
    """
    messages: list[Json] = []
    for entry in entries:
        own = object_of(entry.get("message")) if "message" in entry else entry
        role = own.get("role")
        is_error = entry.get("isApiErrorMessage") is True
        if role not in ("user", "assistant") or is_error or entry.get("type") == "attachment":
            continue
        content = blocks_of(own.get("content"))
        last = messages[-1] if messages else {}
        if role == "assistant" and "id" in own and last.get("id") == own["id"]:
            # A new list, because the other one may belong to the entry.
            messages[-1] = last | {"content": [*last["content"], *content]}
        else:
            messages.append(own | {"content": content, "uuid": text_of(entry.get("uuid"))})
        messages[-1]["last_uuid"] = text_of(entry.get("uuid"))
    return messages


def make_valid(entries: Iterable[Json], target: Target) -> list[Json]:
    """Return entries, or Messages API messages, as a valid conversation for `target`."""
    members = ("id", "role", "content")
    messages = [{k: m[k] for k in members if k in m} for m in group_entries(entries)]
    valid = for_api(messages, target).messages if messages else []
    # A history may end with an answer, so the prompt that a request would need is omitted.
    if messages and messages[-1]["role"] == "assistant" and valid[-1]["role"] == "user":
        results = [b for b in valid.pop()["content"] if b["type"] == "tool_result"]
        valid += [{"role": "user", "content": results}] if results else []
    return valid


def blocks_of(content: Any) -> list[Json]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in list_of(content) if isinstance(block, dict)]


def join_answers(messages: Iterable[Json]) -> list[Json]:
    """Join successive messages from the model, because their calls belong together."""
    joined: list[Json] = []
    for message in messages:
        if joined and message["role"] == joined[-1]["role"] == "assistant":
            joined[-1] = joined[-1] | {"content": joined[-1]["content"] + message["content"]}
        else:
            joined.append(message)
    return joined


def plain(value: Any) -> Json:
    """Return an SDK's message as a dict; it may already be one."""
    return dict(value) if isinstance(value, dict) else value.model_dump(exclude_none=True)


def make_use(call_id: str, name: str, arguments: Any) -> Json:
    """Return a tool call. Arguments that are not a JSON object become the argument `input`."""
    try:
        input_value = (
            decode((arguments or "{}").encode()) if isinstance(arguments, str) else arguments
        )
    except ValueError:
        input_value = arguments
    input_value = input_value if isinstance(input_value, dict) else {"input": input_value}
    return {"type": "tool_use", "id": call_id, "name": name, "input": input_value}


def make_picture(url: str) -> Json:
    """Return an image block for a URL, which may be a data URL."""
    if not url.startswith("data:"):
        return {"type": "image", "source": {"type": "url", "url": url}}
    media, _, data = url.removeprefix("data:").partition(";base64,")
    source = {"type": "base64", "media_type": media, "data": data}
    return {"type": "image", "source": source}


def identify(name: str) -> str:
    """Return the session ID for a name: the name itself if it is an ID, or a derived one."""
    return name if is_uuid(name) else str(uuid5(NAMESPACE_URL, name))


def refuse(what: str) -> ValueError:
    return ValueError(f"{what} can't be converted to the Messages API format")
