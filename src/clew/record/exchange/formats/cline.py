"""Convert Cline and Roo Code tasks: the API's messages or the screen's messages. Does no I/O.

`api_conversation_history.json` contains what the model received; in older tasks, tool calls are
text. `ui_messages.json` next to it contains what the user saw, and is converted only if that file
itself is imported.
"""

import re
from collections.abc import Iterator
from typing import Any

from clew.core.json_object import Json, list_of, object_of, text_of
from clew.core.messages.encoding import decode
from clew.record.exchange.formats.conversion import Builder, Converted, make_text, make_thinking
from clew.record.exchange.formats.frame import Begin, Format, Source
from clew.record.exchange.formats.messages import is_message, read_arguments, take_message
from clew.record.exchange.formats.reasons import PROMPT_IMAGE

_CWD = re.compile(r"# Current (?:Working|Workspace) Directory \(([^)\n]+)\)")
_SCREEN = frozenset({"ask", "say"})
SCREEN = "message that only describes the screen"


def recognizes(source: Source) -> bool:
    value = source.document
    if type(value) is not list or not value:
        return False
    if all(_is_screen(item) for item in value):
        return True
    return all(map(is_message, value)) and (
        "<task>" in _opening(value)
        or "<environment_details>" in _opening(value)
        or source.beside("ui_messages.json") is not None
        or source.beside("task_metadata.json") is not None
        or any("modelInfo" in item or "ts" in item for item in value)
    )


def _is_screen(item: Any) -> bool:
    kind = object_of(item).get("type")
    return text_of(kind) in _SCREEN and type(item.get("ts")) in (int, float) and kind in item


def _opening(value: list[Json]) -> str:
    content = value[0].get("content")
    texts = [text_of(object_of(part).get("text")) for part in list_of(content)]
    return "\n".join([text_of(content), *texts])


def convert(source: Source, begin: Begin) -> Iterator[Converted]:
    value = source.document
    build = begin("")
    if all(_is_screen(item) for item in value):
        screen = _Screen(build)
        for item in value:
            build.item()
            screen.take(item)
        yield build.finished()
        return
    if match := _CWD.search(_opening(value)):
        build.out.cwd = match[1]
    times = _read_times(source)
    for index, message in enumerate(value):
        build.item()
        at = build.time(message.get("ts", times[min(index, len(times) - 1)] if times else None))
        model = text_of(object_of(message.get("modelInfo")).get("modelId"))
        if type(message.get("reasoning_content")) is str and "thinking" in message:
            message = {k: v for k, v in message.items() if k != "thinking"}
        take_message(build, message, at, model=model)
    yield build.finished()


def _read_times(source: Source) -> list[Any]:
    """Return the time of the screen's first message, for tasks whose messages have no times."""
    try:
        screen = list_of(decode(source.beside("ui_messages.json") or b""))
    except ValueError:
        return []
    return [object_of(item).get("ts") for item in screen[:1]]


class _Screen:
    """Converts the screen's messages. The first text is the task."""

    def __init__(self, build: Builder) -> None:
        self._build = build
        self._usage: Json | None = None
        self._is_begun = False
        self._command = ""

    def take(self, item: Json) -> None:
        build = self._build
        at = build.time(item.get("ts"))
        kind = text_of(item.get("say")) or text_of(item.get("ask"))
        text = text_of(item.get("text"))
        if item.get("partial") is True:
            build.lose("unfinished message")
        elif kind in ("user_feedback", "user_feedback_diff", "task") or (
            kind == "text" and not self._is_begun
        ):
            self._is_begun = True
            if list_of(item.get("images")):
                build.lose(PROMPT_IMAGE)
            build.say(text, at)
        elif kind in ("text", "completion_result", "followup", "plan_mode_respond"):
            spoken = object_of(read_arguments(text))
            words = text_of(spoken.get("question")) or text_of(spoken.get("response")) or text
            build.answer([make_text(words)], at, usage=self._take_usage())
        elif kind == "reasoning":
            build.answer([make_thinking(text)], at)
        elif kind == "api_req_started":
            self._usage = _usage(object_of(read_arguments(text)))
            build.keep() if self._usage else build.lose(SCREEN)
        elif kind == "tool":
            tool = object_of(read_arguments(text))
            name = text_of(tool.get("tool"))
            arguments = {k: v for k, v in tool.items() if k not in ("tool", "content")}
            block = build.make_call(name, arguments)
            build.answer([block], at, usage=self._take_usage())
            build.result(block["id"], text_of(tool.get("content")), at)
        elif kind == "command":
            block = build.make_call("Bash", {"command": text})
            self._command = block["id"]
            build.answer([block], at, usage=self._take_usage())
        elif kind == "command_output" and build.is_open(self._command):
            build.result(self._command, text, at)
        else:
            build.lose(SCREEN)

    def _take_usage(self) -> Json | None:
        usage, self._usage = self._usage, None
        return usage


def _usage(counts: Json) -> Json | None:
    fields = {
        "input_tokens": counts.get("tokensIn"),
        "output_tokens": counts.get("tokensOut"),
        "cache_read_input_tokens": counts.get("cacheReads"),
        "cache_creation_input_tokens": counts.get("cacheWrites"),
    }
    counts = {key: n for key, n in fields.items() if type(n) is int and n >= 0}
    return {"input_tokens": 0, "output_tokens": 0} | counts if counts else None


FORMAT = Format(name="cline", title="Cline", recognizes=recognizes, convert=convert)
