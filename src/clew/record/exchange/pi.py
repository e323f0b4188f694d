"""Convert pi sessions: a header, then a tree of entries by `id` and `parentId`. Pure."""

from collections.abc import Callable, Iterable
from typing import Any

from clew.core.json_object import Json, list_of, object_of, text_of
from clew.record.exchange.conversion import (
    Builder,
    Converted,
    call,
    make_picture,
    make_thinking,
)

# pi's tools and parameters, and clew's names for them where both mean the same.
_TOOLS = {
    "bash": ("Bash", {}),
    "read": ("Read", {"path": "file_path"}),
    "write": ("Write", {"path": "file_path"}),
    "edit": ("Edit", {"path": "file_path", "oldText": "old_string", "newText": "new_string"}),
    "grep": ("Grep", {}),
}
_SILENT = frozenset({"thinking_level_change", "custom", "label", "session_info", "model_change"})


def is_pi(first: Json) -> bool:
    return first.get("type") == "session" and type(first.get("id")) is str


def convert(lines: Iterable[Json], new_uuid: Callable[[], str]) -> Converted:
    """Convert the most recent branch; messages on other branches are counted as losses."""
    listed = list(lines)
    head = listed[0]
    build = Builder("pi", text_of(head.get("id")), new_uuid)
    build.out.cwd = text_of(head.get("cwd"))
    branch = _branch(listed[1:])
    others = sum(e.get("type") == "message" for e in listed[1:]) - sum(
        e.get("type") == "message" for e in branch
    )
    if others:
        build.lose("message of another branch", others)
    for entry in listed[1:]:
        if entry.get("type") == "session_info":
            build.out.title = text_of(entry.get("name"))
    for entry in branch:
        _entry(build, entry)
    return build.finished()


def _branch(entries: list[Json]) -> list[Json]:
    """Return the path from the root to the last entry; a first-version file is a single branch."""
    by_id = {e["id"]: e for e in entries if type(e.get("id")) is str}
    if not by_id:
        return entries
    branch: list[Json] = []
    at: Any = next(reversed(by_id.values()))
    seen: set[str] = set()
    while at is not None and at["id"] not in seen:
        seen.add(at["id"])
        branch.append(at)
        at = by_id.get(text_of(at.get("parentId")))
    return branch[::-1]


def _entry(build: Builder, entry: Json) -> None:
    at = build.time(entry.get("timestamp"))
    match entry.get("type"):
        case "message":
            _message(build, object_of(entry.get("message")), at)
        case "custom_message":
            build.user(_blocks(build, entry.get("content")), at, is_meta=True)
        case "compaction" | "branch_summary" as kind:
            summary = [{"type": "text", "text": text_of(entry.get("summary"))}]
            build.user(summary, at, is_meta=True)
            build.lose(f"{kind} (summary imported as context, earlier history kept)")
        case kind:
            if text_of(kind) not in _SILENT:
                build.lose(f"entry of type {text_of(kind) or 'none'}")


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
                **({} if cost is None else {"costUSD": cost}),
            )
            if message.get("errorMessage"):
                build.lose("failed response, with its error")
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
            build.user([{"type": "text", "text": words}], at, is_meta=True)
        case "custom" | "hookMessage":
            build.user(_blocks(build, message.get("content")), at, is_meta=True)
        case role:
            build.lose(f"message of role {text_of(role) or 'none'}")


def _said(build: Builder, message: Json) -> list[Json]:
    blocks: list[Json] = []
    is_theirs = message.get("provider") == "anthropic"
    for part in map(object_of, list_of(message.get("content"))):
        match part.get("type"):
            case "text":
                blocks.append({"type": "text", "text": text_of(part.get("text"))})
            case "thinking":
                signature = text_of(part.get("thinkingSignature")) if is_theirs else ""
                blocks.append(make_thinking(text_of(part.get("thinking")), signature))
                if not signature:
                    build.lose("thinking signature (the text is shown but not sent)")
            case "toolCall":
                name = text_of(part.get("name"))
                ours, renamed = _TOOLS.get(name, (name, {}))
                arguments = object_of(part.get("arguments"))
                value = {renamed.get(key, key): item for key, item in arguments.items()}
                blocks.append(call(text_of(part.get("id")), ours, value))
            case kind:
                build.lose(f"content of type {text_of(kind) or 'none'}")
    return blocks


def _blocks(build: Builder, content: Any) -> list[Json]:
    if type(content) is str:
        return [{"type": "text", "text": content}]
    blocks: list[Json] = []
    for part in map(object_of, list_of(content)):
        if part.get("type") == "text":
            blocks.append({"type": "text", "text": text_of(part.get("text"))})
        elif part.get("type") == "image" and type(part.get("data")) is str:
            blocks.append(make_picture(text_of(part.get("mimeType")) or "image/png", part["data"]))
        else:
            build.lose("content that is neither text nor an embedded picture")
    return blocks


def _usage(usage: Json) -> tuple[Json, float | None]:
    names = {
        "input": "input_tokens",
        "output": "output_tokens",
        "cacheRead": "cache_read_input_tokens",
        "cacheWrite": "cache_creation_input_tokens",
    }
    counts = {ours: usage[key] for key, ours in names.items() if type(usage.get(key)) is int}
    cost = object_of(usage.get("cost")).get("total")
    cost_usd = float(cost) if isinstance(cost, int | float) else None
    return {"input_tokens": 0, "output_tokens": 0} | counts, cost_usd
