"""Small sessions for tests: entries in the format of the transcript, one call per line."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

SESSION = "0b5c2a1e-7d4f-4e0a-9c57-1f2e3d4c5b6a"
AT = "2026-01-02T03:04:05.678Z"


def uid(name: str) -> str:
    """A UUID that can be read: `uid("a1")` is `…-0000000a1`."""
    return f"00000000-0000-4000-8000-{name.encode().hex():0>12}"[-36:]


def entry(kind: str, name: str, parent: str | None, **more: Any) -> dict[str, Any]:
    return {
        "parentUuid": uid(parent) if parent else None,
        "isSidechain": False,
        "userType": "external",
        "cwd": "/w",
        "sessionId": SESSION,
        "version": "2.1.328",
        "gitBranch": "main",
        "type": kind,
        "uuid": uid(name),
        "timestamp": AT,
        **more,
    }


def user(name: str, parent: str | None, content: Any = None, **more: Any) -> dict[str, Any]:
    said = name if content is None else content
    return entry("user", name, parent, message={"role": "user", "content": said}, **more)


def said(
    name: str, parent: str | None, *content: dict[str, Any], of: str | None = None, **more: Any
) -> dict[str, Any]:
    """An assistant's entry; `of` names the answer it is a part of."""
    blocks = list(content) or [{"type": "text", "text": name}]
    message = {
        "id": f"msg_{of or name}",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5-5",
        "content": blocks,
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 5},
    }
    return entry("assistant", name, parent, message=message, requestId=f"req_{of or name}", **more)


def call(tool: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{tool}", "name": "Bash", "input": {"command": tool}}


def result(name: str, parent: str | None, tool: str, **more: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": f"toolu_{tool}", "content": f"{tool} done"}
    source = {"sourceToolAssistantUUID": uid(parent)} if parent else {}
    return user(name, parent, [block], **source, **more)


def boundary(name: str, parent: str | None = None, **meta: Any) -> dict[str, Any]:
    more = {"compactMetadata": {"trigger": "manual", "preTokens": 9, **meta}}
    return entry("system", name, parent, subtype="compact_boundary", content="Compacted", **more)


def summary(name: str, parent: str | None) -> dict[str, Any]:
    return user(name, parent, "summary", isCompactSummary=True, isVisibleInTranscriptOnly=True)


def kept(head: str, tail: str, anchor: str) -> dict[str, Any]:
    return {
        "preservedSegment": {
            "headUuid": uid(head),
            "tailUuid": uid(tail),
            "anchorUuid": uid(anchor),
        }
    }


def last_prompt(leaf: str, *, explicit: bool = False, text: str = "p") -> dict[str, Any]:
    line: dict[str, Any] = {"type": "last-prompt", "leafUuid": uid(leaf), "sessionId": SESSION}
    return line | ({"explicit": True} if explicit else {"lastPrompt": text})


def talk(n: int, *, first: str | None = None, start: int = 1) -> list[dict[str, Any]]:
    """`n` prompts and answers in a row: u1 a1 u2 a2 ..."""
    lines: list[dict[str, Any]] = []
    parent = first
    for i in range(start, start + n):
        lines += [user(f"u{i}", parent), said(f"a{i}", f"u{i}")]
        parent = f"a{i}"
    return lines


def encoded(lines: Iterable[dict[str, Any] | bytes]) -> bytes:
    return b"".join(
        line
        if isinstance(line, bytes)
        else json.dumps(line, separators=(",", ":")).encode() + b"\n"
        for line in lines
    )


def write(folder: Path, lines: Iterable[dict[str, Any] | bytes], *, name: str = SESSION) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.jsonl"
    path.write_bytes(encoded(lines))
    return path


def names(messages: Iterable[dict[str, Any]]) -> str:
    """The readable names of messages, in order: `u1 a1 u2`."""
    found: list[str] = []
    for message in messages:
        tail = str(message.get("uuid", ""))[24:].lstrip("0")
        try:
            name = bytes.fromhex(tail if len(tail) % 2 == 0 else "0" + tail).decode()
            found.append(name if name.isalnum() else "?")
        except ValueError:
            found.append("?")
    return " ".join(found)
