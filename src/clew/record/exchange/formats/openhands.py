"""Convert OpenHands trajectories: a list of events, or lines of evaluations with a `history`.

An event is an action or an observation. An observation names its action in `cause`. Does no I/O.
"""

from collections.abc import Iterator
from typing import Any

from clew.core.json_object import Json, list_of, object_of, text_of
from clew.record.exchange.formats.conversion import (
    Builder,
    Converted,
    call,
    make_picture,
    make_text,
)
from clew.record.exchange.formats.frame import Begin, Format, Source
from clew.record.exchange.formats.messages import (
    DATA_URL,
    read_arguments,
    read_usage,
)
from clew.record.exchange.formats.reasons import INSTRUCTIONS, NO_TEXT, STATE

_SOURCES = frozenset({"user", "agent", "environment"})
_STATES = frozenset({"agent_state_changed", "change_agent_state", "null", "recall", "condensation"})


def recognizes(source: Source) -> bool:
    return any(map(_are_events, _histories(source)))


def _histories(source: Source) -> list[Any]:
    if type(source.document) is list:
        return [source.document]
    return [line.get("history") for line in source.lines[:20]]


def _are_events(value: Any) -> bool:
    return type(value) is list and len(value) > 0 and all(map(_is_event, value))


def _is_event(value: Any) -> bool:
    event = object_of(value)
    kinds = [event.get(key) for key in ("action", "observation")]
    is_acting = type(kinds[0]) is str and type(event.get("args")) is dict
    is_seeing = type(kinds[1]) is str and "content" in event
    return text_of(event.get("source")) in _SOURCES and (is_acting or is_seeing)


def convert(source: Source, begin: Begin) -> Iterator[Converted]:
    if type(source.document) is list:
        yield _session(begin("", source.name), source.document)
        return
    for line in source.lines:
        if _are_events(line.get("history")):
            instance = text_of(line.get("instance_id"))
            build = begin(instance, "" if instance else source.name)
            build.out.title = instance
            yield _session(build, line["history"])


def _session(build: Builder, events: list[Json]) -> Converted:
    calls: dict[str, str] = {}
    answered: set[str] = set()
    for event in events:
        build.item(str(event.get("id", "")))
        at = build.time(event.get("timestamp"))
        kind = text_of(event.get("action")) or text_of(event.get("observation"))
        if kind in _STATES:
            build.lose(STATE)
        elif kind == "system":
            build.lose(INSTRUCTIONS)
        elif "action" in event:
            _action(build, event, at, calls, answered)
        else:
            failed = event.get("success") is False or kind == "error"
            content = text_of(event.get("content")) or text_of(event.get("message"))
            build.result(calls.get(str(event.get("cause")), ""), content, at, is_error=failed)
    return build.finished()


def _action(
    build: Builder, event: Json, at: str, calls: dict[str, str], answered: set[str]
) -> None:
    arguments = event["args"] if type(event.get("args")) is dict else {}
    kind, words = text_of(event.get("action")), text_of(event.get("message"))
    if event.get("source") != "agent":
        text = text_of(arguments.get("content")) if kind == "message" else words
        build.user([make_text(text), *_pictures(build, arguments)], at, is_meta=kind != "message")
        return
    metadata = object_of(event.get("tool_call_metadata"))
    response = object_of(metadata.get("model_response"))
    identifier = text_of(response.get("id"))
    usage = None
    if identifier and identifier not in answered:
        # Each call of a response repeats the response.
        answered.add(identifier)
        usage = read_usage(object_of(response.get("usage")))
    model = text_of(response.get("model"))
    if kind in ("message", "finish"):
        text = text_of(arguments.get("content")) or text_of(arguments.get("final_thought"))
        build.answer([make_text(text or words)], at, model=model, usage=usage)
        return
    call_id = text_of(metadata.get("tool_call_id")) or f"action_{event.get('id')}"
    calls[str(event.get("id"))] = call_id
    own_call = _find_call(response, call_id)
    own_input = {key: value for key, value in arguments.items() if key != "thought"}
    name = text_of(metadata.get("function_name")) or kind
    value = read_arguments(own_call.get("arguments")) if own_call else own_input
    blocks = [make_text(text_of(arguments.get("thought"))), call(call_id, name, value)]
    build.answer(blocks, at, model=model, usage=usage)


def _find_call(response: Json, call_id: str) -> Json:
    for choice in map(object_of, list_of(response.get("choices"))):
        for item in map(object_of, list_of(object_of(choice.get("message")).get("tool_calls"))):
            if item.get("id") == call_id:
                return object_of(item.get("function"))
    return {}


def _pictures(build: Builder, arguments: Json) -> Iterator[Json]:
    for url in list_of(arguments.get("image_urls")):
        if match := DATA_URL.fullmatch(text_of(url)):
            yield make_picture(match[1], "".join(match[2].split()))
        else:
            build.lose(NO_TEXT)


FORMAT = Format(name="openhands", title="OpenHands", recognizes=recognizes, convert=convert)
