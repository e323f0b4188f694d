"""Convert Antigravity transcripts (`transcript.jsonl`), in which each line is a step. Does no I/O.

A step of the planner has text, thinking and calls. The steps of tools have no IDs: each belongs to
the planner's oldest open call or, if no call is open, becomes a call of its own.
"""

import re
from collections.abc import Iterator

from clew.core.json_object import Json, list_of, object_of, text_of
from clew.record.exchange.formats.conversion import Builder, Converted, make_text, make_thinking
from clew.record.exchange.formats.frame import Begin, Format, Source
from clew.record.exchange.formats.messages import read_arguments
from clew.record.exchange.formats.reasons import INSTRUCTIONS

_REQUEST = re.compile(r"<USER_REQUEST>\n?(.*?)\n?</USER_REQUEST>", re.DOTALL)
_INSTRUCTIONS = frozenset({"CONVERSATION_HISTORY", "EPHEMERAL_MESSAGE", "SYSTEM_MESSAGE"})
_KINDS = frozenset({"USER_INPUT", "PLANNER_RESPONSE"})


def recognizes(source: Source) -> bool:
    lines = source.lines[:50]
    is_known = any(text_of(line.get("type")) in _KINDS for line in lines)
    return is_known and all(
        "created_at" in line and text_of(line.get("type")).isupper() for line in lines
    )


def convert(source: Source, begin: Begin) -> Iterator[Converted]:
    build = begin("")
    open_calls: list[str] = []
    for line in source.lines:
        build.item(str(line.get("step_index", "")))
        _step(build, line, open_calls)
    yield build.finished()


def _step(build: Builder, line: Json, open_calls: list[str]) -> None:
    at, kind = build.time(line.get("created_at")), text_of(line.get("type"))
    content = text_of(line.get("content"))
    if line.get("truncated_fields"):
        build.lose("text that the other program shortened")
    match kind:
        case "USER_INPUT":
            match = _REQUEST.search(content)
            if match and match[0].strip() != content.strip():
                build.lose(INSTRUCTIONS)
            build.say(match[1] if match else content, at)
        case "PLANNER_RESPONSE":
            items = [object_of(item) for item in list_of(line.get("tool_calls"))]
            calls = [build.make_call(text_of(item.get("name")), _arguments(item)) for item in items]
            open_calls[:] = [call["id"] for call in calls]
            thought = make_thinking(text_of(line.get("thinking")))
            build.answer([thought, make_text(content), *calls], at)
        case "CHECKPOINT":
            build.compact(content, at)
        case _ if kind in _INSTRUCTIONS:
            build.lose(INSTRUCTIONS)
        case _:
            failed = kind == "ERROR_MESSAGE" or line.get("status") == "ERROR"
            if not open_calls and kind == "ERROR_MESSAGE":
                build.say(content, at, is_meta=True)
                return
            if not open_calls:
                call = build.make_call(kind.lower(), {})
                build.answer([call], at)
                open_calls.append(call["id"])
            build.result(open_calls.pop(0), content, at, is_error=failed)


def _arguments(item: Json) -> Json:
    """Return a call's arguments, decoding the values that are encoded as JSON text."""
    values = object_of(item.get("args")) or object_of(item.get("arguments"))
    return {key: read_arguments(value) for key, value in values.items()}


FORMAT = Format(name="antigravity", title="Antigravity", recognizes=recognizes, convert=convert)
