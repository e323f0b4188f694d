"""Import a file from clew or another program as sessions, and report what happened to each item.

The file is only read. A session is written completely to a staging folder, read back and then
renamed. An existing session is never changed.
"""

import contextlib
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable
from datetime import datetime
from hashlib import sha256
from itertools import count
from pathlib import Path, PurePath

from msgspec import Struct, to_builtins

from clew.core.json_object import Json, object_of, text_of
from clew.core.messages.encoding import encode
from clew.core.messages.errors import MisuseError, SessionError
from clew.core.messages.kinds import CHAIN, KINDS
from clew.record.exchange.export import METADATA
from clew.record.exchange.formats.conversion import Builder, Converted, ItemTally
from clew.record.exchange.formats.frame import Source
from clew.record.exchange.formats.registry import find_format
from clew.record.exchange.origins import (
    ExportRecord,
    digest_messages,
    find_origin,
    keep_origin,
)
from clew.record.exchange.source import make_source, read_json, read_lines, read_source
from clew.record.transcript import light
from clew.record.transcript.agent_record import AgentRecorder
from clew.record.transcript.belongings import (
    give_agents,
    refuse_links,
    rename_session,
    write_file,
)
from clew.record.transcript.files import Files
from clew.record.transcript.header import read_header
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

# The namespace of imported sessions' IDs, so that each session is imported only once.
_SPACE = uuid.UUID("6f0c8a3e-52a4-5a0e-9c1b-7d1e2f3a4b5c")


# Formats whose session IDs are used without the format's name, as earlier versions of clew did.
_BY_ID = frozenset({"codex", "pi", "one file"})
# Fields that belong to the metadata line itself and not to the subagent.
_OF_LINE = ("type", "agentId", "isSidechain")
# Formats for reading only, with too little information to import.
PAGES = (".md", ".markdown", ".html", ".htm")
PAGE = (
    "a page exported for reading can't be imported; import JSON or JSONL instead "
    "(see clew sessions export --help)"
)


class ImportedSession(Struct, frozen=True, kw_only=True):
    """An imported session: its path, its format, and the tally of the source's items.

    `ended_at` is the time of the last message, and `restored` the number of messages that were
    restored from the record of an export.
    """

    session_id: str
    path: Path
    kind: str
    title: str
    messages: int
    agents: int
    tally: ItemTally
    ended_at: str
    restored: int = 0

    @property
    def losses(self) -> dict[str, int]:
        """The numbers of items that were changed or left out, by reason."""
        return self.tally.losses


class RefusedSession(Struct, frozen=True, kw_only=True):
    """A session of a file that was not imported, and the reason.

    `known` is the session's earlier import, if there is one; `is_empty` means that the session has
    no messages.
    """

    source_id: str
    kind: str
    reason: str
    known: Path | None = None
    is_empty: bool = False


def bring(
    home: Path, source: Path, cwd: str, *, now: Callable[[], str], has_new_id: bool
) -> ImportedSession:
    """Import a file that contains one session.

    With `has_new_id`, the session is imported as a copy with a new ID.
    """
    imported, refused = bring_all(home, source, cwd, now=now, has_new_id=has_new_id)
    if refused or not imported:
        raise SessionError(refused[0].reason if refused else f"{source}: {EMPTY}")
    return imported[0]


def bring_all(
    home: Path,
    path: Path,
    cwd: str,
    *,
    now: Callable[[], str],
    has_new_id: bool,
    into: Path | None = None,
    mirror: Path | None = None,
) -> tuple[list[ImportedSession], list[RefusedSession]]:
    """Import all sessions of a file. Raise `SessionError` if its format is unknown.

    With `into`, the sessions are written to this folder, for a dry run. With `mirror`, they are
    written to this config home, which follows the source: a session that has changed is replaced.
    """
    source = read_source(path)
    found = find_format(source)
    if found is None:
        if any(map(_is_ours, source.lines)):
            copy = _copy(home, path, path.read_bytes(), cwd, has_new_id=has_new_id, mirror=mirror)
            return [copy], []
        raise SessionError(f"{path}: {_explain(source)}")
    imported: list[ImportedSession] = []
    refused: list[RefusedSession] = []
    for converted in found.convert(source, _begin(found.name, source)):
        if source.bad_lines and len(source.lines) > 1 and not found.is_text:
            converted.tally.leave_out(BAD_LINE, source.bad_lines)
        try:
            written = _write(
                home,
                converted,
                cwd,
                now,
                source=path,
                seed=_seed(source),
                has_new_id=has_new_id,
                into=into,
                mirror=mirror,
            )
            imported.append(written)
        except KnownSessionError as error:
            extended = None if into or mirror else _extend(error.path, converted, now)
            if extended is not None:
                imported.append(extended)
                continue
            known = RefusedSession(
                source_id=converted.source_id, kind=found.name, reason=str(error), known=error.path
            )
            refused.append(known)
        except SessionError as error:
            reason = RefusedSession(
                source_id=converted.source_id,
                kind=found.name,
                reason=str(error),
                is_empty=not converted.messages,
            )
            refused.append(reason)
    if not imported and not refused:
        raise SessionError(f"{path}: {EMPTY}")
    return imported, refused


def keep_export(home: Path, path: Path, form: str, data: bytes, *, target: Path) -> None:
    """Record the export at `target`, so that an import can restore the session."""
    source = make_source(target, data)
    found = find_format(source)
    if found is None or found.name != form:
        return
    (converted,) = found.convert(source, _begin(found.name, source))
    if converted.source_id:
        keep_origin(home, path, converted)


class KnownSessionError(SessionError):
    """The session at `path` was imported before."""

    def __init__(self, session_id: str, path: Path) -> None:
        super().__init__(
            f"session {session_id} already exists: {path}; use --new-id to import a copy"
        )
        self.path = path


def _date(path: Path, messages: list[Json]) -> str:
    """Set the time of an imported session's file to that of its last message, and return it.

    Otherwise, every list would show the session as the newest, and `--continue` would continue it.
    """
    at = text_of(messages[-1].get("timestamp"))
    with contextlib.suppress(ValueError, OverflowError):
        moment_s = datetime.fromisoformat(at).timestamp()
        os.utime(path, (moment_s, moment_s))
    return at


def _extend(path: Path, converted: Converted, now: Callable[[], str]) -> ImportedSession | None:
    """Append the messages that the source received since its import.

    Return None if there are none. A session that was changed in clew is not extended.
    """
    lines, _ = read_lines(path.read_bytes())
    written = [line["uuid"] for line in lines if _is_ours(line) and "uuid" in line]
    known, new = converted.messages[: len(written)], converted.messages[len(written) :]
    if not written or not new or [message["uuid"] for message in known] != written:
        return None
    home = path.parent.parent.parent
    loaded = load(path)
    first = loaded.messages[0]
    cwd, branch = text_of(first.get("cwd")), text_of(first.get("gitBranch"))
    paths = SessionPaths(home=home, cwd=cwd, session_id=path.stem)
    paths.switch(path.stem, path.parent)
    log = Log()
    writer = Writer(
        session_id=path.stem, cwd=cwd, version=VERSION, git_branch=branch, entrypoint="import"
    )
    recorder = Recorder(paths=paths, log=log, writer=writer, now=now)
    recorder.resume(loaded)
    _record(recorder, new, converted.parents, converted.tally, end=converted.end)
    for trouble in log.close().troubles:
        raise OSError(str(trouble))
    ended_at = _date(path, new)
    outline = light.read_outline(path)
    return ImportedSession(
        session_id=path.stem,
        path=path,
        kind=converted.kind,
        title=outline.title if outline else "",
        messages=len(new),
        agents=0,
        tally=converted.tally,
        ended_at=ended_at,
    )


EMPTY = "the file contains no messages"
BAD_LINE = "invalid line (not a JSON object)"
UNKNOWN = "not a session of clew, Claude Code or another known program"
PROMPTS = (
    "the file contains only prompts, without the responses; import the program's session files"
)
# The fields of a line in the list of prompts that Claude Code and Codex keep.
_PROMPT_LINES = ({"display", "timestamp", "project"}, {"session_id", "ts", "text"})


def _explain(source: Source) -> str:
    """Return why a source in an unknown format is refused."""
    if source.tables:
        return "not a database of a known program"
    if not source.lines and source.document is None:
        is_page = PurePath(source.name).suffix.lower() in PAGES
        return PAGE if is_page else "the file contains no JSON object"
    if any(names <= source.first.keys() for names in _PROMPT_LINES):
        return PROMPTS
    if source.lines and all(text_of(line.get("type")) in KINDS for line in source.lines):
        return EMPTY
    return UNKNOWN


def _is_ours(line: Json) -> bool:
    kind = KINDS.get(text_of(line.get("type")))
    has_place = kind is not None and kind.place == CHAIN
    return has_place and ("uuid" in line or type(line.get("message")) is dict)


def _seed(source: Source) -> str:
    # The beginning of a file does not change while the session grows.
    return source.text[:4096] or source.name


def _begin(kind: str, source: Source) -> Callable[..., Builder]:
    def begin(source_id: str, seed: str = "") -> Builder:
        build = Builder(kind, source_id, _ids(f"{kind} {source_id or seed or _seed(source)}"))
        if seed:
            build.out.seed = f"{seed} {_seed(source)}"
        return build

    return begin


def _ids(seed: str) -> Callable[[], str]:
    space = uuid.uuid5(_SPACE, seed.encode("utf-8", "replace").hex())
    numbers = count()
    # In the form of version 4, because some readers accept no other version.
    return lambda: str(uuid.UUID(int=uuid.uuid5(space, str(next(numbers))).int, version=4))


def _folder(
    home: Path, wanted: str, current_cwd: str, *, is_mirror: bool = False
) -> tuple[Path, str]:
    """Return the project folder and the working folder of a session that ran in `wanted`.

    If `wanted` does not exist, the current folder is used instead, except in a mirror.
    """
    cwd = wanted if wanted and (is_mirror or is_folder(wanted)) else current_cwd
    return get_project_dir(home, resolve_folder(cwd)), cwd


def _session_id(wanted: str, seed: str, *, has_new_id: bool) -> str:
    if has_new_id:
        return str(uuid.uuid4())
    if light.is_uuid(wanted):
        return wanted.lower()
    identifier = uuid.uuid5(_SPACE, wanted or seed.encode("utf-8", "replace").hex())
    return str(uuid.UUID(int=identifier.int, version=4))


def _find_known(home: Path, session_id: str, *, mirror: Path | None, digest: str) -> list[Path]:
    """Return the files of the earlier import that this one replaces; only a mirror replaces files.

    Raise `KnownSessionError` if the session was imported before and must not be replaced.
    """
    paths = find_session(mirror or home, session_id)
    if paths and (mirror is None or (digest and _find_digest(paths[0]) == digest)):
        raise KnownSessionError(session_id, paths[0])
    return paths


def _find_digest(path: Path) -> str:
    return text_of(object_of(read_header(path).get("imported")).get("digest"))


def _write(
    home: Path,
    converted: Converted,
    current_cwd: str,
    now: Callable[[], str],
    *,
    source: Path,
    seed: str,
    has_new_id: bool,
    into: Path | None,
    mirror: Path | None,
) -> ImportedSession:
    """Record the converted messages as a session."""
    if not converted.messages:
        raise SessionError(EMPTY)
    wanted = converted.source_id and f"{converted.kind} {converted.source_id}"
    if light.is_uuid(converted.source_id) or converted.kind in _BY_ID:
        wanted = converted.source_id
    session_id = _session_id(wanted, converted.seed or seed, has_new_id=has_new_id)
    digest = sha256(encode(to_builtins(converted))).hexdigest()[:32]
    replaced = _find_known(home, session_id, mirror=mirror, digest=digest)
    written = into or mirror or home
    folder, cwd = _folder(written, converted.cwd, current_cwd, is_mirror=mirror is not None)
    base = get_own_dir(written) / "importing"
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
        recorder = _ImportRecorder(paths=paths, log=log, writer=writer, now=now)
        recorder.imported = {
            "format": converted.kind,
            "sessionId": converted.source_id,
            "path": str(source.absolute()),
            "digest": digest,
        }
        origin = find_origin(home, converted)
        if origin is not None:
            restored = SessionPlace(session_id=session_id, project_dir=Path(staging))
            _restore(origin, restored)
            loaded = load(restored.transcript)
            recorder.resume(loaded)
            _move(converted, origin.count, loaded.messages)
        messages = converted.messages[origin.count if origin else 0 :]
        _record(recorder, messages, converted.parents, converted.tally, end=converted.end)
        for agent in converted.agents:
            try:
                own = AgentRecorder(recorder, agent.agent_id)
            except ValueError as error:
                converted.tally.reject(f"subagent: {error}", len(agent.messages))
                continue
            _record(own, agent.messages, {}, converted.tally)
            if agent.metadata:
                write_file(get_sidecar(own.transcript), [encode(agent.metadata)])
        if converted.title:
            recorder.title(converted.title)
        for trouble in log.close().troubles:
            raise OSError(str(trouble))
        if not is_there(recorder.transcript):
            raise SessionError(EMPTY)
        place = SessionPlace(session_id=session_id, project_dir=Path(staging))
        restored_count = origin.count if origin else 0
        return _settle(place, folder, converted, restored=restored_count, replaced=replaced)


def _restore(origin: ExportRecord, place: SessionPlace) -> None:
    """Write the session as it was when it was exported."""
    lines = ((raw, read_json(raw)) for raw in origin.lines if raw.strip())
    write_file(
        place.transcript, [rename_session(raw, line, place.session_id) for raw, line in lines]
    )
    give_agents(origin.path, place)


def _move(converted: Converted, count: int, restored: list[Json]) -> None:
    """Make branches of the first `count` messages begin at the restored messages instead.

    A message that the restored session has in another form is replaced by the one before it.
    """
    moved: dict[str | None, str | None] = {}
    at, last = 0, None
    for message in converted.messages[:count]:
        content = digest_messages([message])
        same = (n for n in range(at, len(restored)) if digest_messages([restored[n]]) == content)
        if (found := next(same, None)) is not None:
            at, last = found + 1, restored[found]["uuid"]
        moved[message["uuid"]] = last
    converted.parents = {
        child: moved.get(parent, parent) for child, parent in converted.parents.items()
    }
    converted.end = moved.get(converted.end, converted.end)


class _ImportRecorder(Recorder):
    """The recorder of an imported session; the first line of the transcript names the source."""

    imported: Json

    def header(self) -> Json:
        return super().header() | {"imported": self.imported}


def _record(
    recorder: Recorder,
    messages: list[Json],
    parents: dict[str, str | None],
    tally: ItemTally,
    *,
    end: str | None = None,
) -> None:
    rejected: set[str] = set()
    for message in messages:
        parent = parents.get(message["uuid"], "")
        if parent != "" and parent not in rejected:
            recorder.rewind(parent)
        try:
            recorder.record([message])
        except MisuseError as error:
            rejected.add(message["uuid"])
            tally.reject(f"invalid message: {error}", 1)
    if end is not None and end not in rejected:
        recorder.rewind(end)


def _copy(
    home: Path,
    source: Path,
    data: bytes,
    current_cwd: str,
    *,
    has_new_id: bool,
    mirror: Path | None,
) -> ImportedSession:
    """Import the lines of a clew transcript, changing only the session ID.

    The lines of subagents are written to separate files.
    """
    refuse_links(source, home)
    entries, _ = read_lines(data)
    ids = [s for line in entries if type(s := line.get("sessionId")) is str]
    wanted = source.stem if light.is_uuid(source.stem) else next(iter(ids), "")
    agents = {text_of(line.get("agentId")) for line in entries if line.get("isSidechain") is True}
    if len(agents) == 1 and all(line.get("isSidechain") is True for line in entries):
        # The lines have the ID of the session that the subagent belongs to.
        wanted = f"{wanted} {agents.pop()}"
    seed = data[:4096].decode("utf-8", "replace")
    session_id = _session_id(wanted, seed, has_new_id=has_new_id)
    replaced = _find_known(home, session_id, mirror=mirror, digest="")
    cwd = next((c for line in entries if type(c := line.get("cwd")) is str), "")
    folder, _ = _folder(mirror or home, cwd, current_cwd, is_mirror=mirror is not None)
    converted = Converted(kind="transcript", source_id=wanted)
    files: dict[str, list[bytes]] = {}
    about: dict[str, Json] = {}
    for raw in data.split(b"\n"):
        if not raw.strip():
            continue
        line = read_json(raw)
        if type(line) is not dict:
            converted.tally.leave_out(BAD_LINE)
            continue
        converted.tally.kept += 1
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
    if len(files) == 1:
        # A subagent's own file is imported as a session.
        files = {"": next(iter(files.values()))}
    base = get_own_dir(mirror or home) / "importing"
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
            raise SessionError(f"{source}: contains only subagent transcripts")
        return _settle(place, folder, converted, replaced=replaced)


def _settle(
    staged: SessionPlace,
    folder: Path,
    converted: Converted,
    *,
    restored: int = 0,
    replaced: list[Path],
) -> ImportedSession:
    """Check the staged session by loading it, then move it into the place of the `replaced` files.

    The transcript is moved last, because without it the other files belong to no session.
    """
    loaded = load(staged.transcript)
    if loaded.is_empty:
        raise SessionError("the file contains no conversation")
    files = Files()
    files.make_folder(folder)
    target = SessionPlace(session_id=staged.session_id, project_dir=folder)
    agents = len(list((staged.folder / "subagents").rglob("agent-*.jsonl")))
    for path in replaced:
        path.unlink()
        shutil.rmtree(path.with_suffix(""), ignore_errors=True)
    if is_folder(staged.folder):
        staged.folder.rename(target.folder)
    ended_at = _date(staged.transcript, loaded.messages)
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
        tally=converted.tally,
        ended_at=ended_at,
        restored=restored,
    )
