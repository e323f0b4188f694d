"""Convert Cursor sessions: agent transcripts, and the databases of editor and CLI. Does no I/O.

Transcripts have no times, IDs or results. The editor's database has a conversation per
`composerData` row and a message per `bubbleId` row; older ones have all chats in one row. The CLI's
database has blobs, listed by a root blob.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

from clew.core.json_object import Json, list_of, object_of, text_of
from clew.core.messages.encoding import decode
from clew.core.messages.errors import SessionError
from clew.record.exchange.formats.conversion import (
    Builder,
    Converted,
    call,
    make_text,
    make_thinking,
)
from clew.record.exchange.formats.frame import Begin, Format, Source
from clew.record.exchange.formats.gemini import encode_text
from clew.record.exchange.formats.messages import read_arguments, take_message
from clew.record.exchange.formats.reasons import INSTRUCTIONS, PROMPT_IMAGE

_QUERY = re.compile(r"\s*<user_query>\n?(.*?)\n?</user_query>\s*", re.S)
_OLD = "workbench.panel.aichat.view.aichat.chatdata"


def recognizes(source: Source) -> bool:
    if source.tables:
        is_editor = source.has_tables(cursorDiskKV="key value") or source.has_tables(
            ItemTable="key value"
        )
        is_cli = source.has_tables(blobs="id data", meta="key value")
        return is_editor or (is_cli and len(source.tables) == 2)
    lines = source.lines[:50]
    return "role" in source.first and all(map(_is_line, lines))


def _is_line(line: Json) -> bool:
    if line.get("type") == "turn_ended":
        return True
    message = object_of(line.get("message"))
    return (
        line.get("role") in ("user", "assistant")
        and "type" not in line
        and "role" not in message
        and type(message.get("content")) in (list, str)
    )


def convert(source: Source, begin: Begin) -> Iterator[Converted]:
    if "blobs" in source.tables:
        yield from _convert_blobs(source, begin)
    elif source.tables:
        yield from _convert_editor(source, begin)
    else:
        build = begin("", source.name)
        for line in source.lines:
            build.item()
            message = object_of(line.get("message"))
            at = build.time(line.get("timestamp"))
            if not message:
                build.lose("end of a turn")
                continue
            take_message(
                build, {"role": line.get("role"), "content": _clean(message.get("content"))}, at
            )
        yield build.finished()


def _clean(content: Any) -> Any:
    """Return the content, with prompts stripped of their tags."""
    if type(content) is str:
        return _typed(content)
    parts = [part for part in list_of(content) if type(part) is dict]
    return [
        part | {"text": _typed(part["text"])} if type(part.get("text")) is str else part
        for part in parts
    ]


def _typed(text: str) -> str:
    match = _QUERY.fullmatch(text)
    return match[1] if match else text


# The editor's database.


def _convert_editor(source: Source, begin: Begin) -> Iterator[Converted]:
    composers: dict[str, Json] = {}
    bubbles: dict[str, dict[str, Json]] = {}
    if "cursorDiskKV" in source.tables:
        for row in source.rows("cursorDiskKV"):
            kind, _, rest = text_of(row.get("key")).partition(":")
            if kind == "composerData":
                composers[rest] = _read_value(row.get("value"))
            elif kind == "bubbleId":
                composer, _, bubble = rest.partition(":")
                bubbles.setdefault(composer, {})[bubble] = _read_value(row.get("value"))
    has_messages = False
    for own, data in composers.items():
        build = begin(own)
        _composer(build, data, bubbles.get(own, {}))
        has_messages = has_messages or bool(build.out.messages)
        if build.out.messages:
            yield build.finished()
    if "ItemTable" in source.tables:
        for row in source.rows("ItemTable"):
            if row.get("key") == _OLD:
                for tab in map(object_of, list_of(_read_value(row.get("value")).get("tabs"))):
                    build = begin(text_of(tab.get("tabId")))
                    _tab(build, tab)
                    has_messages = has_messages or bool(build.out.messages)
                    if build.out.messages:
                        yield build.finished()
    if not has_messages:
        raise SessionError(
            f"{source.name}: the Cursor or VS Code database contains no conversation"
        )


def _read_value(value: Any) -> Json:
    raw = value if type(value) is bytes else text_of(value).encode("utf-8", "replace")
    try:
        return object_of(decode(raw))
    except ValueError:
        return {}


def _composer(build: Builder, data: Json, bubbles: dict[str, Json]) -> None:
    build.item()
    build.keep()
    build.out.title = text_of(data.get("name"))
    build.time(data.get("createdAt"))
    headers = [object_of(h) for h in list_of(data.get("fullConversationHeadersOnly"))]
    listed: Iterable[Json] = [bubbles.get(text_of(h.get("bubbleId")), {}) for h in headers]
    for bubble in listed if headers else map(object_of, list_of(data.get("conversation"))):
        build.item()
        _bubble(build, bubble)


def _bubble(build: Builder, bubble: Json) -> None:
    at = build.time(bubble.get("createdAt") or bubble.get("timestamp"))
    for uri in list_of(bubble.get("workspaceUris")):
        build.out.cwd = build.out.cwd or _folder(text_of(uri))
    text = text_of(bubble.get("text"))
    if bubble.get("type") == 1:
        if list_of(bubble.get("images")):
            build.lose(PROMPT_IMAGE)
        build.say(text, at)
        return
    blocks = []
    thinking = text_of(object_of(bubble.get("thinking")).get("text"))
    if thinking:
        blocks.append(make_thinking(thinking))
    blocks.append(make_text(text))
    tool = object_of(bubble.get("toolFormerData"))
    name, call_id = text_of(tool.get("name")), text_of(tool.get("toolCallId"))
    arguments = object_of(read_arguments(tool.get("params"))) or read_arguments(tool.get("rawArgs"))
    use = None
    if name:
        use = call(call_id, name, arguments) if call_id else build.make_call(name, arguments)
        blocks.append(use)
    tokens = object_of(bubble.get("tokenCount"))
    used = {"input_tokens": tokens.get("inputTokens"), "output_tokens": tokens.get("outputTokens")}
    usage = {key: n for key, n in used.items() if type(n) is int and n > 0} or None
    model = text_of(object_of(bubble.get("modelInfo")).get("modelName"))
    build.answer(blocks, at, model=model, usage=usage)
    if use and (tool.get("result") is not None or tool.get("error")):
        result = text_of(tool.get("result")) or text_of(tool.get("error"))
        build.result(use["id"], result, at, is_error=tool.get("status") == "error")


def _folder(uri: str) -> str:
    try:
        parts = urlsplit(uri)
    except ValueError:
        return ""
    return unquote(parts.path) if parts.scheme == "file" else ""


def _tab(build: Builder, tab: Json) -> None:
    build.item()
    build.keep()
    build.out.title = text_of(tab.get("chatTitle"))
    build.time(tab.get("lastSendTime"))
    for bubble in map(object_of, list_of(tab.get("bubbles"))):
        build.item()
        text = text_of(bubble.get("text")) or text_of(bubble.get("rawText"))
        text = text or _lexical(bubble.get("initText"))
        at = build.time(None)
        if bubble.get("type") == "user":
            build.say(text, at)
        else:
            build.answer([make_text(text)], at, model=text_of(bubble.get("modelType")))


def _lexical(value: Any) -> str:
    """Return the text in a serialized editor state."""
    texts: list[str] = []
    waiting = [object_of(read_arguments(value)).get("root")]
    while waiting:
        node = object_of(waiting.pop(0))
        texts.append(text_of(node.get("text")))
        waiting = [*list_of(node.get("children")), *waiting]
    return "".join(texts)


# The CLI's database.


def _convert_blobs(source: Source, begin: Begin) -> Iterator[Converted]:
    about: Json = {}
    for row in source.rows("meta"):
        value = row.get("value")
        raw = value if type(value) is str else bytes(value or b"").decode("utf-8", "replace")
        about |= _read_value(_unhex(raw))
    blobs = {row.get("id"): row.get("data") for row in source.rows("blobs")}
    build = begin(text_of(about.get("agentId")), source.name)
    build.out.title = text_of(about.get("name"))
    build.time(about.get("createdAt"))
    root = blobs.get(about.get("latestRootBlobId"))
    listed = [blobs.get(own) for own in _references(root)]
    for data in listed or blobs.values():
        build.item()
        message = _read_value(data if type(data) is bytes else text_of(data))
        _blob(build, message, text_of(about.get("lastUsedModel")))
    if not build.out.messages:
        raise SessionError(f"{source.name}: the Cursor database contains no conversation")
    yield build.finished()


def _unhex(text: str) -> str:
    try:
        return bytes.fromhex(text).decode("utf-8", "replace")
    except ValueError:
        return text


def _references(data: Any) -> Iterator[str]:
    """Yield the IDs in a root blob: field 1 of a Protocol Buffers message, 32 bytes each."""
    raw = data if type(data) is bytes else b""
    at = 0
    while at + 2 <= len(raw) and raw[at] == 0x0A and raw[at + 1] == 32:
        yield raw[at + 2 : at + 34].hex()
        at += 34


def _blob(build: Builder, message: Json, model: str) -> None:
    at = build.time(None)
    role = message.get("role")
    if role is None:
        build.lose("blob that is not a message")
    elif role == "system":
        build.lose(INSTRUCTIONS)
    elif role == "tool":
        for part in map(object_of, list_of(message.get("content"))):
            result = part.get("result")
            words = result if type(result) is str else encode_text(result)
            build.result(text_of(part.get("toolCallId")), words, at)
    else:
        content = message.get("content")
        if type(content) in (list, str):
            content = _clean(content)
        take_message(build, {"role": role, "content": content}, at, model=model)


FORMAT = Format(name="cursor", title="Cursor", recognizes=recognizes, convert=convert)
