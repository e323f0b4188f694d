"""Convert the database of Crush, and of opencode before version 0.1. Does no I/O.

A session with a parent belongs to a subagent; its ID may end with the ID of the call that started
it.
"""

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from clew.core.json_object import Json, list_of, object_of, text_of
from clew.core.messages.encoding import decode
from clew.record.exchange.formats.conversion import (
    Builder,
    Converted,
    call,
    make_picture,
    make_text,
    make_thinking,
    tool_id,
)
from clew.record.exchange.formats.frame import Begin, Format, Source
from clew.record.exchange.formats.messages import read_arguments
from clew.record.exchange.formats.reasons import FAILED_RESPONSE, INSTRUCTIONS, NO_TEXT


def recognizes(source: Source) -> bool:
    return source.has_tables(
        sessions="id parent_session_id title", messages="id session_id role parts"
    )


def convert(source: Source, begin: Begin) -> Iterator[Converted]:
    rows: dict[str, list[Json]] = {}
    for row in source.rows("messages"):
        rows.setdefault(text_of(row.get("session_id")), []).append(row)
    sessions = {text_of(row.get("id")): row for row in source.rows("sessions")}
    children: dict[str, list[str]] = {}
    for own, row in sessions.items():
        parent = text_of(row.get("parent_session_id"))
        children.setdefault(parent if parent in sessions else "", []).append(own)
    # The database is in a subfolder of the project's folder.
    folder = PurePath(source.folder)
    project = str(folder.parent) if folder.name in (".crush", ".opencode") else ""
    for own in children.get("", []):
        build = _convert(begin(own), sessions[own], rows.get(own, []))
        build.out.cwd = project
        waiting = list(children.get(own, []))
        while waiting:
            child = waiting.pop(0)
            waiting += children.get(child, [])
            agent = _convert(begin(child), sessions[child], rows.get(child, []))
            about = {"agentType": "agent", "description": text_of(sessions[child].get("title"))}
            if "$$" in child:
                about["toolUseId"] = tool_id(child.rpartition("$$")[2])
            build.add_agent(tool_id(child).replace("_", "-"), agent, about)
        yield build.finished()


def _convert(build: Builder, session: Json, rows: list[Json]) -> Builder:
    build.item()
    build.keep()
    build.out.title = text_of(session.get("title"))
    build.time(session.get("created_at"))
    for row in rows:
        at = build.time(row.get("created_at"))
        try:
            parts = list_of(decode(text_of(row.get("parts")).encode("utf-8", "replace")))
        except ValueError:
            parts = []
        _message(build, row, [part for part in parts if type(part) is dict], at)
    return build


def _message(build: Builder, row: Json, parts: list[Json], at: str) -> None:
    build.item(row.get("id"))
    role = row.get("role")
    if role == "system":
        build.lose(INSTRUCTIONS)
        return
    blocks: list[Json] = []
    for part in parts:
        data = object_of(part.get("data"))
        match part.get("type"):
            case "text":
                blocks.append(make_text(text_of(data.get("text"))))
            case "reasoning":
                signature = text_of(data.get("signature"))
                blocks.append(make_thinking(text_of(data.get("thinking")), signature))
            case "tool_call":
                arguments = read_arguments(data.get("input"))
                blocks.append(call(text_of(data.get("id")), text_of(data.get("name")), arguments))
            case "tool_result":
                _result(build, data, at)
            case "binary" | "image_url":
                if picture := _picture(build, data):
                    blocks.append(picture)
            case "finish":
                if data.get("reason") == "error":
                    build.lose(FAILED_RESPONSE)
            case "shell_command":
                command, output = text_of(data.get("command")), text_of(data.get("output"))
                words = f"<bash-input>{command}</bash-input>\n<bash-stdout>{output}</bash-stdout>"
                build.say(words, at, is_meta=True)
            case kind:
                build.lose(f"part of type {text_of(kind) or 'none'}")
    if role == "assistant" and row.get("is_summary_message") in (1, True):
        build.compact("\n".join(b["text"] for b in blocks if b["type"] == "text"), at)
    elif role == "assistant":
        content = [block for block in blocks if block["type"] != "image"]
        build.answer(content, at, model=text_of(row.get("model")))
    else:
        build.user([b for b in blocks if b["type"] in ("text", "image")], at)


def _result(build: Builder, data: Json, at: str) -> None:
    content: Any = text_of(data.get("content"))
    media, raw = text_of(data.get("mime_type")), text_of(data.get("data"))
    if media.startswith("image/") and raw:
        content = [make_text(content), make_picture(media, raw)]
    is_error = data.get("is_error") is True
    build.result(text_of(data.get("tool_call_id")), content, at, is_error=is_error)


def _picture(build: Builder, data: Json) -> Json | None:
    media = text_of(data.get("MIMEType")) or text_of(data.get("mime_type"))
    raw = text_of(data.get("Data")) or text_of(data.get("data"))
    if media.startswith("image/") and raw:
        return make_picture(media, raw)
    build.lose(NO_TEXT)
    return None


FORMAT = Format(name="crush", title="Crush", recognizes=recognizes, convert=convert)
