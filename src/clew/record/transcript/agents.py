"""The sidecar file next to a subagent's transcript, which lets the subagent be resumed.

A sidecar names the subagent's type. A subagent without a sidecar is not resumed as some other type:
the caller learns that its type is unknown. If the session's folder is not writable, the sidecar is
written next to the transcript's own recovery file; `home` is the config home that contains the
recovery files. Remote agents have a separate record below the session's folder.

This module also reads the messages queued for a session or an agent, which are recorded before they
are delivered.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from clew.core.json_object import text_of
from clew.core.messages.encoding import decode_object
from clew.record.transcript.files import Files
from clew.record.transcript.loaded import LoadedSession
from clew.record.transcript.log import Log
from clew.record.transcript.paths import AGENT, SessionPlace, copy_name, get_sidecar, rescue_dirs
from clew.record.transcript.recovery import list_copies, load_with_unsaved
from clew.record.transcript.source import TranscriptSource, open_source
from clew.system.files import is_folder, make_private, read_content, require_open_folder

_REMOTE = "remote-agents"


class AgentMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a sidecar; `more` holds all other fields unchanged."""

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
    """A queued message to the session or a subagent, or, with `to`, from a subagent to the session.

    The message is recorded before it is delivered. `about` is the complete record.
    """

    uuid: str
    content: Any
    to: str
    about: dict[str, Any]


class ResumedAgent(msgspec.Struct, frozen=True, kw_only=True):
    """A subagent's transcript and sidecar; if `metadata` is None, its type is unknown."""

    loaded: LoadedSession
    metadata: AgentMetadata | None


def encode_metadata(metadata: AgentMetadata) -> dict[str, Any]:
    """Return the sidecar's content with the field names used in the file."""
    fields = {key: getattr(metadata, field) for key, field in _FIELDS.items()}
    return {**metadata.more, **{key: value for key, value in fields.items() if value is not None}}


def write_metadata(agent_transcript: Path, metadata: AgentMetadata, home: Path) -> None:
    """Write a subagent's sidecar.

    A failing disk does not stop the subagent; the failure is reported like unsaved lines.
    """
    own, fields = get_sidecar(agent_transcript), encode_metadata(metadata)
    try:
        write_fields(own, fields)
    except OSError:
        _rescue(copy_name(own), fields, home)
        return
    for copy in list_copies(own, home):
        with suppress(OSError):  # If this fails, the copy that remains is the older of the two.
            copy.unlink()


def _rescue(name: str, fields: dict[str, Any], home: Path) -> None:
    files = Files()
    for folder in rescue_dirs(home):
        with suppress(OSError):
            files.make_folder(folder)
            if files.is_private(folder):
                write_fields(folder / name, fields)
                return


def read_metadata(agent_transcript: Path, home: Path | None = None) -> AgentMetadata | None:
    """Return the sidecar's content, or None if the sidecar is missing or names no type.

    With `home`, recovery files are considered too, and the newest file is used.
    """
    own = get_sidecar(agent_transcript)
    fields = _read(max((own, *(list_copies(own, home) if home else ())), key=_written_at))
    texts = {field: fields.pop(key, None) for key, field in _FIELDS.items()}
    known_texts = {field: value for field, value in texts.items() if isinstance(value, str)}
    if "agent_type" not in known_texts:
        return None
    return AgentMetadata(**known_texts, more=fields)


def _written_at(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return -1


def resume_agent(agent_transcript: Path, home: Path) -> ResumedAgent:
    return ResumedAgent(
        loaded=load_with_unsaved(agent_transcript, home),
        metadata=read_metadata(agent_transcript, home),
    )


def read_letters(transcript: Path, home: Path) -> list[Letter]:
    """Return every queued message that was not withdrawn, in the order of the transcript."""
    with open_source(transcript, list_copies(transcript, home)) as source:
        return _read_letters(source)


def find_unheard(transcript: Path, home: Path) -> list[Letter]:
    """Return the queued messages that a session or agent had not received when it ended."""
    with open_source(transcript, list_copies(transcript, home)) as source:
        return [
            letter
            for letter in _read_letters(source)
            if not letter.to
            and source.last_line_with(f'"uuid":"{letter.uuid}"'.encode(), source.size) is None
        ]


def _read_letters(source: TranscriptSource) -> list[Letter]:
    entries: list[dict[str, Any]] = []
    # The source searches its bytes, so a transcript without queued messages costs little.
    before: int | None = source.size
    while before is not None:
        before = source.last_line_with(b'"queue-operation"', before)
        if before is not None:
            entries.append(decode_object(source.line_at(before)))
    by_id: dict[str, Letter] = {}
    for entry in reversed(entries):
        uuid = entry.get("messageUuid")
        if entry.get("type") != "queue-operation" or not isinstance(uuid, str):
            continue
        if entry.get("operation") == "enqueue":
            by_id[uuid] = Letter(
                uuid=uuid, content=entry.get("content"), to=text_of(entry.get("to")), about=entry
            )
        else:
            by_id.pop(uuid, None)
    return list(by_id.values())


def list_agents(place: SessionPlace, home: Path | None = None) -> list[Path]:
    """Return the transcripts of a session's subagents, including those in group folders.

    With `home`, the result includes subagents that exist only as recovery files. Without it,
    raise `OSError` if the folder is not readable.
    """
    if home is None:
        require_open_folder(place.folder / "subagents")
        return _saved(place)
    return list(dict.fromkeys([*_saved(place), *find_unsaved_agents(place, home)]))


def _saved(place: SessionPlace) -> list[Path]:
    folder = place.folder / "subagents"
    return sorted(folder.rglob(f"{AGENT}*.jsonl")) if is_folder(folder) else []


def find_unsaved_agents(place: SessionPlace, home: Path) -> list[Path]:
    """Return the transcripts of subagents whose recovery files contain unsaved data."""
    end = f".{place.session_id}.json"
    names = {
        copy.name.partition(end)[0].removeprefix(AGENT).removesuffix(".meta")
        for folder in rescue_dirs(home)
        for copy in folder.glob(f"{AGENT}*{end}*")
    }
    saved_paths = {path.stem.removeprefix(AGENT): path for path in _saved(place)} if names else {}
    paths = []
    for name in sorted(names):
        with suppress(ValueError):  # The name is not a valid agent name.
            path = saved_paths.get(name) or place.agent(name)
            if list_copies(path, home) or list_copies(get_sidecar(path), home):
                paths.append(path)
    return paths


def bring_home(agent_transcript: Path, log: Log, home: Path) -> None:
    """Move an agent's recovery files to the session's folder, if it is writable again."""
    log.claim(agent_transcript)
    log.release(agent_transcript)
    metadata = read_metadata(agent_transcript, home)
    if metadata is not None and list_copies(get_sidecar(agent_transcript), home):
        write_metadata(agent_transcript, metadata, home)


def find_agent(place: SessionPlace, home: Path, name: str) -> Path | None:
    """Return the transcript of the agent with this name or ID, or None.

    If several match, return the latest.
    """

    def is_meant(path: Path) -> bool:
        metadata = read_metadata(path, home)
        return path.stem == f"{AGENT}{name}" or (
            metadata is not None and metadata.more.get("name") == name
        )

    paths = [path for path in list_agents(place, home) if is_meant(path)]
    return max(paths, key=lambda path: _latest(path, home), default=None)


def _latest(path: Path, home: Path) -> int:
    return max(map(_written_at, (path, *list_copies(path, home))))


def write_remote(place: SessionPlace, task_id: str, metadata: dict[str, Any]) -> None:
    write_fields(_remote(place, task_id), metadata)


def read_remote(place: SessionPlace, task_id: str) -> dict[str, Any] | None:
    return _read(_remote(place, task_id)) or None


def read_remote_agents(place: SessionPlace) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the task ID and the stored metadata of each remote agent in the session.

    If the folder can't be read, yield none: the session continues without remote agents.
    """
    try:
        paths = sorted((place.folder / _REMOTE).glob("*.meta.json"))
    except OSError:
        return
    for path in paths:
        fields = _read(path)
        if fields:
            yield path.name.removesuffix(".meta.json"), fields


def _remote(place: SessionPlace, task_id: str) -> Path:
    name = place.agent(task_id).stem.removeprefix("agent-")  # Raises ValueError for an invalid ID.
    return place.folder / _REMOTE / f"{name}.meta.json"


def write_fields(path: Path, fields: dict[str, Any]) -> None:
    make_private(path.parent)
    beside = path.with_suffix(".new")
    try:
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(msgspec.json.encode(fields))
        beside.rename(path)
    except OSError:
        with suppress(OSError):
            beside.unlink()
        raise


def _read(path: Path) -> dict[str, Any]:
    try:
        return decode_object(read_content(path))
    except OSError:
        return {}
