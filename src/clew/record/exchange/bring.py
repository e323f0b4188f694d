"""Import a file from clew or another program as a session, and report what was lost.

The file is only read. The session is written completely to a staging folder, read back and then
renamed. An existing session is never changed.
"""

import tempfile
import uuid
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from msgspec import Struct

from clew.core.json_object import Json
from clew.core.messages.encoding import decode, encode
from clew.core.messages.errors import MisuseError, SessionError
from clew.core.messages.kinds import CHAIN, KINDS
from clew.record.exchange import codex, one_file, pi
from clew.record.exchange.conversion import Converted
from clew.record.exchange.export import METADATA
from clew.record.transcript import light
from clew.record.transcript.agent_record import AgentRecorder
from clew.record.transcript.belongings import give_agents, rename_session, write_file
from clew.record.transcript.files import Files
from clew.record.transcript.load import load
from clew.record.transcript.log import Log
from clew.record.transcript.paths import (
    SessionPaths,
    SessionPlace,
    find_session,
    get_own_dir,
    get_project_dir,
    get_sidecar,
    resolve_folder,
)
from clew.record.transcript.policy import Writer
from clew.record.transcript.record import Recorder
from clew.system.files import is_folder, is_there
from clew.version import VERSION

# The namespace for the IDs of foreign sessions, so that each of them is imported only once.
_SPACE = uuid.UUID("6f0c8a3e-52a4-5a0e-9c1b-7d1e2f3a4b5c")


# Members that belong to the metadata line itself and not to the subagent.
_OF_LINE = ("type", "agentId", "isSidechain")
# Formats for reading, with too little information for an import.
PAGES = (".md", ".markdown", ".html", ".htm")
PAGE = "this is a page for reading; import JSON or JSONL instead (see clew sessions export --help)"


class ImportedSession(Struct, frozen=True, kw_only=True):
    """An imported session: its path, its format, and the number of losses by reason."""

    session_id: str
    path: Path
    kind: str
    title: str
    messages: int
    agents: int
    losses: dict[str, int]


def bring(
    home: Path, source: Path, cwd: str, *, now: Callable[[], str], has_new_id: bool
) -> ImportedSession:
    """Import a file; with `has_new_id`, as a copy with a new ID."""
    data = source.read_bytes()
    document = _one_object(data)
    if one_file.is_one_file(document):
        converted = one_file.convert(document, _ids(data[:4096]))
        return _write(home, converted, cwd, now, data, has_new_id=has_new_id)
    lines, bad = _lines(data)
    if not lines and source.suffix.lower() in PAGES:
        raise SessionError(f"{source}: {PAGE}")
    if not lines:
        raise SessionError(f"{source}: contains no line with a JSON object")
    if pi.is_pi(lines[0]):
        converted = pi.convert(lines, _ids(data[:4096]))
    elif codex.is_codex(lines[0]):
        converted = codex.convert(lines, _ids(data[:4096]))
    elif any(_is_ours(line) for line in lines):
        return _copy(home, source, data, cwd, has_new_id=has_new_id)
    else:
        raise SessionError(f"{source}: not a session of clew, Claude Code, Codex or pi")
    if bad:
        converted.losses["invalid line (not a JSON object)"] = bad
    return _write(home, converted, cwd, now, data, has_new_id=has_new_id)


def _one_object(data: bytes) -> Any:
    try:
        return decode(data)
    except ValueError:
        return None


def _lines(data: bytes) -> tuple[list[Json], int]:
    entries: list[Json] = []
    bad = 0
    for raw in data.split(b"\n"):
        if raw.strip():
            value = _one_object(raw)
            if type(value) is dict:
                entries.append(value)
            else:
                bad += 1
    return entries, bad


def _is_ours(line: Json) -> bool:
    kind = KINDS.get(str(line.get("type")))
    return kind is not None and kind.place == CHAIN


def _ids(seed: bytes) -> Callable[[], str]:
    space = uuid.uuid5(_SPACE, seed.hex())
    numbers = count()
    # Shaped like version 4, because some readers accept no other.
    return lambda: str(uuid.UUID(int=uuid.uuid5(space, str(next(numbers))).int, version=4))


def _folder(home: Path, wanted: str, current_cwd: str) -> tuple[Path, str]:
    """Return the project folder and working folder for a session from the folder `wanted`.

    If `wanted` does not exist, the current folder takes its place.
    """
    cwd = wanted if wanted and is_folder(wanted) else current_cwd
    return get_project_dir(home, resolve_folder(cwd)), cwd


def _session_id(home: Path, wanted: str, seed: bytes, *, has_new_id: bool) -> str:
    if has_new_id:
        return str(uuid.uuid4())
    identifier = uuid.uuid5(_SPACE, wanted or seed.hex())
    session_id = (
        wanted.lower() if light.is_uuid(wanted) else str(uuid.UUID(int=identifier.int, version=4))
    )
    paths = find_session(home, session_id)
    if paths:
        raise SessionError(
            f"session {session_id} already exists: {paths[0]}; use --new-id to import a copy"
        )
    return session_id


def _write(
    home: Path,
    converted: Converted,
    current_cwd: str,
    now: Callable[[], str],
    seed: bytes,
    *,
    has_new_id: bool,
) -> ImportedSession:
    """Record the converted messages as a session."""
    session_id = _session_id(home, converted.source_id, seed[:4096], has_new_id=has_new_id)
    folder, cwd = _folder(home, converted.cwd, current_cwd)
    base = get_own_dir(home) / "importing"
    Files().make_folder(base)
    with tempfile.TemporaryDirectory(dir=base) as staging:
        paths = SessionPaths(home=home, cwd=cwd, session_id=session_id)
        paths.switch(session_id, Path(staging))
        log = Log()
        writer = Writer(
            session_id=session_id,
            cwd=cwd,
            version=VERSION,
            git_branch=converted.branch or "HEAD",
            entrypoint="import",
        )
        recorder = Recorder(paths=paths, log=log, writer=writer, now=now)
        _record(recorder, converted.messages, converted.losses)
        for agent in converted.agents:
            try:
                own = AgentRecorder(recorder, agent.agent_id)
            except ValueError as error:
                _lose(converted.losses, f"subagent: {error}")
                continue
            _record(own, agent.messages, converted.losses)
            if agent.metadata:
                write_file(get_sidecar(own.transcript), [encode(agent.metadata)])
        if converted.title:
            recorder.title(converted.title)
        for trouble in log.close().troubles:
            raise OSError(str(trouble))
        if not is_there(recorder.transcript):
            raise SessionError("the file contains no message")
        return _settle(
            SessionPlace(session_id=session_id, project_dir=Path(staging)), folder, converted
        )


def _record(recorder: Recorder, messages: list[Json], losses: dict[str, int]) -> None:
    for message in messages:
        try:
            recorder.record([message])
        except MisuseError as error:
            _lose(losses, f"invalid message: {error}")


def _lose(losses: dict[str, int], reason: str) -> None:
    losses[reason] = losses.get(reason, 0) + 1


def _copy(
    home: Path, source: Path, data: bytes, current_cwd: str, *, has_new_id: bool
) -> ImportedSession:
    """Import clew's own lines unchanged except for a new session ID; subagents get separate files."""
    ids = [s for line in _lines(data)[0] if type(s := line.get("sessionId")) is str]
    wanted = source.stem if light.is_uuid(source.stem) else next(iter(ids), "")
    session_id = _session_id(home, wanted, data[:4096], has_new_id=has_new_id)
    cwd = next((c for line in _lines(data)[0] if type(c := line.get("cwd")) is str), "")
    folder, _ = _folder(home, cwd, current_cwd)
    converted = Converted(kind="transcript", source_id=wanted)
    files: dict[str, list[bytes]] = {}
    about: dict[str, Json] = {}
    for raw in data.split(b"\n"):
        if not raw.strip():
            continue
        line = _one_object(raw)
        if type(line) is not dict:
            _lose(converted.losses, "invalid line (not a JSON object)")
            continue
        agent = line.get("agentId") if line.get("isSidechain") is True else None
        name = (
            agent
            if type(agent) is str and agent.replace("-", "").replace("_", "").isalnum()
            else ""
        )
        if name and line.get("type") == METADATA:
            about[name] = {k: v for k, v in line.items() if k not in _OF_LINE}
            continue
        files.setdefault(name, []).append(rename_session(raw, line, session_id))
    base = get_own_dir(home) / "importing"
    Files().make_folder(base)
    with tempfile.TemporaryDirectory(dir=base) as staging:
        place = SessionPlace(session_id=session_id, project_dir=Path(staging))
        for name, lines in files.items():
            path = place.agent(name) if name else place.transcript
            write_file(path, lines)
            if name in about:
                write_file(get_sidecar(path), [encode(about[name])])
        give_agents(source, place)
        if not is_there(place.transcript):
            raise SessionError(f"{source}: contains only subagents")
        return _settle(place, folder, converted)


def _settle(staged: SessionPlace, folder: Path, converted: Converted) -> ImportedSession:
    """Read the staged session back and move it into place.

    The transcript is moved last, because the other files belong to no session without it.
    """
    loaded = load(staged.transcript)
    if loaded.is_empty:
        raise SessionError("the file contains no conversation")
    files = Files()
    files.make_folder(folder)
    target = SessionPlace(session_id=staged.session_id, project_dir=folder)
    agents = len(list((staged.folder / "subagents").rglob("agent-*.jsonl")))
    if is_folder(staged.folder):
        staged.folder.rename(target.folder)
    staged.transcript.rename(target.transcript)
    files.sync_folder(folder)
    outline = light.read_outline(target.transcript)
    return ImportedSession(
        session_id=target.session_id,
        path=target.transcript,
        kind=converted.kind,
        title=outline.title if outline else "",
        messages=len(loaded.messages),
        agents=agents,
        losses=converted.losses,
    )
