"""Convert messages from the two common APIs: Messages and chat completions. Does no I/O.

Many programs store them, some with small changes: other part names, arguments as text or as an
object, reasoning in a separate field.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from clew.core.json_object import Json, list_of, object_of, text_of
from clew.core.messages.encoding import decode
from clew.record.exchange.formats.conversion import (
    Builder,
    call,
    make_picture,
    make_text,
    make_thinking,
)
from clew.record.exchange.formats.reasons import (
    INSTRUCTIONS,
    NO_TEXT,
    REDACTED,
    RESPONSE_IMAGE,
    UNNAMED_CALL,
)

ROLES = frozenset({"user", "assistant", "system", "developer", "tool", "function", "model"})
DATA_URL = re.compile(r"data:(image/[\w.+-]+);base64,([A-Za-z0-9+/=\s]+)")
_TEXTS = frozenset({"text", "input_text", "output_text", "markdown"})
_USAGE = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_input_tokens": "cache_read_input_tokens",
    "cache_creation_input_tokens": "cache_creation_input_tokens",
    "prompt_tokens": "input_tokens",
    "completion_tokens": "output_tokens",
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cacheReadInputTokens": "cache_read_input_tokens",
    "cacheCreationInputTokens": "cache_creation_input_tokens",
}


def is_message(value: Any) -> bool:
    """Return whether a value looks like a message of one of the APIs."""
    if type(value) is not dict or text_of(value.get("role")) not in ROLES:
        return False
    content = value.get("content")
    if type(content) is list:
        return all(type(part) is dict and type(part.get("type")) is str for part in content)
    return type(content) is str or (
        content is None and ("content" in value or "tool_calls" in value)
    )


def take_message(build: Builder, message: Json, at: str, *, model: str = "") -> None:
    """Add a message: a prompt, a response with its calls, or results."""
    match message.get("role"):
        case "user":
            others = []
            for part in _parts(message.get("content")):
                if part.get("type") in ("tool_result", "tool-result"):
                    take_result(build, part, at)
                elif block := read_block(build, part):
                    others.append(block)
            build.user(others, at)
        case "assistant" | "model":
            blocks = [*_reasoning(message), *_said(build, message), *_calls(message)]
            used = read_usage(object_of(message.get("usage")))
            build.answer(
                blocks,
                at,
                model=text_of(message.get("model") or message.get("model_id")) or model,
                usage=used,
            )
        case "tool" | "function":
            content = [b for p in _parts(message.get("content")) if (b := read_block(build, p))]
            named = next(iter(list_of(message.get("tool_call_ids"))), None)
            identifier = text_of(message.get("tool_call_id") or named or message.get("name"))
            build.result(identifier, plain(content), at, is_error=message.get("is_error") is True)
        case "system" | "developer":
            build.lose(INSTRUCTIONS)
        case role:
            build.lose(f"message with role {text_of(role) or 'none'}")


def take_result(build: Builder, part: Json, at: str) -> None:
    """Add the result of a call, given as a part of a user message."""
    identifier = part.get("tool_use_id") or part.get("toolUseID") or part.get("toolCallId")
    content = [b for p in _parts(part.get("content")) if (b := read_block(build, p))]
    is_error = part.get("is_error") is True or part.get("isError") is True
    if build.is_known(text_of(identifier)) or not build.has_own_calls:
        build.result(text_of(identifier), plain(content), at, is_error=is_error)
    else:
        build.answer_oldest(plain(content), at, is_error=is_error)


def plain(blocks: list[Json]) -> Any:
    """Return the text of a single text block, or other content unchanged."""
    if len(blocks) == 1 and blocks[0]["type"] == "text":
        return blocks[0]["text"]
    return blocks


def read_block(build: Builder, part: Json) -> Json | None:
    """Return the block for a text or an image; count anything else as changed and return None."""
    if text_of(part.get("type")) in _TEXTS and type(part.get("text")) is str:
        return make_text(part["text"])
    url = part.get("image_url") or part.get("imageUrl")
    match = DATA_URL.fullmatch(text_of(object_of(url).get("url")) or text_of(url))
    if match:
        return make_picture(match[1], "".join(match[2].split()))
    source = object_of(part.get("source"))
    media, data = text_of(source.get("media_type")), text_of(source.get("data"))
    if part.get("type") == "image" and media and data:
        return make_picture(media, data)
    if part.get("type") in ("image", "file") and type(part.get("data")) is str:
        media = text_of(part.get("mimeType")) or text_of(part.get("mediaType"))
        if media.startswith("image/"):
            return make_picture(media, part["data"])
    build.lose(NO_TEXT)
    return None


def read_arguments(value: Any) -> Any:
    """Return a call's arguments, which may be encoded as JSON text."""
    if type(value) is not str:
        return value
    try:
        return decode(value.encode("utf-8", "replace"))
    except ValueError:
        return value


def read_usage(usage: Json) -> Json | None:
    """Return the token counts under clew's names, or None if there are none."""
    counts = {_USAGE[k]: n for k, n in usage.items() if k in _USAGE and type(n) is int and n >= 0}
    details = object_of(usage.get("prompt_tokens_details"))
    if type(cached := details.get("cached_tokens")) is int and "prompt_tokens" in usage:
        counts["cache_read_input_tokens"] = cached
        counts["input_tokens"] = max(0, counts.get("input_tokens", 0) - cached)
    return {"input_tokens": 0, "output_tokens": 0} | counts if counts else None


def _parts(content: Any) -> list[Json]:
    if type(content) is str:
        return [make_text(content)]
    return [part for part in list_of(content) if type(part) is dict]


def _reasoning(message: Json) -> Iterator[Json]:
    for name in ("reasoning_content", "reasoning", "thinking"):
        if words := text_of(message.get(name)).strip():
            yield make_thinking(words)
            return


def _said(build: Builder, message: Json) -> Iterator[Json]:
    for part in _parts(message.get("content")):
        match part.get("type"):
            case "tool_use" | "tool-call" | "tool_call":
                identifier = text_of(part.get("id")) or text_of(part.get("toolCallId"))
                name = text_of(part.get("name")) or text_of(part.get("toolName"))
                value = part.get("input", part.get("args", part.get("arguments")))
                if identifier and name:
                    yield call(identifier, name, read_arguments(value))
                elif name:
                    yield build.make_call(name, read_arguments(value))
                else:
                    build.lose(UNNAMED_CALL)
            case "thinking" | "reasoning":
                words = text_of(part.get("thinking")) or text_of(part.get("text"))
                words = words or text_of(part.get("reasoning"))
                yield make_thinking(words, text_of(part.get("signature")))
            case "redacted_thinking":
                build.lose(REDACTED)
            case _:
                block = read_block(build, part)
                if block and block["type"] == "text":
                    yield block
                elif block:
                    build.lose(RESPONSE_IMAGE)


def _calls(message: Json) -> Iterable[Json]:
    for item in map(object_of, list_of(message.get("tool_calls"))):
        function = object_of(item.get("function")) or item
        name = text_of(function.get("name"))
        value = function.get("arguments", function.get("args", function.get("input")))
        if name:
            yield call(text_of(item.get("id")) or name, name, read_arguments(value))
