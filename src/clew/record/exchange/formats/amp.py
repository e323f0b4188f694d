"""Convert Amp threads: one JSON object with Messages API messages. Does no I/O."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from clew.core.json_object import Json, list_of, object_of, text_of
from clew.record.exchange.formats.conversion import Builder, Converted
from clew.record.exchange.formats.frame import Begin, Format, Source
from clew.record.exchange.formats.gemini import encode_text
from clew.record.exchange.formats.messages import read_usage, take_message
from clew.record.exchange.formats.reasons import NOTICE

_ROLES = ("user", "assistant", "info")


def recognizes(source: Source) -> bool:
    value = object_of(source.document)
    identifier, messages = text_of(value.get("id")), value.get("messages")
    if type(messages) is not list or not identifier.startswith("T-") or "info" in value:
        return False
    return all(object_of(message).get("role") in _ROLES for message in messages)


def convert(source: Source, begin: Begin) -> Iterator[Converted]:
    value = source.document
    build = begin(value["id"])
    build.out.title = text_of(value.get("title"))
    initial = object_of(object_of(value.get("env")).get("initial"))
    trees = [object_of(tree) for tree in list_of(initial.get("trees"))]
    uri = text_of(trees[0].get("uri")) if trees else ""
    build.out.cwd = unquote(uri.removeprefix("file://")) if uri.startswith("file://") else ""
    build.time(value.get("created"))
    for message in value["messages"]:
        build.item()
        _message(build, message)
    yield build.finished()


def _message(build: Builder, message: Json) -> None:
    if message["role"] == "info":
        build.lose(NOTICE)
        return
    used = object_of(message.get("usage"))
    sent = object_of(message.get("meta")).get("sentAt") or used.get("timestamp")
    at = build.time(sent or message.get("createdAt"))
    content = message.get("content")
    if type(content) is not list:
        content = text_of(content) or text_of(message.get("text"))
    else:
        content = [_usual(object_of(part)) for part in content]
    if used and not read_usage(used):
        used = {}
    usual = {"role": message["role"], "content": content, "usage": used}
    take_message(build, usual, at, model=text_of(used.get("model")))


def _usual(part: Json) -> Json:
    """Return a part in the API's form: a tool result's output becomes its `content`, as text."""
    if part.get("type") != "tool_result" or "content" in part:
        return part
    run = object_of(part.get("run"))
    result: Any = run.get("result")
    if result is None:
        result = object_of(run.get("error")).get("message") or run.get("error") or run.get("reason")
    if result is None:
        result = text_of(run.get("status"))
    content = result if type(result) is str else encode_text(result)
    failed = run.get("status") in ("error", "rejected-by-user", "cancelled")
    return part | {"content": content, "is_error": failed}


FORMAT = Format(name="amp", title="Amp", recognizes=recognizes, convert=convert)
