"""Convert benchmark trajectories: ATIF, SWE-agent and mini-swe-agent. Does no I/O."""

from collections.abc import Iterator
from typing import Any

from clew.core.json_object import Json, list_of, object_of, text_of
from clew.record.exchange.formats.conversion import (
    Builder,
    Converted,
    call,
    make_text,
    make_thinking,
)
from clew.record.exchange.formats.frame import Begin, Format, Source
from clew.record.exchange.formats.messages import is_message, plain, read_block, take_message
from clew.record.exchange.formats.reasons import INSTRUCTIONS, NOTICE


def recognizes(source: Source) -> bool:
    value = object_of(source.document)
    return _is_atif(value) or _is_swe_agent(value) or _is_mini(value)


def _is_atif(value: Json) -> bool:
    is_named = text_of(value.get("schema_version")).upper().startswith("ATIF")
    return is_named and type(value.get("steps")) is list


def _is_swe_agent(value: Json) -> bool:
    history = value.get("history")
    if type(history) is not list or not history or not all(map(is_message, history)):
        return False
    # Demonstrations are only the history.
    return type(value.get("trajectory")) is list or all("agent" in item for item in history)


def _is_mini(value: Json) -> bool:
    format_name = text_of(value.get("trajectory_format"))
    messages = value.get("messages")
    return format_name.startswith("mini-swe-agent") and type(messages) is list


def convert(source: Source, begin: Begin) -> Iterator[Converted]:
    value = source.document
    if _is_atif(value):
        yield _convert_atif(value, begin)
        return
    build = begin("", source.name)
    for message in map(object_of, value["history"] if "history" in value else value["messages"]):
        build.item()
        if message.get("role") == "exit":
            build.lose(NOTICE)
        else:
            take_message(build, message, build.time(message.get("timestamp")))
    yield build.finished()


def _convert_atif(value: Json, begin: Begin) -> Converted:
    agent = object_of(value.get("agent"))
    build = begin(text_of(value.get("session_id")))
    for step in map(object_of, value["steps"]):
        build.item()
        _step(build, step, text_of(agent.get("model_name")))
    return build.finished()


def _step(build: Builder, step: Json, model: str) -> None:
    at = build.time(step.get("timestamp"))
    message = step.get("message")
    parts = [make_text(message)] if type(message) is str else list_of(message)
    blocks = [b for part in parts if (b := read_block(build, object_of(part)))]
    match step.get("source"):
        case "user":
            build.user(blocks, at)
        case "agent":
            items = [object_of(item) for item in list_of(step.get("tool_calls"))]
            if words := text_of(step.get("reasoning_content")):
                blocks = [make_thinking(words), *blocks]
            calls = [
                call(text_of(item.get("tool_call_id")), text_of(item.get("function_name")),
                     item.get("arguments")) for item in items
            ]  # fmt: skip
            model = text_of(step.get("model_name")) or model
            metrics = object_of(step.get("metrics"))
            content = [block for block in blocks if block["type"] != "image"]
            build.answer(
                [*content, *calls],
                at,
                model=model,
                usage=_usage(metrics),
                cost_usd=metrics.get("cost_usd"),
            )
            _observed(build, object_of(step.get("observation")), calls, at)
        case "system":
            build.lose(INSTRUCTIONS)
        case source:
            build.lose(f"step with source {text_of(source) or 'none'}")


def _observed(build: Builder, observation: Json, calls: list[Json], at: str) -> None:
    for index, result in enumerate(map(object_of, list_of(observation.get("results")))):
        content: Any = result.get("content")
        if type(content) is list:
            content = plain([b for p in content if (b := read_block(build, object_of(p)))])
        source = text_of(result.get("source_call_id"))
        if not source and index < len(calls):
            source = calls[index]["id"]
        if source:
            build.result(source, content or "", at)
        else:
            build.say(text_of(content), at, is_meta=True)


def _usage(metrics: Json) -> Json | None:
    prompt, cached = metrics.get("prompt_tokens"), metrics.get("cached_tokens")
    if type(prompt) is not int:
        return None
    cached = cached if type(cached) is int else 0
    output = metrics.get("completion_tokens")
    return {
        "input_tokens": max(0, prompt - cached),
        "cache_read_input_tokens": cached,
        "output_tokens": output if type(output) is int else 0,
    }


FORMAT = Format(name="trajectory", title="trajectory", recognizes=recognizes, convert=convert)
