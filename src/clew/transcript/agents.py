"""What is kept beside a subagent's transcript, so that it can go on as what it was.

A sidecar names the agent's type; an agent without one is not resumed as something else: its type is
unknown, and the caller is told so. Remote agents have a record of their own, below the session.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from clew.config.regular import content
from clew.config.write import make_private
from clew.transcript.load import Loaded, load
from clew.transcript.paths import Place, sidecar

_REMOTE = "remote-agents"


class AgentMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """What a sidecar says; `more` is everything else in it, kept as it was."""

    agent_type: str
    worktree_path: str | None = None
    description: str | None = None
    tool_use_id: str | None = None
    more: dict[str, Any] = {}


_FIELDS = {
    "agentType": "agent_type",
    "worktreePath": "worktree_path",
    "description": "description",
    "toolUseId": "tool_use_id",
}


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """Words to a subagent, or of one to the session (`to` is then not empty), written down before they
    were heard; `about` is all that the line says."""

    uuid: str
    content: Any
    to: str
    about: dict[str, Any]


class ResumedAgent(msgspec.Struct, frozen=True, kw_only=True):
    """A subagent's conversation and what it was; no metadata means its type is not known."""

    loaded: Loaded
    metadata: AgentMetadata | None


def written(metadata: AgentMetadata) -> dict[str, Any]:
    """The sidecar's content, as it is spelled."""
    named = {key: getattr(metadata, field) for key, field in _FIELDS.items()}
    return {**metadata.more, **{key: value for key, value in named.items() if value is not None}}


def write_metadata(agent_transcript: Path, metadata: AgentMetadata) -> None:
    _write(sidecar(agent_transcript), written(metadata))


def read_metadata(agent_transcript: Path) -> AgentMetadata | None:
    """The sidecar's content; None where there is none or it names no type."""
    found = _read(sidecar(agent_transcript))
    texts = {field: found.pop(key, None) for key, field in _FIELDS.items()}
    known = {field: value for field, value in texts.items() if isinstance(value, str)}
    if "agent_type" not in known:
        return None
    return AgentMetadata(**known, more=found)


def resume_agent(agent_transcript: Path) -> ResumedAgent:
    return ResumedAgent(loaded=load(agent_transcript), metadata=read_metadata(agent_transcript))


def letters(agent_transcript: Path) -> list[Letter]:
    """All that were ever written down for an agent or by it, in their order."""
    found = []
    with agent_transcript.open("rb") as file:
        for line in file:
            if b'"queue-operation"' not in line:
                continue
            entry = entry_of(line)
            uuid = entry.get("messageUuid")
            if entry.get("type") == "queue-operation" and isinstance(uuid, str):
                to = entry.get("to")
                found.append(
                    Letter(
                        uuid=uuid,
                        content=entry.get("content"),
                        to=to if isinstance(to, str) else "",
                        about=entry,
                    )
                )
    return found


def unheard(agent_transcript: Path) -> list[Letter]:
    """Those to the agent that are no message of its conversation: it ended before it heard them."""
    waiting = {one.uuid: one for one in letters(agent_transcript) if not one.to}
    if waiting:
        with agent_transcript.open("rb") as file:
            for line in file:
                if b'"uuid"' in line:
                    waiting.pop(str(entry_of(line).get("uuid")), None)
    return list(waiting.values())


def entry_of(line: bytes) -> dict[str, Any]:
    """A line's entry; what is torn or no entry is an empty one."""
    try:
        found = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def agents(place: Place) -> list[Path]:
    """The transcripts of a session's subagents, grouped or not."""
    return sorted((place.folder / "subagents").rglob("agent-*.jsonl"))


def write_remote(place: Place, task_id: str, metadata: dict[str, Any]) -> None:
    _write(_remote(place, task_id), metadata)


def read_remote(place: Place, task_id: str) -> dict[str, Any] | None:
    return _read(_remote(place, task_id)) or None


def remote_agents(place: Place) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each remote agent of the session: the id of its task and what is known of it."""
    for path in sorted((place.folder / _REMOTE).glob("*.meta.json")):
        found = _read(path)
        if found:
            yield path.name.removesuffix(".meta.json"), found


def _remote(place: Place, task_id: str) -> Path:
    name = place.agent(task_id).stem.removeprefix("agent-")  # refuses what is no id
    return place.folder / _REMOTE / f"{name}.meta.json"


def _write(path: Path, said: dict[str, Any]) -> None:
    make_private(path.parent)
    beside = path.with_suffix(".new")
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(msgspec.json.encode(said))
    beside.rename(path)


def _read(path: Path) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(content(path))
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
