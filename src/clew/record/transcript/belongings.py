"""The files other than the transcript that belong to a session, and how a copy gets them.

Files are copied and never shared, because each session writes to its own. The lines of a subagent's
transcript name their session, so they get the new session's ID. A line that is not an entry is
copied unchanged.

Decision: docs/decisions/325-copies-of-sessions.md
"""

import os
import re
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from clew.core.messages.encoding import decode, encode
from clew.core.messages.errors import SessionError
from clew.record.transcript.agents import AgentMetadata, encode_metadata, list_agents, read_metadata
from clew.record.transcript.copies import open_staging
from clew.record.transcript.files import Files
from clew.record.transcript.light import is_uuid
from clew.record.transcript.links import Node
from clew.record.transcript.loaded import LoadedSession
from clew.record.transcript.paths import AGENT, SessionPlace, get_sidecar, get_task_list_dir
from clew.record.transcript.recovery import list_copies
from clew.record.transcript.source import TranscriptSource, open_source
from clew.system.files import (
    is_file,
    is_folder,
    is_link,
    is_there,
    open_only_files,
    read_content,
    require_open_folder,
)

BUFFER_BYTES = 1 << 20
LEADS_OUT = (
    "{link} is a symlink. A session outside the config home must not contain links: "
    "replace the link with a copy, or delete it"
)
# The IDs of tool calls and of the agents and tasks they started, as entries spell them.
_IDS = re.compile(rb'"(?:id|agentId|runId|taskId)":"([^"\\]+)"')
_RESULTS = re.compile(rb"/tool-results/([\w.-]+)")
# Fields of an agent's sidecar: the session in which it was working when it was copied, and the
# session whose agent works in the same worktree.
LEFT_IN, SHARED_WITH = "leftIn", "sharedWith"


def refuse_links(transcript: Path, home: Path) -> None:
    """Raise `SessionError` if a session outside the config home has files that are links.

    Such a session may be someone else's, and clew reads its files without asking.
    """
    if Path(os.path.realpath(transcript)).is_relative_to(os.path.realpath(home)):
        return
    waiting = [transcript.with_suffix("")]
    while waiting:
        place = waiting.pop()
        if is_link(place):
            raise SessionError(LEADS_OUT.format(link=place))
        if not is_folder(place):
            continue
        for entry in os.scandir(place):
            if entry.is_symlink():
                raise SessionError(LEADS_OUT.format(link=entry.path))
            if entry.is_dir():
                waiting.append(Path(entry.path))


def find_mentioned_ids(loaded: LoadedSession, last: Node) -> set[str]:
    """Return the IDs mentioned in a session's file up to and including an entry.

    IDs on other branches and in compacted history are included, because the files in a working
    folder have only one history.
    """
    with open_source(loaded.path, loaded.copies) as source:
        return spoken_of(raw for _, _, raw in source.lines(0, last.at + last.size))


def spoken_of(lines: Iterable[bytes]) -> set[str]:
    """Return the IDs of tool calls and agents in the lines."""
    return {
        identifier.decode("utf-8", "replace") for line in lines for identifier in _IDS.findall(line)
    }


# The names of outputs of background tasks begin with this.
GROWING = "task-"


def share_with_new_session(
    source: Path,
    target: SessionPlace,
    lines: Iterable[bytes],
    *,
    home: Path,
    spoken: Container[str] | None = None,
) -> list[Path]:
    """Call `share` for a session that has no transcript yet; all files are copied or none.

    Otherwise, the files of an interrupted copy would be found but would belong to no session.
    """
    if not is_folder(source.with_suffix("")):
        return share(source, target, lines, home=home, spoken=spoken)
    Files().make_folder(target.project_dir)
    with open_staging(target.transcript) as folder:
        place = SessionPlace(session_id=target.session_id, project_dir=folder)
        paths = share(source, place, lines, home=home, spoken=spoken)
        if is_folder(place.folder):
            place.folder.rename(target.folder)
    return [target.folder / path.relative_to(place.folder) for path in paths]


def share(
    source: Path,
    target: SessionPlace,
    lines: Iterable[bytes],
    *,
    home: Path,
    spoken: Container[str] | None = None,
) -> list[Path]:
    """Copy agents and tool results from the session in the file `source` to a derived session.

    Only the agents whose IDs are in `spoken` are copied (None: all of them), and the results
    that those agents or the copied `lines` name. The source session is not changed, and files
    that the target already has are kept. Return the transcripts of the copied agents.
    """
    paths, names = [], _results_in(lines)
    for agent, metadata in _agents_of(source, home, spoken):
        own = target.folder / agent.relative_to(source.with_suffix(""))
        if is_there(own):
            continue
        if metadata is not None:
            write_file(get_sidecar(own), [encode(encode_metadata(_beside(metadata, source.stem)))])
        beside = own.with_suffix(".new")
        with open_source(agent, list_copies(agent, home)) as reader:
            write_file(beside, _renamed(reader, target.session_id))
        # Rename at the end, so that a killed process leaves no partial agent file.
        beside.rename(own)
        with open_source(own) as reader:
            names |= _results_in(raw for _, _, raw in reader.lines(0))
        paths.append(own)
    give_results(source, target, names, is_own=source.is_relative_to(home))
    return paths


def _agents_of(
    source: Path, home: Path, spoken: Container[str] | None
) -> list[tuple[Path, AgentMetadata | None]]:
    """Return the agents whose IDs are in `spoken`, and the agents that those agents started."""
    paths = of_agents(source)
    if is_uuid(source.stem):
        paths = list_agents(SessionPlace(session_id=source.stem, project_dir=source.parent), home)
    agent_files = [(path, read_metadata(path, home)) for path in paths]
    begun_by = {
        _id_of(path): "" if metadata is None else _parent_of(metadata)
        for path, metadata in agent_files
    }
    known_ids = {
        _id_of(path)
        for path, metadata in agent_files
        if spoken is None
        or _id_of(path) in spoken
        or (metadata is not None and metadata.tool_use_id in spoken)
    }
    while child_ids := {
        agent_id
        for agent_id, by in begun_by.items()
        if by in known_ids and agent_id not in known_ids
    }:
        known_ids |= child_ids
    return [(path, metadata) for path, metadata in agent_files if _id_of(path) in known_ids]


def _id_of(agent: Path) -> str:
    return agent.stem.removeprefix(AGENT)


def _parent_of(metadata: AgentMetadata) -> str:
    return str(metadata.more.get("parentAgentId", ""))


def _beside(metadata: AgentMetadata, session_id: str) -> AgentMetadata:
    """Return an agent's metadata for a copy of its session."""
    extra = dict(metadata.more)
    if "finished" not in extra:
        extra[LEFT_IN] = session_id
    if metadata.worktree_path is not None and is_folder(metadata.worktree_path):
        extra[SHARED_WITH] = session_id
    return replace(metadata, more=extra)


def _results_in(lines: Iterable[bytes]) -> set[str]:
    return {name.decode("ascii", "replace") for line in lines for name in _RESULTS.findall(line)}


def of_agents(source: Path) -> list[Path]:
    """Return the transcripts of a session's subagents; the session's file may be anywhere.

    Raise `OSError` if the folder is not readable.
    """
    folder = source.with_suffix("") / "subagents"
    require_open_folder(folder)
    paths = folder.rglob(f"{AGENT}*.jsonl") if is_folder(folder) else ()
    return sorted(path for path in paths if is_file(path))


def give_agents(source: Path, target: SessionPlace) -> None:
    """Copy the subagents of the session in `source`, with their sidecars and group folders."""
    above = source.with_suffix("")
    for agent in of_agents(source):
        own = target.folder / agent.relative_to(above)
        with open_source(agent) as lines:
            write_file(own, _renamed(lines, target.session_id))
        if is_file(get_sidecar(agent)):
            write_file(get_sidecar(own), [read_content(get_sidecar(agent))])


def give_tasks(
    session_id: str, target: SessionPlace, *, home: Path, spoken: Container[str] | None = None
) -> None:
    """Copy the session's numbered tasks in their current state, and the next task number."""
    own = get_task_list_dir(home, target.session_id)
    for file in sorted(get_task_list_dir(home, session_id).glob("*")):
        is_wanted = file.suffix != ".json" or spoken is None or file.stem in spoken
        if is_wanted and file.name != ".lock" and is_file(file):
            write_file(own / file.name, [read_content(file)])


def give_results(
    source: Path,
    target: SessionPlace,
    names: Container[str] | None = None,
    *,
    is_own: bool = False,
) -> None:
    """Give the target the stored tool results: all, or those in `names` that it lacks.

    With `is_own`, both are clew sessions, which share a file where the disk allows it. Results
    never change: to erase text, the old file is replaced by a new one. Only the output of a
    background task may still grow.
    """
    folder = source.with_suffix("") / target.tool_results.name
    require_open_folder(folder)
    for file in sorted(folder.glob("*")):
        own = target.tool_results / file.name
        is_wanted = names is None or (file.name in names and not is_there(own))
        if not is_wanted or not is_file(file):
            continue
        may_link = is_own and not is_link(file) and not file.name.startswith(GROWING)
        if not (may_link and _link(file, own)):
            with open(file, "rb", opener=open_only_files) as stream:
                write_file(own, iter(lambda: stream.read(BUFFER_BYTES), b""))


def _link(file: Path, target: Path) -> bool:
    """Make `target` the same file as `file`; return False if the disk does not allow it."""
    files = Files()
    files.make_folder(target.parent)
    try:
        os.link(file, target, follow_symlinks=False)
    except OSError:
        return False
    files.sync_folder(target.parent)
    return True


def _renamed(source: TranscriptSource, session_id: str) -> Iterator[bytes]:
    for _, _, raw in source.lines(0):
        if raw.strip():
            try:
                yield rename_session(raw, decode(raw), session_id)
            except ValueError:
                yield raw + b"\n"


def rename_session(raw: bytes, line: Any, session_id: str) -> bytes:
    """Return a line with its session ID replaced, and otherwise unchanged."""
    if type(line) is not dict or line.get("sessionId", session_id) == session_id:
        return raw + b"\n"
    return encode(line | {"sessionId": session_id}) + b"\n"


def write_file(path: Path, pieces: Iterable[bytes]) -> None:
    """Write a file from pieces; its content may be larger than the available memory."""
    files = Files()
    files.make_folder(path.parent)
    fd = files.open(path)
    try:
        with open(fd, "wb", buffering=BUFFER_BYTES, closefd=False) as file:
            file.writelines(pieces)
        files.sync(fd)
    finally:
        files.close(fd)
