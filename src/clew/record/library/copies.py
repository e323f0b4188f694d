"""Forks of sessions, and grafts: parts of one session appended to another.

A fork keeps UUIDs and times. Only the session ID is new, and the first line names the original. The
entries of a graft get new UUIDs derived from the old ones, and each entry names its original.
"""

import os
import uuid as uuids
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from clew.core.json_object import Json
from clew.core.messages.errors import SessionError
from clew.record.library.branches import Branch, read_branch
from clew.record.transcript.belongings import (
    find_mentioned_ids,
    give_tasks,
    share,
    share_with_new_session,
    spoken_of,
)
from clew.record.transcript.copies import copy_messages
from clew.record.transcript.entries import encode
from clew.record.transcript.files import OPEN_ELSEWHERE, Files
from clew.record.transcript.header import FORMAT, require_known_format
from clew.record.transcript.links import Node
from clew.record.transcript.log import Log
from clew.record.transcript.paths import SessionPlace, home_of
from clew.record.transcript.policy import find_block_ids
from clew.version import VERSION


class Forked(Struct, frozen=True, kw_only=True):
    """The result of a fork."""

    path: Path
    messages: int
    title: str
    agents: int


class Grafted(Struct, frozen=True, kw_only=True):
    """The result of a graft."""

    messages: int
    agents: int


def fork(path: Path, uuid: str | None, *, title: str, at: str) -> Forked:
    """Create a fork of a session next to `path`, up to `uuid` or to the current leaf."""
    source = read_branch(path, uuid)
    if not source.messages:
        raise SessionError(f"session {path.stem} contains no conversation")
    session_id = str(uuids.uuid4())
    target = path.with_name(f"{session_id}.jsonl")
    fork_title = title or f"{_title(source)} (fork)"
    lines = [encode(line) + b"\n" for line in _lines(source, path, session_id, fork_title, at)]
    place, home = SessionPlace(session_id=session_id, project_dir=path.parent), home_of(path)
    spoken = None if uuid is None else find_mentioned_ids(source.loaded, source.nodes[-1])
    agents = share_with_new_session(path, place, lines, home=home, spoken=spoken)
    give_tasks(path.stem, place, home=home, spoken=spoken)
    write_new(target, lines)
    return Forked(path=target, messages=len(source.messages), title=fork_title, agents=len(agents))


def _lines(
    source_branch: Branch, path: Path, session_id: str, title: str, at: str
) -> Iterator[Json]:
    last = source_branch.nodes[-1].uuid
    yield {
        "type": "clew-session",
        "format": FORMAT,
        "sessionId": session_id,
        "version": VERSION,
        "cwd": next((m["cwd"] for m in source_branch.messages if type(m.get("cwd")) is str), ""),
        "timestamp": at,
        "forkedFrom": {"sessionId": path.stem, "messageUuid": last},
    }
    pairs = zip(source_branch.nodes, source_branch.messages, strict=True)
    yield from copy_messages(pairs, source_branch.loaded, session_id)
    for kind, line in source_branch.loaded.side.current.items():
        if kind not in ("clew-session", "custom-title", "cost-state"):
            yield line | {"sessionId": session_id}
    yield {"type": "custom-title", "customTitle": title, "sessionId": session_id}


def _title(source_branch: Branch) -> str:
    from clew.record.transcript import light

    outline = light.read_outline(source_branch.loaded.path)
    return outline.title if outline else source_branch.loaded.path.stem


def write_new(target: Path, lines: list[bytes]) -> None:
    """Create a file completely or not at all; an existing file is never overwritten."""
    files = Files()
    files.make_folder(target.parent)
    beside = target.with_suffix(".new")
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        os.link(beside, target)  # Fails if the target exists.
        files.sync_folder(target.parent)
    finally:
        beside.unlink()


def graft(target: Path, source: Path, first: str, last: str | None) -> Grafted:
    """Append part of `source`, from the prompt `first` through `last`, to `target`.

    Raise `SessionError` if the result would not be a valid conversation.
    """
    part = _range(read_branch(source, last), source, first)
    into = read_branch(target)
    known_ids = set(into.loaded.chain.links.index)
    space = uuids.UUID(target.stem)
    new_ids = {node.uuid: str(uuids.uuid5(space, node.uuid)) for node, _ in part}
    if not known_ids.isdisjoint(new_ids) or not known_ids.isdisjoint(new_ids.values()):
        raise SessionError(f"session {target.stem} already contains these messages")
    lines = []
    parent = into.loaded.leaf_uuid
    for node, message in part:
        lines.append(_grafted(node, message, parent, new_ids, source, target))
        parent = new_ids[node.uuid]
    encoded = [encode(line) + b"\n" for line in lines]
    log = Log()
    try:
        if not log.claim(target):
            raise SessionError(f"session {target.stem} {OPEN_ELSEWHERE}; close it first")
        place = SessionPlace(session_id=target.stem, project_dir=target.parent)
        agents = share(source, place, encoded, home=home_of(source), spoken=spoken_of(encoded))
        log.append(target, encoded)
        for trouble in log.flush().troubles:
            raise OSError(str(trouble))
    finally:
        log.close()
    return Grafted(messages=len(lines), agents=len(agents))


def _range(source_branch: Branch, source: Path, first: str) -> list[tuple[Node, Json]]:
    pairs = list(zip(source_branch.nodes, source_branch.messages, strict=True))
    begin = next((n for n, (node, _) in enumerate(pairs) if node.uuid == first), None)
    if begin is None:
        raise SessionError(
            f"message {first} is not an ancestor of the range's last message "
            f"in session {source.stem}"
        )
    part = pairs[begin:]
    opening = part[0][1]
    if opening.get("type") != "user" or find_block_ids(opening, "tool_result", "tool_use_id"):
        raise SessionError(
            "a range must begin with a prompt, so that no tool result loses its tool call"
        )
    if any(node.is_boundary for node, _ in part):
        raise SessionError(
            "a range must not contain a compaction, which would cut off the earlier history of the "
            "target session"
        )
    return part


def _grafted(
    node: Node,
    message: Json,
    parent: str | None,
    new_ids: dict[str, str],
    source: Path,
    target: Path,
) -> Json:
    old = message.get("parentUuid")
    pointer = message.get("sourceToolAssistantUUID")
    line = message | {
        "parentUuid": new_ids.get(old, parent) if type(old) is str else parent,
        "uuid": new_ids[node.uuid],
        "sessionId": target.stem,
        "graftedFrom": {"sessionId": source.stem, "messageUuid": node.uuid},
    }
    if type(pointer) is str and pointer in new_ids:
        line["sourceToolAssistantUUID"] = new_ids[pointer]
    return line


def append_beside(path: Path, line: Json) -> None:
    """Append a side line in a single write, even if another process has the session open."""
    require_known_format(path)
    files = Files()
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
    try:
        size = files.size(fd)
        torn = size and files.read_at(fd, 1, size - 1) != b"\n"
        files.write(fd, (b"\n" if torn else b"") + encode(line) + b"\n")
        files.sync(fd)
    finally:
        files.close(fd)
