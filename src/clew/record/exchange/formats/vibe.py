"""Convert sessions of Mistral Vibe: `messages.jsonl` beside `meta.json`, or one JSON object. Pure."""

from collections.abc import Iterator

from clew.core.json_object import Json, object_of, text_of
from clew.core.messages.encoding import decode
from clew.record.exchange.formats.conversion import Converted
from clew.record.exchange.formats.frame import Begin, Format, Source
from clew.record.exchange.formats.messages import is_message, take_message


def recognizes(source: Source) -> bool:
    value = object_of(source.document)
    if type(value.get("messages")) is list and len(source.lines) <= 1:
        metadata = object_of(value.get("metadata"))
        is_own = type(metadata.get("session_id")) is str and "start_time" in metadata
        return is_own and all(map(_is_own, value["messages"]))
    return (
        bool(source.lines)
        and all(map(_is_own, source.lines[:20]))
        and ("message_id" in source.first or bool(_read_metadata(source)))
    )


def _is_own(message: object) -> bool:
    return is_message(message) or (type(message) is dict and message.get("role") == "assistant")


def _read_metadata(source: Source) -> Json:
    try:
        metadata = object_of(decode(source.beside("meta.json") or b""))
    except ValueError:
        return {}
    return metadata if "session_id" in metadata and "environment" in metadata else {}


def convert(source: Source, begin: Begin) -> Iterator[Converted]:
    value = object_of(source.document)
    is_one = type(value.get("messages")) is list
    metadata = object_of(value.get("metadata")) if is_one else _read_metadata(source)
    build = begin(text_of(metadata.get("session_id")))
    environment = object_of(metadata.get("environment"))
    build.out.cwd = text_of(environment.get("working_directory"))
    build.out.branch = text_of(metadata.get("git_branch"))
    build.out.title = text_of(metadata.get("title"))
    build.time(metadata.get("start_time"))
    model = text_of(object_of(metadata.get("config")).get("active_model"))
    for message in map(object_of, value["messages"] if is_one else source.lines):
        build.item(message.get("message_id"))
        at = build.time(message.get("timestamp"))
        if message.get("images"):
            build.lose("picture in a file of the other program")
        if message.get("reasoning_state") or message.get("reasoning_signature"):
            build.lose("thinking signature (the text is shown but not sent)")
        if message.get("role") == "user" and message.get("injected") is True:
            build.say(text_of(message.get("content")), at, is_meta=True)
        else:
            take_message(build, message, at, model=model)
    yield build.finished()


FORMAT = Format(name="vibe", title="Mistral Vibe", recognizes=recognizes, convert=convert)
