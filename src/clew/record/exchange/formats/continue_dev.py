"""Convert Continue sessions: one JSON object with a history of messages and call states.

Does no I/O.
"""

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from clew.core.json_object import Json, list_of, object_of, text_of
from clew.record.exchange.formats.conversion import Builder, Converted, make_thinking
from clew.record.exchange.formats.frame import Begin, Format, Source
from clew.record.exchange.formats.messages import take_message


def recognizes(source: Source) -> bool:
    value = object_of(source.document)
    history = value.get("history")
    return (
        type(history) is list
        and type(value.get("sessionId")) is str
        and ("workspaceDirectory" in value or "title" in value)
        and all(type(object_of(item).get("message")) is dict for item in history)
    )


def convert(source: Source, begin: Begin) -> Iterator[Converted]:
    value = source.document
    build = begin(value["sessionId"])
    build.out.title = text_of(value.get("title"))
    folder = text_of(value.get("workspaceDirectory"))
    build.out.cwd = unquote(folder.removeprefix("file://"))
    build.time(value.get("dateCreated"))
    for item in value["history"]:
        build.item()
        _item(build, item)
    yield build.finished()


def _item(build: Builder, item: Json) -> None:
    message = item["message"]
    at = build.time(message.get("timestamp") or item.get("timestamp"))
    if message.get("role") == "thinking":
        words, signature = text_of(message.get("content")), text_of(message.get("signature"))
        build.answer([make_thinking(words, signature)], at)
        return
    if item.get("contextItems"):
        build.lose("context attached to a prompt")
    if item.get("conversationSummary"):
        build.compact(text_of(item["conversationSummary"]), at)
    usual = {
        "role": message.get("role"),
        "content": message.get("content"),
        "tool_calls": message.get("toolCalls"),
        "tool_call_id": message.get("toolCallId"),
        "usage": message.get("usage"),
    }
    take_message(build, usual, at, model=text_of(item.get("modelTitle")))
    for state in map(object_of, list_of(item.get("toolCallStates"))):
        output = [_text(part) for part in list_of(state.get("output"))]
        call_id = text_of(state.get("toolCallId"))
        if output and build.is_open(call_id):
            failed = state.get("status") in ("errored", "canceled")
            build.result(call_id, "\n".join(output), at, is_error=failed)


def _text(part: Any) -> str:
    return text_of(object_of(part).get("content"))


FORMAT = Format(name="continue", title="Continue", recognizes=recognizes, convert=convert)
