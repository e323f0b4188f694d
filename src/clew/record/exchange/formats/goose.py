"""Convert goose sessions: the database, the export, and the older JSON Lines files. Does no I/O."""

from collections.abc import Iterable, Iterator
from typing import Any

from clew.core.json_object import Json, list_of, object_of, text_of
from clew.core.messages.encoding import decode
from clew.record.exchange.formats.conversion import (
    Builder,
    Converted,
    call,
    make_picture,
    make_text,
    make_thinking,
)
from clew.record.exchange.formats.frame import Begin, Format, Source
from clew.record.exchange.formats.messages import plain
from clew.record.exchange.formats.reasons import NO_TEXT, REDACTED

_PARTS = frozenset(
    {
        "text", "image", "toolRequest", "toolResponse", "toolConfirmationRequest",
        "frontendToolRequest", "thinking", "redactedThinking", "contextLengthExceeded",
        "summarizationRequested", "conversationCompacted", "systemNotification", "actionRequired",
        "reasoning",
    }
)  # fmt: skip
_HEAD = frozenset({"working_dir", "description", "message_count", "total_tokens"})


def recognizes(source: Source) -> bool:
    if source.tables:
        return source.has_tables(sessions="id working_dir", messages="session_id role content_json")
    value = object_of(source.document)
    if len(source.lines) <= 1 and "working_dir" in value:
        conversation = value.get("conversation", value.get("messages"))
        return type(conversation) is list and all(map(_is_message, conversation))
    head, *messages = source.lines or [{}]
    if "role" not in head and len(_HEAD & set(head)) >= 2:
        return all(map(_is_message, messages[:50]))
    own = source.lines[:50]
    return bool(own) and all(map(_is_message, own)) and any(map(_has_own_part, own))


def _is_message(value: Any) -> bool:
    if type(value) is not dict or value.get("role") not in ("user", "assistant"):
        return False
    parts = value.get("content")
    return type(parts) is list and all(
        text_of(object_of(part).get("type")) in _PARTS for part in parts
    )


def _has_own_part(message: Json) -> bool:
    kinds = {part["type"] for part in message["content"]}
    return bool(kinds & {"toolRequest", "toolResponse"}) or "created" in message


def convert(source: Source, begin: Begin) -> Iterator[Converted]:
    if source.tables:
        yield from _convert_database(source, begin)
        return
    value = object_of(source.document)
    if len(source.lines) <= 1 and "working_dir" in value:
        messages = list_of(value.get("conversation", value.get("messages")))
        yield _convert(begin(text_of(value.get("id"))), value, messages, is_line=False)
    elif "role" in source.first:
        yield _convert(begin(""), {}, source.lines, is_line=False)
    else:
        head, *rest = source.lines
        identifier = text_of(head.get("id")) or source.name.partition(".")[0]
        yield _convert(begin(identifier), head, rest, is_line=True)


def _convert_database(source: Source, begin: Begin) -> Iterator[Converted]:
    rows: dict[str, list[Json]] = {}
    for row in source.rows("messages"):
        content = row.get("content_json")
        try:
            parts = decode(text_of(content).encode("utf-8", "replace"))
        except ValueError:
            parts = None
        message = {
            "role": row.get("role"),
            "content": parts,
            "created": row.get("created_timestamp"),
        }
        rows.setdefault(text_of(row.get("session_id")), []).append(message)
    for head in source.rows("sessions"):
        own = text_of(head.get("id"))
        yield _convert(begin(own), head, rows.get(own, []), is_line=True)


def _convert(build: Builder, head: Json, messages: Iterable[Json], *, is_line: bool) -> Converted:
    if is_line:
        build.item()
        build.keep()
    build.out.cwd = text_of(head.get("working_dir"))
    build.out.title = text_of(head.get("description")) or text_of(head.get("name"))
    build.time(head.get("created_at"))
    model = text_of(object_of(head.get("model_config")).get("model_name"))
    for message in messages:
        build.item(message.get("id"))
        at = build.time(message.get("created"))
        parts = [part for part in list_of(message.get("content")) if type(part) is dict]
        if message.get("role") == "assistant":
            blocks = [b for part in parts if (b := _said(build, part))]
            build.answer(blocks, at, model=model)
            continue
        is_meta = object_of(message.get("metadata")).get("userVisible") is False
        others = []
        for part in parts:
            if part.get("type") == "toolResponse":
                _result(build, part, at)
            elif block := _block(build, part):
                others.append(block)
        build.user(others, at, is_meta=is_meta)
    return build.finished()


def _said(build: Builder, part: Json) -> Json | None:
    match part.get("type"):
        case "toolRequest" | "frontendToolRequest":
            tool_call = object_of(part.get("toolCall"))
            value = object_of(tool_call.get("value")) or tool_call
            if name := text_of(value.get("name")):
                return call(text_of(part.get("id")), name, value.get("arguments"))
            build.lose("invalid tool call and its error")
        case "thinking" | "reasoning":
            words = text_of(part.get("thinking")) or text_of(part.get("text"))
            return make_thinking(words, text_of(part.get("signature")))
        case "redactedThinking":
            build.lose(REDACTED)
        case "text":
            return make_text(text_of(part.get("text")))
        case kind:
            build.lose(f"part of type {text_of(kind) or 'none'}")
    return None


def _result(build: Builder, part: Json, at: str) -> None:
    result = object_of(part.get("toolResult"))
    value = result.get("value", part.get("toolResult"))
    is_error = result.get("status") == "error" or object_of(value).get("isError") is True
    parts = value if type(value) is list else list_of(object_of(value).get("content"))
    blocks = [b for item in parts if (b := _block(build, object_of(item)))]
    content = plain(blocks) or text_of(result.get("error"))
    build.result(text_of(part.get("id")), content, at, is_error=is_error)


def _block(build: Builder, part: Json) -> Json | None:
    if type(part.get("text")) is str:
        return make_text(part["text"])
    media = text_of(part.get("mimeType"))
    if media.startswith("image/") and type(part.get("data")) is str:
        return make_picture(media, part["data"])
    build.lose(NO_TEXT)
    return None


FORMAT = Format(name="goose", title="goose", recognizes=recognizes, convert=convert)
