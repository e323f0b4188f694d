"""Convert conversations in one JSON value: clew's own export, and lists of API messages.

The export is an object with `version`, `state`, `messages` and `metadata`. A conversation of API
messages is a list, an object with `messages`, or one message per line. Sessions of Claude Code on
the web are an object with `loglines`. This format is the fallback for sources that no other format
recognizes. Does no I/O.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from clew.core.json_object import Json, list_of, object_of, text_of
from clew.core.messages.kinds import CHAIN, KINDS, find_faults
from clew.record.exchange.formats.conversion import Builder, Converted
from clew.record.exchange.formats.frame import Begin, Format, Source
from clew.record.exchange.formats.messages import is_message, take_message
from clew.record.exchange.formats.reasons import INSTRUCTIONS

AGENT = "subagent without an ID or a message"
# The fields that describe an agent; older files have only these.
_OF_AGENT = ("agentType", "description", "toolUseId")
_ABOUT = frozenset({"version", "state", "metadata", "agents"})
_TIMES = ("timestamp", "ts", "created_at", "createdAt")
_OWN = frozenset({"id", "messages", *_ABOUT})


def recognizes(source: Source) -> bool:
    value = source.document
    if type(value) is dict and len(source.lines) <= 1:
        if type(value.get("loglines")) is list:
            return _are_messages(value["loglines"])
        if type(value.get("messages")) is not list or "type" in value:
            return False
        is_own = set(value) <= _OWN and (set(value) & _ABOUT or not value["messages"])
        return bool(is_own) or _are_messages(value["messages"])
    if type(value) is list:
        return _are_messages(value)
    return bool(source.lines) and all(map(is_message, source.lines[:20]))


def _are_messages(values: list[Any]) -> bool:
    count = sum(is_message(_usual(value)) or _is_entry(value) for value in values)
    return count > 0 and 2 * count >= len(values)


def _usual(value: Any) -> Any:
    """Return a message in the usual shape: some programs write `text`, or the role `human`."""
    if type(value) is not dict or type(value.get("role")) is not str:
        return value
    message = value | {"role": "user"} if value["role"] == "human" else value
    if "content" not in message and type(message.get("text")) is str:
        return message | {"content": message["text"]}
    return message


def _is_entry(value: Any) -> bool:
    return _has_place(object_of(value).get("type")) and is_message(object_of(value).get("message"))


def _has_place(kind: Any) -> bool:
    kind_row = KINDS.get(kind) if type(kind) is str else None
    return kind_row is not None and kind_row.place == CHAIN


def convert(source: Source, begin: Begin) -> Iterator[Converted]:
    """Convert the value: valid entries stay unchanged, API messages become entries."""
    value = source.document
    if type(value) is not dict or len(source.lines) > 1:
        value = {"messages": value if type(value) is list else list(source.lines)}
    elif "loglines" in value:
        value = value | {"messages": value["loglines"]}
    metadata, state = object_of(value.get("metadata")), object_of(value.get("state"))
    build = begin(text_of(state.get("sessionId")) or text_of(value.get("id")))
    build.out.title = text_of(state.get("title")) or text_of(value.get("title"))
    build.out.cwd = text_of(metadata.get("projectPath"))
    build.out.branch = text_of(metadata.get("gitBranch"))
    build.time(metadata.get("created"))
    model = text_of(value.get("model"))
    if value.get("system"):
        build.item()
        build.lose(INSTRUCTIONS)
    for message in map(object_of, value["messages"]):
        build.item()
        _message(build, message, model)
    for agent in map(object_of, list_of(value.get("agents"))):
        own = begin(text_of(agent.get("agentId")))
        for message in map(object_of, list_of(agent.get("messages"))):
            own.item()
            _message(own, message, model)
        build.item()
        if not own.out.source_id or not own.out.messages:
            build.lose(AGENT)
            build.out.tally.add(own.finished().tally)
            continue
        build.keep()
        fields = {key: agent[key] for key in _OF_AGENT if type(agent.get(key)) is str}
        build.add_agent(own.out.source_id, own, object_of(agent.get("metadata")) or fields)
    yield build.finished()


def extend(
    entries: Iterable[Json], messages: Iterable[Json], new_uuid: Callable[[], str], *, at: str
) -> Converted:
    """Convert API messages that follow `entries`.

    The messages may contain results of tool calls that are still open in `entries`.
    """
    build = Builder("messages", "", new_uuid)
    for entry in entries:
        build.take(entry)
    build.out.messages = []
    build.time(at)
    for message in map(object_of, messages):
        build.item()
        _message(build, message, "")
    return build.finished()


def _message(build: Builder, message: Json, model: str) -> None:
    at = build.time(next(filter(None, map(message.get, _TIMES)), None))
    kind = message.get("type")
    if _has_place(kind):
        entry = message | {"timestamp": at}
        if type(entry.get("uuid")) is not str:
            entry["uuid"] = build.new_uuid()
        message_fields = object_of(entry.get("message"))
        is_one = kind != "assistant" or len(list_of(message_fields.get("content"))) == 1
        if is_one and not find_faults(entry):
            build.take(entry)
            return
        message = message_fields
    if message.get("role") is None:
        build.lose(f"message of type {text_of(kind) or 'none'}")
        return
    take_message(build, _usual(message), at, model=model)


FORMAT = Format(name="one file", title="one file", recognizes=recognizes, convert=convert)
