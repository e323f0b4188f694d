"""Convert kimi-cli and Kimi Code sessions: the context or the wire log. Does no I/O.

`context.jsonl` has messages without times, and metadata lines whose roles begin with `_`.
`wire.jsonl` has events: those of kimi-cli in an envelope, those of Kimi Code as context changes.
"""

from collections.abc import Iterator
from hashlib import md5
from pathlib import PurePath
from typing import Any

from clew.core.json_object import Json, list_of, object_of, text_of
from clew.core.messages.encoding import decode
from clew.record.exchange.formats.conversion import (
    Builder,
    Converted,
    call,
    make_thinking,
)
from clew.record.exchange.formats.frame import Begin, Format, Source
from clew.record.exchange.formats.messages import (
    is_message,
    plain,
    read_arguments,
    read_block,
    take_message,
)
from clew.record.exchange.formats.reasons import CONTEXT_COUNT, EVENT, INSTRUCTIONS, SETTINGS

_OWN_ROLES = frozenset({"_system_prompt", "_checkpoint", "_usage"})


def recognizes(source: Source) -> bool:
    return _is_context(source) or _is_wire(source)


def _is_context(source: Source) -> bool:
    lines = source.lines[:50]
    return any(text_of(line.get("role")) in _OWN_ROLES for line in lines) and all(
        text_of(line.get("role")) in _OWN_ROLES or is_message(line) or _has_thinking(line)
        for line in lines
    )


def _has_thinking(line: Json) -> bool:
    return line.get("role") in ("user", "assistant", "tool") and type(line.get("content")) is list


def _is_wire(source: Source) -> bool:
    head = source.first
    is_headed = head.get("type") == "metadata" and type(head.get("protocol_version")) is str
    rest = source.lines[1:] if is_headed else source.lines
    is_old = bool(rest) and all(
        type(line.get("timestamp")) in (int, float)
        and type(object_of(line.get("message")).get("type")) is str
        and "payload" in object_of(line.get("message"))
        for line in rest[:20]
    )
    return is_headed or is_old


def convert(source: Source, begin: Begin) -> Iterator[Converted]:
    folder = PurePath(source.folder)
    is_named = folder.parent.parent.name == "sessions"
    build = begin(_read_state(source, "session_id") or (folder.name if is_named else ""))
    build.out.cwd = _find_project(source, folder.parent.name)
    build.out.title = _read_state(source, "custom_title") or _read_state(source, "title")
    if _is_context(source):
        for line in source.lines:
            build.item()
            _context_line(build, line)
        yield build.finished()
        return
    wire = _Wire(build)
    for line in source.lines:
        build.item()
        wire.take(line)
    wire.flush()
    yield build.finished()


def _read_state(source: Source, name: str) -> str:
    for file in ("state.json", "metadata.json", "../../state.json"):
        try:
            state = object_of(decode(source.beside(file) or b""))
        except ValueError:
            continue
        if value := text_of(state.get(name)):
            return value
    return ""


def _find_project(source: Source, digest: str) -> str:
    """Return the project folder whose path has this digest, or an empty string."""
    try:
        listed = object_of(decode(source.beside("../../../kimi.json") or b"")).get("work_dirs")
    except ValueError:
        return ""
    for path in (text_of(object_of(project).get("path")) for project in list_of(listed)):
        if md5(path.encode("utf-8", "replace"), usedforsecurity=False).hexdigest() == digest:
            return path
    return ""


def _context_line(build: Builder, line: Json) -> None:
    match line.get("role"):
        case "_system_prompt":
            build.lose(INSTRUCTIONS)
        case "_usage":
            build.lose(CONTEXT_COUNT)
        case "_checkpoint":
            build.lose("checkpoint marker")
        case _:
            _take(build, line, build.time(None))


def _take(build: Builder, message: Json, at: str, *, is_meta: bool = False) -> None:
    parts = [_usual(object_of(part)) for part in list_of(message.get("content"))]
    calls = message.get("tool_calls") or message.get("toolCalls")
    content = parts if type(message.get("content")) is list else message.get("content")
    if is_meta and message.get("role") == "user":
        build.user([b for p in parts if (b := read_block(build, p))], at, is_meta=True)
        return
    identifier = message.get("tool_call_id") or message.get("toolCallId")
    usual = {"role": message.get("role"), "content": content, "tool_calls": calls,
             "tool_call_id": identifier}  # fmt: skip
    take_message(build, usual, at)


def _usual(part: Json) -> Json:
    """Return a part, with thinking in the API's form."""
    if part.get("type") != "think":
        return part
    return {"type": "thinking", "thinking": text_of(part.get("think"))}


class _Wire:
    """Collects the parts of a step into one response."""

    def __init__(self, build: Builder) -> None:
        self._build = build
        self._blocks: list[Json] = []
        self._model = ""
        self._pieces: dict[str, str] = {}
        self._last_call: Json | None = None

    def flush(self, usage: Json | None = None) -> None:
        if self._blocks:
            for block in self._blocks:
                if block["type"] == "tool_use" and block["id"] in self._pieces:
                    value = read_arguments(self._pieces[block["id"]])
                    block["input"] = value if type(value) is dict else {"input": value}
            at = self._build.time(None)
            self._build.answer(self._blocks, at, model=self._model, usage=usage)
        self._blocks, self._pieces = [], {}

    def take(self, line: Json) -> None:
        build = self._build
        at = build.time(line.get("time", line.get("timestamp", line.get("created_at"))))
        kind = text_of(line.get("type"))
        if kind == "" and type(line.get("message")) is dict:
            message = line["message"]
            self._old(text_of(message.get("type")), object_of(message.get("payload")), at)
        elif kind == "metadata":
            build.keep()
        elif kind == "context.append_message":
            self.flush()
            message = object_of(line.get("message"))
            origin = text_of(object_of(message.get("origin")).get("kind"))
            _take(build, message, at, is_meta=origin not in ("", "user"))
        elif kind == "context.append_loop_event":
            self._step(object_of(line.get("event")), at)
        elif kind == "context.apply_compaction":
            self.flush()
            build.compact(text_of(line.get("summary")), at)
        elif kind == "config.update":
            build.out.cwd = text_of(line.get("cwd")) or build.out.cwd
            self._model = text_of(line.get("modelAlias")) or self._model
            build.lose(SETTINGS)
        else:
            build.lose(EVENT)

    def _part(self, part: Json) -> None:
        if part.get("type") == "think":
            self._blocks.append(make_thinking(text_of(part.get("think"))))
        elif block := read_block(self._build, part):
            self._blocks.append(block)
        else:
            return
        self._build.keep()

    def _step(self, event: Json, at: str) -> None:
        build = self._build
        match event.get("type"):
            case "content.part":
                self._part(object_of(event.get("part")))
            case "tool.call":
                name = text_of(event.get("name"))
                self._blocks.append(call(text_of(event.get("toolCallId")), name, event.get("args")))
                build.keep()
            case "tool.result":
                self.flush()
                result = object_of(event.get("result"))
                self._result(text_of(event.get("toolCallId")), result, at)
            case "step.end":
                used = object_of(event.get("usage"))
                usage = {
                    "input_tokens": used.get("inputOther"),
                    "output_tokens": used.get("output"),
                    "cache_read_input_tokens": used.get("inputCacheRead"),
                    "cache_creation_input_tokens": used.get("inputCacheCreation"),
                }
                self._charge({key: n for key, n in usage.items() if type(n) is int})
            case _:
                build.lose(EVENT)

    def _charge(self, usage: Json) -> None:
        if self._blocks and usage:
            self.flush(usage)
            self._build.keep()
        elif not usage or not self._build.charge(usage):
            self._build.lose(EVENT)

    def _result(self, call_id: str, result: Json, at: str) -> None:
        output = result.get("output")
        parts = [_usual(object_of(part)) for part in list_of(output)]
        blocks = [b for part in parts if (b := read_block(self._build, part))]
        content: Any = output if type(output) is str else plain(blocks)
        content = content or text_of(result.get("message"))
        is_error = result.get("is_error") is True or result.get("isError") is True
        self._build.result(call_id, content, at, is_error=is_error)

    def _old(self, kind: str, payload: Json, at: str) -> None:
        build = self._build
        match kind:
            case "TurnBegin" | "SteerInput":
                self.flush()
                content = payload.get("user_input")
                take_message(build, {"role": "user", "content": content}, at)
            case "ContentPart":
                self._part(payload)
            case "ToolCall":
                function = object_of(payload.get("function"))
                call_id = text_of(payload.get("id"))
                block = call(call_id, text_of(function.get("name")), {})
                self._blocks.append(block)
                self._last_call = block
                self._pieces[block["id"]] = text_of(function.get("arguments"))
                build.keep()
            case "ToolCallPart":
                if self._last_call is not None and self._last_call["id"] in self._pieces:
                    self._pieces[self._last_call["id"]] += text_of(payload.get("arguments_part"))
                    build.keep()
                else:
                    build.lose("part of a tool call whose beginning is missing")
            case "ToolResult":
                self.flush()
                result = object_of(payload.get("return_value")) or object_of(payload.get("result"))
                self._result(text_of(payload.get("tool_call_id")), result, at)
            case "StatusUpdate":
                used = object_of(payload.get("token_usage"))
                usage = {
                    "input_tokens": used.get("input_other"),
                    "output_tokens": used.get("output"),
                    "cache_read_input_tokens": used.get("input_cache_read"),
                    "cache_creation_input_tokens": used.get("input_cache_creation"),
                }
                self._charge({key: n for key, n in usage.items() if type(n) is int})
            case "StepBegin" | "TurnEnd" | "StepInterrupted" | "CompactionBegin":
                self.flush()
                build.lose(EVENT)
            case _:
                build.lose(EVENT)


FORMAT = Format(name="kimi", title="Kimi", recognizes=recognizes, convert=convert)
