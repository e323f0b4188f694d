"""Convert Qwen Code chats: a tree of lines with `uuid`, `parentUuid` and content parts.

Older versions write files in the format of Gemini CLI, on which the program is based. Does no I/O.
"""

from collections.abc import Iterator

from clew.core.json_object import Json, list_of, object_of, text_of
from clew.record.exchange.formats.conversion import Builder, Converted
from clew.record.exchange.formats.frame import Begin, Format, Source
from clew.record.exchange.formats.gemini import Contents
from clew.record.exchange.formats.reasons import NO_SUMMARY

_KINDS = frozenset({"user", "assistant", "tool_result", "system"})


def recognizes(source: Source) -> bool:
    lines = source.lines
    return any(map(_is_own, lines[:50])) and all(
        text_of(line.get("type")) in _KINDS for line in lines[:50]
    )


def _is_own(line: Json) -> bool:
    has_id = type(line.get("uuid")) is str and type(line.get("sessionId")) is str
    return has_id and type(object_of(line.get("message")).get("parts")) is list


def convert(source: Source, begin: Begin) -> Iterator[Converted]:
    lines = source.lines
    ids = (text_of(line.get("sessionId")) for line in lines)
    build = begin(next(filter(None, ids), ""))
    reader = Contents(build)
    ends: dict[str, str | None] = {}
    lines_by_id: dict[str, Json] = {}
    for line in lines:
        build.item(line.get("uuid"))
        identifier, parent = text_of(line.get("uuid")), line.get("parentUuid")
        if lines_by_id.setdefault(identifier, line) != line:
            # Some responses consist of several lines.
            follows = ends[identifier]
        elif identifier in ends:
            build.lose("line with a duplicate ID")
            continue
        else:
            follows = None if parent is None and not ends else ends.get(text_of(parent), build.last)
        if follows != build.leaf:
            build.follow(follows)
        count = len(build.out.messages)
        _line(build, reader, line)
        ends[identifier] = build.last if len(build.out.messages) > count else follows
    yield build.finished()


def _line(build: Builder, reader: Contents, line: Json) -> None:
    at = build.time(line.get("timestamp"))
    build.out.cwd = build.out.cwd or text_of(line.get("cwd"))
    build.out.branch = build.out.branch or text_of(line.get("gitBranch"))
    if line.get("type") == "system":
        _system(build, line, at)
        return
    result = object_of(line.get("toolCallResult"))
    reader.take(
        object_of(line.get("message")),
        at,
        model=text_of(line.get("model")),
        usage=_usage(object_of(line.get("usageMetadata"))),
        is_meta=line.get("type") == "user" and line.get("subtype") == "notification",
        is_error=result.get("status") in ("error", "cancelled"),
    )


def _system(build: Builder, line: Json, at: str) -> None:
    subtype, payload = text_of(line.get("subtype")), object_of(line.get("systemPayload"))
    if subtype == "custom_title":
        build.out.title = text_of(payload.get("customTitle")) or build.out.title
        build.keep()
    elif subtype == "rewind":
        build.rewind(build.leaf)
        build.keep()
    elif subtype == "chat_compression":
        history = [object_of(content) for content in list_of(payload.get("compressedHistory"))]
        parts = list_of(history[0].get("parts")) if history else []
        summary = "\n".join(text_of(object_of(part).get("text")) for part in parts)
        if summary.strip():
            build.compact(summary, at)
        else:
            build.lose(NO_SUMMARY)
    else:
        build.lose(f"note from the other program ({subtype or 'no subtype'})")


def _usage(counts: Json) -> Json | None:
    counts = {key: n for key, n in counts.items() if type(n) is int and n >= 0}
    if not counts:
        return None
    cached = counts.get("cachedContentTokenCount", 0)
    return {
        "input_tokens": max(0, counts.get("promptTokenCount", 0) - cached),
        "cache_read_input_tokens": cached,
        "output_tokens": counts.get("candidatesTokenCount", 0)
        + counts.get("thoughtsTokenCount", 0),
    }


FORMAT = Format(name="qwen", title="Qwen Code", recognizes=recognizes, convert=convert)
