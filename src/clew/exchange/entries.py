"""Sessions as JSON: every line as it is, or one object for the whole session. Reads, never writes.

The one object is the form of R153 in tests/requirements.py: `version`, `state`, `messages`, `metadata`;
subagents stand beside as `agents`. Each form is read again by `clew sessions import`.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from clew.exchange.gather import agent_files, messages_of
from clew.exchange.redact import Redaction
from clew.messages.encoding import decode, encode
from clew.transcript import light
from clew.transcript.agents import read_metadata, written
from clew.transcript.load import load

Json = dict[str, Any]
VERSION = "2.0"
# The kind of the line that says what a subagent was, as hosts are told it.
METADATA = "agent_metadata"


def lines(path: Path, redaction: Redaction | None, *, subagents: bool) -> Iterator[bytes]:
    """Every line of the session, then every line of its subagents, each with its `agentId`; before
    those of one, what it was, as a line of its own.

    A line that loses nothing is the bytes that were written.
    """
    yield from _lines(path, redaction, "")
    if subagents:
        for agent in agent_files(path):
            name, said = agent.stem.removeprefix("agent-"), read_metadata(agent)
            if said is not None:
                told = {**written(said), "type": METADATA, "agentId": name, "isSidechain": True}
                yield encode(told if redaction is None else redaction.value(told)) + b"\n"
            yield from _lines(agent, redaction, name)


def _lines(path: Path, redaction: Redaction | None, agent: str) -> Iterator[bytes]:
    for raw in path.read_bytes().split(b"\n"):
        if not raw.strip():
            continue
        try:
            entry = decode(raw)
        except ValueError:
            entry = None
        if type(entry) is not dict:
            continue
        told = entry if redaction is None else redaction.value(entry)
        if agent and entry.get("agentId") != agent:
            told = told | {"agentId": agent, "isSidechain": True}
        yield (raw if told == entry else encode(told)) + b"\n"


def whole(path: Path, redaction: Redaction | None, *, subagents: bool, is_all: bool) -> Json:
    """The live conversation and what a list shows of it, in one object; `is_all`: from its beginning."""
    loaded = load(path, whole=True)
    messages = messages_of(path, is_all=True) if is_all else loaded.messages
    outline = light.outline(path)
    first = next((m for m in messages if type(m.get("cwd")) is str), {})
    stat = path.stat()
    found: Json = {
        "version": VERSION,
        "state": {
            "sessionId": path.stem,
            "title": outline.title if outline else None,
            "tag": outline.tag if outline else None,
            "leafUuid": loaded.leaf_uuid,
            "beside": loaded.side.current,
        },
        "messages": messages,
        "metadata": {
            "gitBranch": first.get("gitBranch"),
            "projectPath": first.get("cwd"),
            "created": outline.created_at if outline else None,
            "modified": datetime.fromtimestamp(stat.st_mtime, UTC).isoformat(),
            "messageCount": len(messages),
        },
    }
    if subagents:
        found["agents"] = [_agent(agent, is_all=is_all) for agent in agent_files(path)]
    if redaction is not None:
        found = redaction.value(found)
    return found


def _agent(path: Path, *, is_all: bool) -> Json:
    metadata = read_metadata(path)
    return {
        "agentId": path.stem.removeprefix("agent-"),
        "agentType": metadata.agent_type if metadata else None,
        "description": metadata.description if metadata else None,
        "toolUseId": metadata.tool_use_id if metadata else None,
        "metadata": written(metadata) if metadata else None,
        "messages": messages_of(path, is_all=is_all),
    }
