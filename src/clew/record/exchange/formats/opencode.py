"""Convert opencode sessions: the export, the database, and the older folder of JSON files.

A message has an `info` object and parts. A session with a parent belongs to a subagent. The files
of a folder are found from the session's file (`storage/session/PROJECT/ses_ID.json`). Does no I/O.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from clew.core.json_object import Json, list_of, object_of, text_of
from clew.core.messages.encoding import decode
from clew.core.messages.errors import SessionError
from clew.record.exchange.formats.conversion import (
    Builder,
    Converted,
    call,
    make_picture,
    make_text,
    make_thinking,
)
from clew.record.exchange.formats.frame import Begin, Format, Source
from clew.record.exchange.formats.reasons import FAILED_RESPONSE, NO_TEXT

_SESSION_FILE = frozenset({"id", "title", "time"})
_SILENT = frozenset({"step-start", "step-finish", "snapshot", "patch", "agent", "retry", "subtask"})
FOLDER = "../..", "../../.."


def recognizes(source: Source) -> bool:
    if source.tables:
        return source.has_tables(
            session="id title", message="id session_id data", part="id message_id data"
        )
    value = object_of(source.document)
    return _is_export(value) or _is_session(value) or _is_part_of_one(value)


def _is_export(value: Json) -> bool:
    messages = value.get("messages")
    if not _is_id(object_of(value.get("info")).get("id"), "ses_") or type(messages) is not list:
        return False
    return all("info" in object_of(m) and "parts" in object_of(m) for m in messages)


def _is_id(value: Any, kind: str) -> bool:
    return type(value) is str and value.startswith(kind)


def _is_session(value: Json) -> bool:
    is_theirs = "projectID" in value or "directory" in value or "version" in value
    return "messages" not in value and set(value) >= _SESSION_FILE and is_theirs and (
        type(value.get("time")) is dict and type(value["id"]) is str
    )  # fmt: skip


def _is_part_of_one(value: Json) -> bool:
    has_session = type(value.get("sessionID")) is str and type(value.get("id")) is str
    return has_session and ("role" in value or type(value.get("messageID")) is str)


def convert(source: Source, begin: Begin) -> Iterator[Converted]:
    if source.tables:
        yield from _convert_database(source, begin)
        return
    value = object_of(source.document)
    if _is_export(value):
        infos = {text_of(value["info"]["id"]): value["info"]}
        messages = [(object_of(m["info"]), _objects(m["parts"])) for m in value["messages"]]
        yield from _convert_all(infos, lambda _: messages, begin)
    elif _is_session(value):
        yield from _convert_folder(source, value, begin)
    else:
        raise SessionError(
            f"{source.name}: contains only part of an opencode session; import the session file"
            f" (storage/session/*/ses_*.json)"
        )


def _objects(values: Any) -> list[Json]:
    return [value for value in list_of(values) if type(value) is dict]


def _convert_folder(source: Source, session: Json, begin: Begin) -> Iterator[Converted]:
    def read(path: str) -> Json:
        try:
            return object_of(decode(source.beside(path) or b""))
        except ValueError:
            return {}

    def messages(session_id: str) -> Iterator[tuple[Json, list[Json]]]:
        for folder in FOLDER:
            names = source.find(f"{folder}/message/{session_id}/*.json")
            names = names or source.find(f"{folder}/session/message/{session_id}/*.json")
            for info in sorted(map(read, names), key=_order):
                own = text_of(info.get("id"))
                parts = source.find(f"{folder}/part/{own}/*.json")
                parts = parts or source.find(f"{folder}/session/part/{session_id}/{own}/*.json")
                yield info, [read(name) for name in parts]
            if names:
                return

    yield from _convert_all({text_of(session["id"]): session}, messages, begin)


def _convert_database(source: Source, begin: Begin) -> Iterator[Converted]:
    parts: dict[str, list[Json]] = {}
    for row in source.rows("part"):
        data = _read_data(row.get("data")) | {"id": row.get("id")}
        parts.setdefault(text_of(row.get("message_id")), []).append(data)
    infos: dict[str, list[tuple[Json, list[Json]]]] = {}
    for row in source.rows("message"):
        own = text_of(row.get("id"))
        info = _read_data(row.get("data")) | {"id": own}
        info.setdefault("time", {"created": row.get("time_created")})
        listed = sorted(parts.get(own, []), key=lambda part: text_of(part.get("id")))
        infos.setdefault(text_of(row.get("session_id")), []).append((info, listed))
    sessions = {text_of(row.get("id")): row for row in source.rows("session")}

    def messages(session_id: str) -> list[tuple[Json, list[Json]]]:
        return sorted(infos.get(session_id, []), key=lambda pair: _order(pair[0]))

    yield from _convert_all(sessions, messages, begin)


def _order(info: Json) -> tuple[float, str]:
    created = object_of(info.get("time")).get("created")
    return (created if isinstance(created, int | float) else 0, text_of(info.get("id")))


def _read_data(value: Any) -> Json:
    try:
        return object_of(decode(text_of(value).encode("utf-8", "replace")))
    except ValueError:
        return {}


def _convert_all(
    sessions: dict[str, Json],
    messages: Callable[[str], Iterable[tuple[Json, list[Json]]]],
    begin: Begin,
) -> Iterator[Converted]:
    """Convert sessions; those with a parent become its subagents."""
    children: dict[str, list[str]] = {}
    for own, info in sessions.items():
        parent = text_of(info.get("parentID") or info.get("parent_id"))
        children.setdefault(parent if parent in sessions else "", []).append(own)

    def build(own: str) -> Builder:
        info = sessions[own]
        result = begin(own)
        result.item()
        result.keep()
        result.out.title = text_of(info.get("title"))
        result.out.cwd = text_of(info.get("directory"))
        reader = _MessageReader(result)
        for message, parts in messages(own):
            reader.take(message, parts)
        return result

    for own in children.get("", []):
        converted = build(own)
        waiting = list(children.get(own, []))
        while waiting:
            child = waiting.pop(0)
            waiting += children.get(child, [])
            about = {
                "agentType": text_of(sessions[child].get("agent")) or "task",
                "description": text_of(sessions[child].get("title")),
            }
            converted.add_agent(child.replace("_", "-"), build(child), about)
        yield converted.finished()


class _MessageReader:
    """Converts the messages of one session."""

    def __init__(self, build: Builder) -> None:
        self._build = build

    def take(self, info: Json, parts: list[Json]) -> None:
        build, time = self._build, object_of(info.get("time"))
        build.item(info.get("id"))
        at = build.time(time.get("created"))
        if info.get("role") == "user":
            build.keep()
            self._user(parts, at)
        elif info.get("role") == "assistant":
            build.out.cwd = build.out.cwd or text_of(object_of(info.get("path")).get("cwd"))
            build.keep()
            if info.get("error"):
                build.lose(FAILED_RESPONSE)
            self._assistant(info, parts, at)
        else:
            build.lose(f"message with role {text_of(info.get('role')) or 'none'}")

    def _user(self, parts: list[Json], at: str) -> None:
        build = self._build
        typed: list[Json] = []
        content: list[Json] = []
        for part in parts:
            build.item(part.get("id"))
            build.keep()
            match part.get("type"):
                case "text":
                    block = make_text(text_of(part.get("text")))
                    (content if part.get("synthetic") is True else typed).append(block)
                case "file":
                    if picture := _file(build, part):
                        typed.append(picture)
                case "compaction":
                    build.keep()
                case kind:
                    build.lose(f"part of type {text_of(kind) or 'none'}")
        build.user(typed, at)
        build.user(content, at, is_meta=True)

    def _assistant(self, info: Json, parts: list[Json], at: str) -> None:
        build = self._build
        if info.get("summary") is True:
            for _ in parts:
                build.item()
                build.keep()
            texts = [text_of(p.get("text")) for p in parts if p.get("type") == "text"]
            build.compact("\n".join(texts), at)
            return
        blocks: list[Json] = []
        results: list[tuple[str, Any, str, bool]] = []
        usage, cost = _usage(info)
        model = text_of(info.get("modelID")) or text_of(object_of(info.get("model")).get("modelID"))

        def flush() -> None:
            nonlocal usage
            if blocks:
                # A message's tokens are counted once, for its first response.
                build.answer(
                    blocks[:], at, model=model, usage=usage, cost_usd=cost if usage else None
                )
                usage = None
            for call_id, content, when, is_error in results:
                build.result(call_id, content, when, is_error=is_error)
            blocks.clear()
            results.clear()

        for part in parts:
            build.item(part.get("id"))
            build.keep()
            match part.get("type"):
                case "text":
                    blocks.append(make_text(text_of(part.get("text"))))
                case "reasoning":
                    blocks.append(make_thinking(text_of(part.get("text"))))
                case "tool":
                    block, result = self._tool(part, at)
                    blocks.append(block)
                    results += result
                case "step-start":
                    flush()
                    build.lose("step marker")
                case kind:
                    is_mark = text_of(kind) in _SILENT
                    build.lose(
                        "step marker" if is_mark else f"part of type {text_of(kind) or 'none'}"
                    )
        flush()

    def _tool(self, part: Json, at: str) -> tuple[Json, list[tuple[str, Any, str, bool]]]:
        build, state = self._build, object_of(part.get("state"))
        name = text_of(part.get("tool"))
        call_id = text_of(part.get("callID")) or text_of(part.get("id"))
        block = call(call_id, name, object_of(state.get("input")))
        when = build.time(object_of(state.get("time")).get("end"))
        if state.get("status") == "completed":
            content: Any = text_of(state.get("output"))
            pictures = [b for p in _objects(state.get("attachments")) if (b := _file(build, p))]
            content = [make_text(content), *pictures] if pictures else content
            return block, [(call_id, content, when or at, False)]
        if state.get("status") == "error":
            return block, [(call_id, text_of(state.get("error")), when or at, True)]
        build.lose("unfinished tool call")
        return block, []


def _file(build: Builder, part: Json) -> Json | None:
    head, _, data = text_of(part.get("url")).partition(";base64,")
    media = text_of(part.get("mime"))
    if media.startswith("image/") and head.startswith("data:") and data:
        return make_picture(media, data)
    build.lose(NO_TEXT)
    return None


def _usage(info: Json) -> tuple[Json | None, Any]:
    tokens = object_of(info.get("tokens"))
    cache = object_of(tokens.get("cache"))
    usage = {
        "input_tokens": tokens.get("input"),
        "output_tokens": tokens.get("output"),
        "cache_read_input_tokens": cache.get("read"),
        "cache_creation_input_tokens": cache.get("write"),
    }
    counts = {key: n for key, n in usage.items() if type(n) is int and n >= 0}
    if type(reasoning := tokens.get("reasoning")) is int:
        counts["output_tokens"] = counts.get("output_tokens", 0) + reasoning
    cost = info.get("cost")
    if not any(counts.values()):
        return None, None
    return {"input_tokens": 0, "output_tokens": 0} | counts, cost


FORMAT = Format(name="opencode", title="opencode", recognizes=recognizes, convert=convert)
