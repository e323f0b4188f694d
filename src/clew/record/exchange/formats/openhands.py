"""Convert OpenHands trajectories: a list of events, or lines of evaluations with a `history`.

An event is an action or an observation. An observation names its action in `cause`. Since version
1, a conversation is a folder with its state (`base_state.json`) and a file per event, which
contains the message of the model's API. Does no I/O.
"""

from collections.abc import Iterator
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
from clew.record.exchange.formats.messages import (
    DATA_URL,
    plain,
    read_arguments,
    read_block,
    read_usage,
)
from clew.record.exchange.formats.reasons import (
    FAILED_RESPONSE,
    INSTRUCTIONS,
    NO_SUMMARY,
    NO_TEXT,
    REDACTED,
    STATE,
)

_SOURCES = frozenset({"user", "agent", "environment"})
_STATES = frozenset({"agent_state_changed", "change_agent_state", "null", "recall", "condensation"})


# Events of version 1 that describe its own state.
_OWN_KINDS = frozenset({
    "CondensationRequest", "ConversationStateUpdateEvent", "HookExecutionEvent",
    "InterruptEvent", "LLMCompletionLogEvent", "PauseEvent", "StreamingDeltaEvent", "TokenEvent",
})  # fmt: skip
_EVENTS = "events/event-*.json"


def recognizes(source: Source) -> bool:
    return _is_state(source) or any(map(_are_events, _histories(source)))


def _is_state(source: Source) -> bool:
    """Return whether this is the state of a conversation, next to the folder of its events."""
    value = object_of(source.document)
    is_state = type(value.get("agent")) is dict and type(value.get("id")) is str
    return is_state and bool(source.find(_EVENTS))


def _histories(source: Source) -> list[Any]:
    if type(source.document) is list:
        return [source.document]
    return [line.get("history") for line in source.lines[:20]]


def _are_events(value: Any) -> bool:
    return type(value) is list and len(value) > 0 and all(map(_is_event, value))


def _is_event(value: Any) -> bool:
    event = object_of(value)
    if text_of(event.get("kind")).endswith(("Event", "Condensation")):
        return text_of(event.get("source")) in _SOURCES and "timestamp" in event
    kinds = [event.get(key) for key in ("action", "observation")]
    is_acting = type(kinds[0]) is str and type(event.get("args")) is dict
    is_seeing = type(kinds[1]) is str and "content" in event
    return text_of(event.get("source")) in _SOURCES and (is_acting or is_seeing)


def convert(source: Source, begin: Begin) -> Iterator[Converted]:
    if _is_state(source):
        yield _convert_folder(source, begin)
        return
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
        if "kind" in event:
            _event(build, event, at)
            continue
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


def _convert_folder(source: Source, begin: Begin) -> Converted:
    state = source.document
    build = begin(state["id"])
    build.out.title = text_of(state.get("title"))
    build.out.cwd = text_of(object_of(state.get("workspace")).get("working_dir"))
    events = []
    for name in source.find(_EVENTS):
        try:
            events.append(object_of(decode(source.beside(name) or b"")))
        except ValueError:
            build.item()
            build.lose("invalid event file")
    model = text_of(object_of(object_of(state["agent"]).get("llm")).get("model"))
    for event in events:
        build.item(event.get("id"))
        _event(build, event, build.time(event.get("timestamp")), model=model)
    return build.finished()


def _event(build: Builder, event: Json, at: str, *, model: str = "") -> None:
    """Add an event of version 1, which contains what the model sent or received."""
    kind = text_of(event.get("kind"))
    match kind:
        case "MessageEvent":
            message = object_of(event.get("llm_message"))
            if event.get("extended_content"):
                build.lose("context attached to a prompt")
            if event.get("source") == "agent":
                blocks = [*_thoughts(build, message), *_blocks(build, message.get("content"))]
                build.answer(blocks, at, model=model)
            else:
                is_meta = event.get("source") == "environment"
                build.user(_blocks(build, message.get("content")), at, is_meta=is_meta)
        case "ActionEvent":
            made = object_of(event.get("tool_call"))
            name = text_of(event.get("tool_name")) or text_of(made.get("name"))
            value = read_arguments(made.get("arguments"))
            call_id = text_of(event.get("tool_call_id"))
            thought = _blocks(build, event.get("thought"))
            blocks = [*_thoughts(build, event), *thought, call(call_id, name, value)]
            build.answer(blocks, at, model=model)
        case "ObservationEvent":
            seen = object_of(event.get("observation"))
            parts = [*list_of(seen.get("content")), *list_of(event.get("extended_content"))]
            failed = seen.get("is_error") is True or seen.get("exit_code") not in (None, 0)
            content = plain(_blocks(build, parts))
            build.result(text_of(event.get("tool_call_id")), content, at, is_error=failed)
        case "AgentErrorEvent" | "UserRejectObservation":
            words = text_of(event.get("error")) or text_of(event.get("rejection_reason"))
            build.result(text_of(event.get("tool_call_id")), words, at, is_error=True)
        case "SystemPromptEvent":
            build.lose(INSTRUCTIONS)
        case "Condensation" | "CondensationSummaryEvent":
            if summary := text_of(event.get("summary")):
                build.compact(summary, at)
            else:
                build.lose(NO_SUMMARY)
        case "ConversationErrorEvent" | "ServerErrorEvent":
            build.lose(FAILED_RESPONSE)
        case _:
            build.lose(STATE if kind in _OWN_KINDS else f"event of type {kind or 'none'}")


def _thoughts(build: Builder, holder: Json) -> Iterator[Json]:
    parts = [object_of(part) for part in list_of(holder.get("thinking_blocks"))]
    for part in parts:
        if part.get("type") == "thinking":
            yield make_thinking(text_of(part.get("thinking")), text_of(part.get("signature")))
        else:
            build.lose(REDACTED)
    if not parts and (words := text_of(holder.get("reasoning_content"))):
        yield make_thinking(words)


def _blocks(build: Builder, parts: Any) -> list[Json]:
    blocks: list[Json] = []
    for part in map(object_of, list_of(parts)):
        urls = list_of(part.get("image_urls"))
        if urls:
            blocks += _pictures(build, part)
        elif block := read_block(build, part):
            blocks.append(block)
    return blocks


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
