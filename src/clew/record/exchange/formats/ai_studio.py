"""Convert Google AI Studio chats: an object with `chunkedPrompt`, or a list of them.

Does no I/O.
"""

from collections.abc import Iterator
from typing import Any

from clew.core.json_object import Json, list_of, object_of, text_of
from clew.record.exchange.formats.conversion import (
    Builder,
    Converted,
    make_picture,
    make_text,
    make_thinking,
)
from clew.record.exchange.formats.frame import Begin, Format, Source
from clew.record.exchange.formats.reasons import (
    FAILED_RESPONSE,
    INSTRUCTIONS,
    NO_TEXT,
    RESPONSE_IMAGE,
)

# What a chunk may refer to besides its text.
_LINKED = ("driveDocument", "driveImage", "driveVideo", "driveAudio", "youtubeVideo")


def recognizes(source: Source) -> bool:
    values = _chats(source)
    return len(values) > 0 and all(map(_is_chat, values))


def _chats(source: Source) -> list[Any]:
    value = source.document
    return value if type(value) is list else [value]


def _is_chat(value: Any) -> bool:
    return type(object_of(object_of(value).get("chunkedPrompt")).get("chunks")) is list


def convert(source: Source, begin: Begin) -> Iterator[Converted]:
    for number, value in enumerate(_chats(source)):
        identifier = text_of(value.get("id"))
        build = begin(identifier, "" if identifier else str(number))
        build.out.title = text_of(value.get("title")) or text_of(value.get("displayName"))
        build.time(value.get("createTime") or value.get("create_time"))
        model = text_of(object_of(value.get("runSettings")).get("model")).removeprefix("models/")
        if value.get("systemInstruction"):
            build.item()
            build.lose(INSTRUCTIONS)
        for chunk in map(object_of, value["chunkedPrompt"]["chunks"]):
            build.item(chunk.get("id"))
            _chunk(build, chunk, model)
        yield build.finished()


def _chunk(build: Builder, chunk: Json, model: str) -> None:
    at = build.time(chunk.get("createTime"))
    blocks = list(_blocks(build, chunk))
    if chunk.get("role") == "user":
        build.user(blocks, at)
        return
    if chunk.get("role") != "model":
        build.lose(f"message with role {text_of(chunk.get('role')) or 'none'}")
        return
    if chunk.get("errorMessage"):
        build.lose(FAILED_RESPONSE)
    code, outcome = object_of(chunk.get("executableCode")), chunk.get("codeExecutionResult")
    if code:
        blocks.append(build.make_call("code_execution", code))
    said = [block for block in blocks if block["type"] != "image"]
    if len(said) < len(blocks):
        build.lose(RESPONSE_IMAGE)
    build.answer(said, at, model=model)
    if type(outcome) is dict:
        failed = outcome.get("outcome") not in (None, "OUTCOME_OK")
        build.answer_oldest(text_of(outcome.get("output")), at, is_error=failed)


def _blocks(build: Builder, chunk: Json) -> Iterator[Json]:
    parts = [object_of(part) for part in list_of(chunk.get("parts"))]
    for part in parts or [chunk]:
        if text := text_of(part.get("text")):
            is_thought = part.get("thought") is True or chunk.get("isThought") is True
            yield make_thinking(text) if is_thought else make_text(text)
    file = object_of(chunk.get("inlineFile") or chunk.get("inlineImage"))
    media, data = text_of(file.get("mimeType")), text_of(file.get("data"))
    if data and media.startswith("image/"):
        yield make_picture(media, data)
    elif file or any(key in chunk for key in _LINKED):
        build.lose(NO_TEXT)


FORMAT = Format(name="aistudio", title="AI Studio", recognizes=recognizes, convert=convert)
