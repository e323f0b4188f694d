"""Convert conversations that claude.ai exports: trees of `chat_messages`. Does no I/O.

The export (`conversations.json`) is a list of conversations; a conversation saved on its own is an
object.
"""

from collections.abc import Iterator
from typing import Any

from clew.core.json_object import Json, list_of, object_of, text_of
from clew.record.exchange.formats.conversion import Builder, Converted, make_text
from clew.record.exchange.formats.frame import Begin, Format, Source
from clew.record.exchange.formats.messages import take_message, take_result
from clew.record.exchange.formats.reasons import ATTACHED_FILE, NO_TEXT

_SENDERS = ("human", "assistant")


def recognizes(source: Source) -> bool:
    values = _conversations(source)
    return len(values) > 0 and all(map(_is_conversation, values))


def _conversations(source: Source) -> list[Any]:
    value = source.document
    return value if type(value) is list else [value]


def _is_conversation(value: Any) -> bool:
    messages = object_of(value).get("chat_messages")
    return type(messages) is list and all(
        object_of(message).get("sender") in _SENDERS for message in messages
    )


def convert(source: Source, begin: Begin) -> Iterator[Converted]:
    for number, value in enumerate(_conversations(source)):
        identifier = text_of(value.get("uuid"))
        build = begin(identifier, "" if identifier else str(number))
        build.out.title = text_of(value.get("name"))
        build.time(value.get("created_at"))
        ends: dict[str, str | None] = {}
        for message in value["chat_messages"]:
            build.item(message.get("uuid"))
            parent = text_of(message.get("parent_message_uuid"))
            if parent:
                # The first message names a parent that is not in the file.
                build.follow(ends.get(parent, build.last))
            _message(build, message, text_of(value.get("model")))
            ends[text_of(message.get("uuid"))] = build.last
        yield build.finished()


def _message(build: Builder, message: Json, model: str) -> None:
    at = build.time(message.get("created_at"))
    parts = [object_of(part) for part in list_of(message.get("content"))]
    if not any(part.get("type") != "text" or part.get("text") for part in parts):
        parts = [make_text(text_of(message.get("text")))]
    for attached in map(object_of, list_of(message.get("attachments"))):
        if text := text_of(attached.get("extracted_content")):
            parts.append(make_text(f"{text_of(attached.get('file_name'))}\n{text}"))
        else:
            build.lose(ATTACHED_FILE)
    if message.get("files"):
        build.lose(NO_TEXT)
    if message["sender"] == "human":
        take_message(build, {"role": "user", "content": parts}, at)
        return
    # A message contains several responses, and the results between them.
    response: list[Json] = []
    for part in parts:
        if part.get("type") != "tool_result":
            response.append(part)
            continue
        take_message(build, {"role": "assistant", "content": response}, at, model=model)
        response = []
        take_result(build, _with_content(part), at)
    take_message(build, {"role": "assistant", "content": response}, at, model=model)


def _with_content(part: Json) -> Json:
    """Return a tool result with its text in `content`.

    Some results have their text only in `message`.
    """
    return part if part.get("content") else part | {"content": text_of(part.get("message"))}


FORMAT = Format(name="claude.ai", title="claude.ai", recognizes=recognizes, convert=convert)
