"""Convert pi sessions: a header, then a tree of entries by `id` and `parentId`. Does no I/O."""

from collections.abc import Iterator
from typing import Any

from clew.core.json_object import Json, list_of, object_of, text_of
from clew.record.exchange.formats.conversion import (
    Builder,
    Converted,
    call,
    make_picture,
    make_text,
    make_thinking,
)
from clew.record.exchange.formats.frame import Begin, Format, Source
from clew.record.exchange.formats.reasons import FAILED_RESPONSE, NO_TEXT, SETTINGS, SIGNATURE

# pi's tools and parameters, and clew's names for them where both mean the same.
TOOLS = {
    "bash": ("Bash", {}),
    "read": ("Read", {"path": "file_path"}),
    "write": ("Write", {"path": "file_path"}),
    "edit": ("Edit", {"path": "file_path", "oldText": "old_string", "newText": "new_string"}),
    "grep": ("Grep", {}),
}
_ROLES = frozenset({"user", "assistant", "toolResult", "bashExecution", "custom"})
_SILENT = frozenset({"thinking_level_change", "custom", "label", "model_change"})


def recognizes(source: Source) -> bool:
    head = source.first
    if type(head.get("id")) is not str or not (head.get("type") == "session" or _is_entry(head)):
        return False
    kinds = [line.get("type") for line in source.lines[1:50]]
    return all(type(kind) is str and "/" not in kind for kind in kinds)


def _is_entry(line: Json) -> bool:
    """Return whether a line is a message of a session whose beginning is missing."""
    role = object_of(line.get("message")).get("role")
    return line.get("type") == "message" and role in _ROLES and "timestamp" in line


def convert(source: Source, begin: Begin) -> Iterator[Converted]:
    """Convert the tree of entries: the branch written last is the live one."""
    head, *entries = source.lines
    if head.get("type") == "session":
        build = begin(text_of(head.get("id")))
        build.item()
        build.keep()
    else:
        build = begin("")
        entries = [head, *entries]
    build.time(head.get("timestamp"))
    build.out.cwd = text_of(head.get("cwd"))
    # The first and last message of each entry, by the entry's ID.
    starts: dict[str, str | None] = {}
    ends: dict[str, str | None] = {}
    for entry in entries:
        build.item(entry.get("id"))
        identifier, follows = text_of(entry.get("id")), build.last
        if "parentId" in entry:
            # An unknown parent means the previous entry: forks of pi refer to headers and calls.
            parent = entry["parentId"]
            follows = None if parent is None else ends.get(text_of(parent), build.last)
            build.follow(follows)
        count = len(build.out.messages)
        if entry.get("type") == "compaction":
            first_kept = starts.get(text_of(entry.get("firstKeptEntryId")))
            at = build.time(entry.get("timestamp"))
            build.compact(text_of(entry.get("summary")), at, kept_from=first_kept)
        else:
            _entry(build, entry)
        is_new = len(build.out.messages) > count
        ends[identifier] = build.last if is_new else follows
        starts[identifier] = build.out.messages[count]["uuid"] if is_new else None
    yield build.finished()


def _entry(build: Builder, entry: Json) -> None:
    at = build.time(entry.get("timestamp"))
    match entry.get("type"):
        case "message":
            _message(build, object_of(entry.get("message")), at)
        case "custom_message":
            build.user(_blocks(build, entry.get("content")), at, is_meta=True)
        case "branch_summary":
            build.say(text_of(entry.get("summary")), at, is_meta=True)
        case "session_info":
            build.out.title = text_of(entry.get("name"))
            build.keep()
        case kind:
            build.lose(
                SETTINGS if text_of(kind) in _SILENT else f"entry of type {text_of(kind) or 'none'}"
            )


def _message(build: Builder, message: Json, at: str) -> None:
    match message.get("role"):
        case "user":
            build.user(_blocks(build, message.get("content")), at)
        case "assistant":
            usage, cost = _usage(object_of(message.get("usage")))
            build.answer(
                _said(build, message),
                at,
                model=text_of(message.get("model")),
                usage=usage,
                cost_usd=cost,
            )
            if message.get("errorMessage"):
                build.lose(FAILED_RESPONSE)
        case "toolResult":
            build.result(
                text_of(message.get("toolCallId")),
                _blocks(build, message.get("content")),
                at,
                is_error=message.get("isError") is True,
            )
        case "bashExecution":
            words = (
                f"<bash-input>{text_of(message.get('command'))}</bash-input>\n"
                f"<bash-stdout>{text_of(message.get('output'))}</bash-stdout>"
            )
            build.user([make_text(words)], at, is_meta=True)
        case "custom" | "hookMessage":
            build.user(_blocks(build, message.get("content")), at, is_meta=True)
        case role:
            build.lose(f"message with role {text_of(role) or 'none'}")


def _said(build: Builder, message: Json) -> list[Json]:
    blocks: list[Json] = []
    is_theirs = message.get("provider") == "anthropic"
    content = message.get("content")
    parts = [make_text(content)] if type(content) is str else list_of(content)
    for part in map(object_of, parts):
        match part.get("type"):
            case "text":
                blocks.append(make_text(text_of(part.get("text"))))
            case "thinking":
                signature = text_of(part.get("thinkingSignature")) if is_theirs else ""
                blocks.append(make_thinking(text_of(part.get("thinking")), signature))
                if not signature:
                    build.lose(SIGNATURE)
            case "toolCall":
                name = text_of(part.get("name"))
                ours, renamed = TOOLS.get(name, (name, {}))
                arguments = object_of(part.get("arguments"))
                value = {renamed.get(key, key): item for key, item in arguments.items()}
                blocks.append(call(text_of(part.get("id")), ours, value))
            case kind:
                build.lose(f"content of type {text_of(kind) or 'none'}")
    return blocks


def _blocks(build: Builder, content: Any) -> list[Json]:
    if type(content) is str:
        return [make_text(content)]
    blocks: list[Json] = []
    for part in map(object_of, list_of(content)):
        if part.get("type") == "text":
            blocks.append(make_text(text_of(part.get("text"))))
        elif part.get("type") == "image" and type(part.get("data")) is str:
            blocks.append(make_picture(text_of(part.get("mimeType")) or "image/png", part["data"]))
        else:
            build.lose(NO_TEXT)
    return blocks


def _usage(usage: Json) -> tuple[Json, Any]:
    names = {
        "input": "input_tokens",
        "output": "output_tokens",
        "cacheRead": "cache_read_input_tokens",
        "cacheWrite": "cache_creation_input_tokens",
    }
    counts = {ours: usage[key] for key, ours in names.items() if type(usage.get(key)) is int}
    cost = object_of(usage.get("cost")).get("total")
    return {"input_tokens": 0, "output_tokens": 0} | counts, cost


FORMAT = Format(name="pi", title="pi", recognizes=recognizes, convert=convert)
