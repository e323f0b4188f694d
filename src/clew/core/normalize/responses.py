"""Convert a request for OpenAI's Responses API.

The input is the output of `for_api` for a target that `for_responses` returned. A response from the
same service is sent back as its original output items; everything else is written from canonical
blocks. Must never send anything.

Format: the types of `ResponseCreateParams` in the `openai` package.
Decision: docs/decisions/331-wires.md
"""

from collections.abc import Container
from typing import Any

from msgspec.structs import replace

from clew.core.json_object import Json, list_of, text_of
from clew.core.normalize import shapes
from clew.core.normalize.clean import as_json, as_text
from clew.core.normalize.dialects import join_texts, make_data_url, mark_error
from clew.core.normalize.identifiers import IdMap, is_plain_id, shorten_name
from clew.core.normalize.target import NO_FAMILY, Target

MAX_NAME = 64
MAX_CALL_ID = 64
NO_ITEMS: Container[str] = frozenset()


def for_responses(target: Target) -> Target:
    """Return `target`, limited to what a model accepts through the Responses API."""
    return replace(
        target,
        family=NO_FAMILY,
        server_tools=False,
        error_media=True,
        system_messages=True,
        prefill=False,
        deferred_tools=False,
        binds_thinking=False,
        binding_control=False,
        sources=frozenset({"base64", "url", "text"}),
    )


def to_responses(
    messages: list[Json],
    *,
    system: Any = None,
    tools: list[Json] | None = None,
    refused: Container[str] = NO_ITEMS,
    with_ids: bool = True,
) -> Json:
    """Return the `instructions`, `input` and `tools` of a request.

    `refused` lists the encrypted content that the service could not read. If `with_ids` is false,
    items are sent back without the IDs that the service gave them.
    """
    writer = _ItemWriter(refused, with_ids=with_ids)
    for message in messages:
        writer.add(message)
    body: Json = {}
    if system:
        body["instructions"] = system if isinstance(system, str) else join_texts(system)
    body["input"] = writer.items
    if tools:
        body["tools"] = [_tool(tool) for tool in tools]
    return body


def _tool(tool: Json) -> Json:
    return {
        "type": "function",
        "name": shorten_name(tool["name"], MAX_NAME),
        "description": tool.get("description") or "",
        "parameters": tool["input_schema"],
        "strict": False,
    }


class _ItemWriter:
    """Writes the input items of one request."""

    def __init__(self, refused: Container[str], *, with_ids: bool) -> None:
        self.items: list[Json] = []
        self._refused = refused
        self._with_ids = with_ids
        self._sent_id = IdMap(lambda text: is_plain_id(text, MAX_CALL_ID), MAX_CALL_ID, "call_")

    def add(self, message: Json) -> None:
        content = message["content"]
        match message["role"]:
            case "system":
                words = [{"type": "input_text", "text": join_texts(content)}]
                self.items.append({"type": "message", "role": "developer", "content": words})
            case "assistant":
                if not self._add_own(message.get("origin"), content):
                    self._add_canonical(content)
            case _:
                self._add_user(content)

    def _add_own(self, own: Any, content: list[Json]) -> bool:
        """Add the service's own items. Return False if the service would refuse them."""
        items = [item for item in list_of(own) if type(item) is dict]
        uses = [block for block in content if block["type"] == "tool_use"]
        is_call = [item.get("type") == "function_call" for item in items]
        if not items or sum(is_call) != len(uses) or any(map(self._is_unreadable, items)):
            return False
        left = iter(uses)
        for item, calls in zip(items, is_call, strict=True):
            if calls:
                call_id = text_of(item.get("call_id"))
                item = item | {"call_id": self._sent_id.keep(next(left)["id"], call_id)}
            self.items.append(item if self._with_ids else _without_id(item))
        return True

    def _is_unreadable(self, item: Json) -> bool:
        """Return whether an item is reasoning that the service can no longer read."""
        if item.get("type") != "reasoning":
            return False
        encrypted = item.get("encrypted_content")
        return type(encrypted) is not str or not encrypted or encrypted in self._refused

    def _add_canonical(self, content: list[Json]) -> None:
        words: list[str] = []
        for block in content:
            if block["type"] != "tool_use":
                words.append(as_text(block))
        if words:
            self.items.append(
                {"type": "message", "role": "assistant", "content": "\n\n".join(words)}
            )
        for block in content:
            if block["type"] == "tool_use":
                self.items.append(
                    {
                        "type": "function_call",
                        "call_id": self._sent_id(block["id"]),
                        "name": shorten_name(block["name"], MAX_NAME),
                        "arguments": as_json(block["input"]),
                    }
                )

    def _add_user(self, content: list[Json]) -> None:
        parts: list[Json] = []
        for block in content:
            if block["type"] == "tool_result":
                self.items.append(
                    {
                        "type": "function_call_output",
                        "call_id": self._sent_id(block["tool_use_id"]),
                        "output": _output(block),
                    }
                )
            else:
                parts.append(_part(block))
        if parts:
            self.items.append({"type": "message", "role": "user", "content": parts})


def _without_id(item: Json) -> Json:
    return {name: value for name, value in item.items() if name != "id"}


def _output(block: Json) -> str | list[Json]:
    content = block["content"]
    is_error = block.get("is_error") is True
    if isinstance(content, str):
        return mark_error(content, is_error=is_error)
    if not any(inner["type"] in shapes.MEDIA for inner in content):
        return mark_error("\n".join(map(as_text, content)), is_error=is_error)
    parts = [_part(inner) for inner in content]
    texts = [part for part in parts if part["type"] == "input_text"]
    if is_error and texts:
        texts[0]["text"] = mark_error(texts[0]["text"], is_error=True)
    elif is_error:
        parts = [{"type": "input_text", "text": "Error"}, *parts]
    return parts


def _part(block: Json) -> Json:
    source = block["source"] if block["type"] in shapes.MEDIA else {}
    match block["type"], source.get("type"):
        case "image", "url":
            return {"type": "input_image", "image_url": source["url"], "detail": "auto"}
        case "image", _:
            return {"type": "input_image", "image_url": make_data_url(source), "detail": "auto"}
        case "document", "base64":
            name = str(block.get("title") or "document.pdf")
            data = make_data_url(source)
            return {"type": "input_file", "filename": name, "file_data": data}
        case "document", "url":
            return {"type": "input_file", "file_url": source["url"]}
        case "document", "text":
            return {"type": "input_text", "text": source["data"]}
    return {"type": "input_text", "text": as_text(block)}
