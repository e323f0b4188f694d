"""Convert Grok CLI histories: one line per message, with reasoning on separate lines.

Does no I/O.
"""

from collections.abc import Iterator

from clew.core.json_object import Json, list_of, object_of, text_of
from clew.core.messages.encoding import decode
from clew.record.exchange.formats.conversion import Builder, Converted, make_thinking
from clew.record.exchange.formats.frame import Begin, Format, Source
from clew.record.exchange.formats.messages import take_message
from clew.record.exchange.formats.reasons import INSTRUCTIONS

_KINDS = frozenset({"system", "user", "assistant", "reasoning", "tool_result", "backend_tool_call"})


def recognizes(source: Source) -> bool:
    lines = source.lines[:50]
    return (
        bool(lines)
        and all(text_of(line.get("type")) in _KINDS and "uuid" not in line for line in lines)
        and all("content" in line or "summary" in line or "kind" in line for line in lines)
        and any("tool_calls" in line or "model_id" in line or "prompt_index" in line
                for line in lines)
    )  # fmt: skip


def convert(source: Source, begin: Begin) -> Iterator[Converted]:
    try:
        about = object_of(decode(source.beside("summary.json") or b""))
    except ValueError:
        about = {}
    info = object_of(about.get("info"))
    build = begin(text_of(info.get("id")))
    build.out.cwd = text_of(info.get("cwd"))
    build.out.title = text_of(about.get("generated_title"))
    build.time(about.get("created_at"))
    for line in source.lines:
        build.item()
        _line(build, line)
    yield build.finished()


def _line(build: Builder, line: Json) -> None:
    at = build.time(line.get("timestamp"))
    match line.get("type"):
        case "system":
            build.lose(INSTRUCTIONS)
        case "reasoning":
            texts = [text_of(object_of(part).get("text")) for part in list_of(line.get("summary"))]
            if line.get("encrypted_content"):
                build.lose("encrypted reasoning")
            build.answer([make_thinking("\n".join(texts))], at)
        case "tool_result":
            call_id = text_of(line.get("tool_call_id"))
            build.result(call_id, text_of(line.get("content")), at)
        case "user" if line.get("synthetic_reason"):
            parts = [text_of(object_of(part).get("text")) for part in list_of(line.get("content"))]
            build.say("\n".join(parts), at, is_meta=True)
        case "user" | "assistant" as role:
            content = line.get("content")
            take_message(
                build,
                {"role": role, "content": content, "tool_calls": line.get("tool_calls")},
                at,
                model=text_of(line.get("model_id")),
            )
        case kind:
            build.lose(f"line of type {text_of(kind) or 'none'}")


FORMAT = Format(name="grok", title="Grok CLI", recognizes=recognizes, convert=convert)
