"""Convert the events that agents print without a terminal, saved to a file. Does no I/O.

These are `codex exec --json`, `gemini --output-format stream-json` and `droid exec --output-format
stream-json`, and the logs that opencode hooks write in `.claude/transcripts`.
"""

from collections.abc import Callable, Iterator
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
from clew.record.exchange.formats.gemini import encode_text
from clew.record.exchange.formats.messages import read_usage
from clew.record.exchange.formats.reasons import FAILED_RESPONSE, LONE_COUNT, REPEATED, STATE

RESULT = "result of the run"
_ITEMS = frozenset({"item.started", "item.updated", "item.completed"})
_OF_CODEX = _ITEMS | {"thread.started", "turn.started", "turn.completed", "turn.failed", "error"}
_OF_GEMINI = frozenset({"init", "message", "tool_use", "tool_result", "error", "result"})
_OF_DROID = frozenset({"system", "message", "tool_call", "tool_result", "completion", "error"})
_OF_HOOKS = frozenset({"user", "assistant", "tool_use", "tool_result"})


def recognizes(source: Source) -> bool:
    return _find_reader(source) is not None


def _find_reader(source: Source) -> "Callable[[Builder], _EventReader] | None":
    lines = source.lines[:50]
    kinds = {text_of(line.get("type")) for line in lines}
    if source.first.get("type") == "thread.started" and kinds <= _OF_CODEX:
        return _CodexReader
    is_talk = all(type(line.get("role")) is str for line in lines if line.get("type") == "message")
    if "init" in kinds and kinds <= _OF_GEMINI and is_talk:
        return _GeminiReader
    is_of_session = lines and all(type(line.get("session_id")) is str for line in lines)
    if is_of_session and is_talk and "message" in kinds and kinds <= _OF_DROID:
        return _DroidReader
    if lines and kinds <= _OF_HOOKS and all(map(_is_of_hook, lines)):
        return _HookReader
    return None


def _is_of_hook(line: Json) -> bool:
    if line.get("type") in ("user", "assistant"):
        return set(line) == {"type", "timestamp", "content"} and type(line["content"]) is str
    return type(line.get("tool_name")) is str and type(line.get("tool_input")) is dict


def convert(source: Source, begin: Begin) -> Iterator[Converted]:
    make_reader = _find_reader(source)
    assert make_reader is not None
    first = next((line for line in source.lines if "session_id" in line), source.first)
    identifier = text_of(first.get("session_id")) or text_of(first.get("thread_id"))
    # The program's own file of this session may contain more: it can be imported, too.
    build = begin(identifier and f"stream {identifier}")
    build.out.cwd = text_of(first.get("cwd"))
    reader = make_reader(build)
    for line in source.lines:
        reader.take(line)
    reader.end()
    yield build.finished()


class _EventReader:
    """Converts the lines of one program, in order."""

    def __init__(self, build: Builder) -> None:
        self.build = build

    def take(self, line: Json) -> None:
        raise NotImplementedError

    def end(self) -> None:
        """Convert what can be converted only after the last line."""


class _CodexReader(_EventReader):
    def __init__(self, build: Builder) -> None:
        super().__init__(build)
        self._started: dict[str, Json] = {}

    def take(self, line: Json) -> None:
        build, kind, item = self.build, text_of(line.get("type")), object_of(line.get("item"))
        build.item(item.get("id"))
        if kind == "item.completed":
            self._started.pop(text_of(item.get("id")), None)
            self._item(item)
        elif kind in _ITEMS:
            self._started[text_of(item.get("id"))] = item
            build.lose(REPEATED)
        elif kind == "turn.completed":
            used = object_of(line.get("usage"))
            cached = used.get("cached_input_tokens")
            usage = read_usage(used)
            if usage and type(cached) is int:
                usage["input_tokens"] = max(0, usage["input_tokens"] - cached)
                usage["cache_read_input_tokens"] = cached
            if not usage or not build.charge(usage):
                build.lose(LONE_COUNT)
        elif kind == "thread.started":
            build.keep()
        else:
            build.lose(FAILED_RESPONSE if kind in ("error", "turn.failed") else STATE)

    def end(self) -> None:
        for item in self._started.values():
            if item.get("type") in ("command_execution", "mcp_tool_call"):
                self._call(item, is_done=False)

    def _item(self, item: Json) -> None:
        build, at = self.build, self.build.time(None)
        match item.get("type"):
            case "agent_message" | "assistant_message":
                build.answer([make_text(text_of(item.get("text")))], at)
            case "reasoning":
                build.answer([make_thinking(text_of(item.get("text")))], at)
            case "command_execution" | "file_change" | "mcp_tool_call" | "web_search":
                self._call(item, is_done=True)
            case "error":
                build.lose(FAILED_RESPONSE)
            case kind:
                build.lose(f"item of type {text_of(kind) or 'none'}")

    def _call(self, item: Json, *, is_done: bool) -> None:
        build, at, kind = self.build, self.build.time(None), item.get("type")
        arguments: Json = {}
        result = ""
        if kind == "command_execution":
            name, arguments = "Bash", {"command": text_of(item.get("command"))}
            result = text_of(item.get("aggregated_output"))
        elif kind == "mcp_tool_call":
            name = f"mcp__{text_of(item.get('server'))}__{text_of(item.get('tool'))}"
            arguments = object_of(item.get("arguments"))
            result = _text(item.get("result") or item.get("error"))
        elif kind == "file_change":
            name, arguments = "apply_patch", {"changes": list_of(item.get("changes"))}
            result = text_of(item.get("status"))
        else:
            name, arguments = "web_search", {"query": text_of(item.get("query"))}
        call_id = text_of(item.get("id")) or "item"
        build.answer([call(call_id, name, arguments)], at)
        if is_done:
            failed = item.get("status") == "failed" or item.get("exit_code") not in (None, 0)
            build.result(call_id, result, at, is_error=failed)


class _GeminiReader(_EventReader):
    """Converts the events of Gemini CLI. The model's messages arrive in pieces (`delta`)."""

    def __init__(self, build: Builder) -> None:
        super().__init__(build)
        self._model = self._said = ""
        self._pieces = 0

    def take(self, line: Json) -> None:
        build, kind, role = self.build, line.get("type"), line.get("role")
        text = text_of(line.get("content"))
        if kind == "message" and role == "assistant":
            if not line.get("delta"):
                self.end()
            build.time(line.get("timestamp"))
            self._said += text
            self._pieces += 1
            return
        self.end()
        build.item()
        at = build.time(line.get("timestamp"))
        match kind:
            case "message" if role == "user":
                build.say(text, at)
            case "tool_use":
                name, value = text_of(line.get("tool_name")), line.get("parameters")
                new_call = call(text_of(line.get("tool_id")), name, object_of(value))
                build.answer([new_call], at, model=self._model)
            case "tool_result":
                error = object_of(line.get("error")).get("message")
                output = text_of(line.get("output")) or text_of(error)
                failed = line.get("status") == "error"
                build.result(text_of(line.get("tool_id")), output, at, is_error=failed)
            case "init":
                self._model = text_of(line.get("model"))
                build.keep()
            case "error":
                build.lose(FAILED_RESPONSE)
            case "result":
                build.lose(RESULT)
            case _:
                build.lose(f"event of type {text_of(kind) or 'none'}")

    def end(self) -> None:
        """Add the response that consists of the pieces received so far; each piece is an item."""
        if self._pieces:
            for _ in range(self._pieces):
                self.build.item()
                self.build.keep()
            self.build.answer([make_text(self._said)], self.build.time(None), model=self._model)
        self._said, self._pieces = "", 0


class _DroidReader(_EventReader):
    def __init__(self, build: Builder) -> None:
        super().__init__(build)
        self._model = self._last = ""

    def take(self, line: Json) -> None:
        build, kind = self.build, line.get("type")
        build.item(line.get("id"))
        at = build.time(line.get("timestamp"))
        text = text_of(line.get("text")) or text_of(line.get("finalText"))
        match kind:
            case "message" if line.get("role") == "user":
                build.say(text, at)
            case "completion" if text == self._last:
                build.lose(REPEATED)
            case "message" | "completion":
                self._last = text
                build.answer([make_text(text)], at, model=self._model)
            case "tool_call":
                name, value = text_of(line.get("toolName")), object_of(line.get("parameters"))
                new_call = call(text_of(line.get("toolCallId")), name, value)
                build.answer([new_call], at, model=self._model)
            case "tool_result":
                failed = line.get("isError") is True
                result = _text(line.get("value"))
                build.result(text_of(line.get("toolCallId")), result, at, is_error=failed)
            case "system":
                self._model = text_of(line.get("model"))
                build.keep()
            case _:
                build.lose(FAILED_RESPONSE if kind == "error" else f"event of type {text_of(kind)}")


class _HookReader(_EventReader):
    """Converts hook logs. A result belongs to the oldest open call with the same name and input."""

    def __init__(self, build: Builder) -> None:
        super().__init__(build)
        self._open: list[tuple[Json, str]] = []

    def take(self, line: Json) -> None:
        build = self.build
        build.item()
        at = build.time(line.get("timestamp"))
        about = {key: line.get(key) for key in ("tool_name", "tool_input")}
        match line.get("type"):
            case "user":
                build.say(text_of(line.get("content")), at)
            case "assistant":
                build.answer([make_text(text_of(line.get("content")))], at)
            case "tool_use":
                new_call = build.make_call(text_of(line.get("tool_name")), line.get("tool_input"))
                self._open.append((about, new_call["id"]))
                build.answer([new_call], at)
            case "tool_result":
                open_call = next((pair for pair in self._open if pair[0] == about), None)
                self._open = [pair for pair in self._open if pair is not open_call]
                if open_call is None:
                    # The line names its call, which the program did not write before.
                    new_call = build.make_call(
                        text_of(line.get("tool_name")), line.get("tool_input")
                    )
                    build.answer([new_call], at)
                    open_call = (about, new_call["id"])
                output = object_of(line.get("tool_output"))
                content = output["output"] if set(output) == {"output"} else line.get("tool_output")
                build.result(open_call[1], _text(content), at)
            case kind:
                build.lose(f"event of type {text_of(kind) or 'none'}")


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if type(value) is str else encode_text(value)


FORMAT = Format(name="stream", title="event stream", recognizes=recognizes, convert=convert)
