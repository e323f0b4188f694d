"""Convert Mistral Vibe sessions: a journal, `messages.jsonl`, or one JSON object. Does no I/O.

A journal (`journal/*.jsonl`, since version 3) has the program's steps, including prompts,
completions and tool results. `meta.json` is next to `messages.jsonl`, and one folder above the
journal.
"""

from collections.abc import Iterator
from typing import Any

from clew.core.json_object import Json, list_of, object_of, text_of
from clew.core.messages.encoding import decode, encode
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
    is_message,
    plain,
    read_arguments,
    read_block,
    read_usage,
    take_message,
)
from clew.record.exchange.formats.reasons import SIGNATURE

STEP = "step that repeats the conversation"


def recognizes(source: Source) -> bool:
    if _is_journal(source):
        return True
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


def _is_journal(source: Source) -> bool:
    lines = source.lines[:20]
    return bool(lines) and all("recovery_journal_record_version" in line for line in lines)


def _is_own(message: object) -> bool:
    return is_message(message) or (type(message) is dict and message.get("role") == "assistant")


def _read_metadata(source: Source) -> Json:
    try:
        data = source.beside("meta.json") or source.beside("../meta.json") or b""
        metadata = object_of(decode(data))
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
    if _is_journal(source):
        journal = list(_read_journal(source))
        for message in _find_older(list(_read_history(source)), journal):
            build.item()
            _continued(build, message)
        for line in journal:
            build.item()
            _step(build, line, model)
        yield build.finished()
        return
    for message in map(object_of, value["messages"] if is_one else source.lines):
        build.item(message.get("message_id"))
        at = build.time(message.get("timestamp"))
        pictures = list(_images(build, message))
        if message.get("reasoning_state") or message.get("reasoning_signature"):
            build.lose(SIGNATURE)
        is_injected = message.get("injected") is True
        if message.get("role") == "user" and (is_injected or pictures):
            words = make_text(text_of(message.get("content")))
            build.user([words, *pictures], at, is_meta=is_injected)
        else:
            take_message(build, message, at, model=model)
    yield build.finished()


def _images(build: Builder, message: Json) -> Iterator[Json]:
    for image in map(object_of, list_of(message.get("images"))):
        data = text_of(object_of(image.get("source")).get("data"))
        if data and message.get("role") == "user":
            yield make_picture(text_of(image.get("mime_type")), data)
        else:
            build.lose("image in a separate file of the other program")


def _read_journal(source: Source) -> Iterator[Json]:
    """Yield the lines of this file and of the journal's later files."""
    yield from source.lines
    for name in source.find("*.jsonl"):
        if name > source.name:
            for raw in (source.beside(name) or b"").split(b"\n"):
                try:
                    yield object_of(decode(raw))
                except ValueError:
                    continue


def _read_history(source: Source) -> Iterator[Json]:
    """Yield the messages of the conversation as the program last stored it."""
    for name in source.find("../generations/*/manifest.json")[-1:]:
        checkpoint = object_of(_read_value(source, name)).get("checkpoint")
        for chunk in map(text_of, list_of(object_of(checkpoint).get("chunks"))):
            for item in map(object_of, list_of(_read_value(source, f"../chunks/{chunk}.json"))):
                if item.get("source") == "history":
                    yield object_of(item.get("message"))


def _find_older(messages: list[Json], journal: list[Json]) -> list[Json]:
    """Return the messages that precede the journal: those of an older session, continued here."""
    prompts = [params.get("message") for params in map(_find_prompt, journal) if params]
    places = [n for n, message in enumerate(messages) if message.get("role") == "user"]
    for number, place in enumerate(places):
        rest = [messages[n].get("content") for n in places[number:]]
        if rest == prompts[: len(rest)]:
            return messages[:place]
    return messages


def _find_prompt(line: Json) -> Json:
    """Return the parameters of a line that starts a turn."""
    payload = object_of(line.get("payload"))
    is_start = line.get("type") == "command_reserved" and payload.get("method") == "turn/start"
    return object_of(payload.get("params")) if is_start else {}


def _read_value(source: Source, name: str) -> Any:
    try:
        return decode(source.beside(name) or b"")
    except ValueError:
        return None


def _continued(build: Builder, message: Json) -> None:
    at = build.time(None)
    parts = [object_of(part) for part in list_of(message.get("content"))]
    if message.get("role") == "assistant":
        build.answer([block for part in parts if (block := _said(part))], at)
        return
    content = [block for part in parts if (block := read_block(build, part))]
    if message.get("role") == "tool":
        is_error = message.get("outcome") == "failure"
        build.result(text_of(message.get("tool_call_id")), plain(content), at, is_error=is_error)
    else:
        build.user(content, at)


def _step(build: Builder, line: Json, model: str) -> None:
    payload = object_of(line.get("payload"))
    determinism = object_of(object_of(payload.get("input")).get("determinism"))
    at = build.time(determinism.get("time_unix_ms"))
    params = _find_prompt(line)
    result = object_of(payload.get("result"))
    inner = object_of(result.get("result"))
    if params:
        parts = [object_of(part) for part in list_of(params.get("message"))]
        blocks = [b for part in parts if (b := read_block(build, part))]
        build.user(blocks, at, is_meta=params.get("injected") is True)
    elif line.get("type") == "action_result" and result.get("type") == "completion_succeeded":
        content = [_said(object_of(part)) for part in list_of(inner.get("parts"))]
        used = object_of(inner.get("usage"))
        cached, input_tokens = used.get("cached_input_tokens"), used.get("input_tokens")
        usage = read_usage(used)
        if usage is not None and isinstance(cached, int) and isinstance(input_tokens, int):
            usage |= {
                "input_tokens": max(0, input_tokens - cached),
                "cache_read_input_tokens": cached,
            }
        build.answer([block for block in content if block], at, model=model, usage=usage)
    elif line.get("type") == "action_result" and text_of(result.get("call_id")):
        _result(build, result, inner, at)
    else:
        build.lose(STEP)


def _said(part: Json) -> Json | None:
    match part.get("type"):
        case "text":
            return make_text(text_of(part.get("text")))
        case "reasoning":
            texts = [text_of(object_of(p).get("text")) for p in list_of(part.get("content"))]
            return make_thinking("\n".join(texts))
        case "tool_call":
            arguments = read_arguments(
                part.get("arguments_json") or object_of(part.get("arguments")).get("raw")
            )
            return call(text_of(part.get("id")), text_of(part.get("name")), arguments)
        case _:
            return None


def _result(build: Builder, result: Json, inner: Json, at: str) -> None:
    parts = [object_of(part) for part in list_of(inner.get("content"))]
    content = plain([b for part in parts if (b := read_block(build, part))])
    structured = object_of(inner.get("structured_content"))
    if not content and type(structured.get("stdout")) is str:
        content = structured["stdout"] + text_of(structured.get("stderr"))
    elif not content:
        content = encode(structured or inner).decode("utf-8", "replace")
    failed = inner.get("type") != "success" or structured.get("returncode") not in (None, 0)
    build.result(text_of(result["call_id"]), content, at, is_error=failed)


FORMAT = Format(name="vibe", title="Mistral Vibe", recognizes=recognizes, convert=convert)
