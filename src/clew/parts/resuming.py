"""Resume or copy a session: find it, and load its content into the record.

Loaded only if a session is resumed.
"""

import shlex
from pathlib import Path

from clew.agent.options import Options
from clew.core.messages.errors import SessionError, describe_error
from clew.record.transcript import choose
from clew.record.transcript.belongings import (
    find_mentioned_ids,
    give_tasks,
    refuse_links,
    share_with_new_session,
)
from clew.record.transcript.files import Files
from clew.record.transcript.light import is_uuid
from clew.record.transcript.loaded import LoadedSession
from clew.record.transcript.log import Log
from clew.record.transcript.paths import find_session
from clew.record.transcript.record import Recorder
from clew.record.transcript.recovery import load_with_unsaved
from clew.record.transcript.resume import Back, LockedSession, resume, write_fork
from clew.record.transcript.running import find_holder
from clew.system.files import why_closed

LOST = "the subagents, tasks and outputs of session {session} could not be copied completely: {why}"


def gone_on(
    recorder: Recorder, log: Log | None, path: Path, home: Path, options: Options, lost: list[str]
) -> LoadedSession:
    """Load the session at `path` into the recorder, to continue that session or a copy of it.

    Return the loaded session.
    """
    fork, back = options.fork, None
    if options.resume_at is not None:
        back = Back(to=options.resume_at, only_turn=options.drops_turn)
    loaded: LoadedSession | LockedSession
    try:
        refuse_links(path, home)
        if log is None or (
            fork and not copied(recorder, log, load_with_unsaved(path, home), back, lost)
        ):
            # If the disk is full, the copy stays in memory until it can be written.
            loaded = load_with_unsaved(path, home)
            loaded = loaded if back is None else back.of(loaded)
            recorder.resume(loaded)
        else:
            loaded = resume(recorder, log, home=home, back=None if fork else back)
    except OSError as error:
        raise SessionError(f"can't read session {path.stem}: {describe_error(error)}") from None
    if isinstance(loaded, LockedSession):
        raise SessionError(in_hold(loaded, home))
    if loaded.is_empty and not loaded.stands_before_all:
        raise SessionError(f"session {path.stem} is empty: {path}")
    return loaded


def id_of(path: Path) -> str:
    """Return the session ID in a transcript's file name. Raise `SessionError` if there is none."""
    if not is_uuid(path.stem):
        command = f"clew --resume {shlex.quote(str(path))} --fork-session"
        raise SessionError(
            f"{path}: the file name is not a session ID; to continue in a copy, run `{command}`"
        )
    return path.stem


def in_hold(lock: LockedSession, home: Path) -> str:
    """Return an error message that names the process using the session, and the alternatives."""
    is_known = find_session(home, lock.path.stem) == [lock.path]
    name = lock.path.stem if is_known else shlex.quote(str(lock.path))
    copying = f"to continue in a copy, run `clew --resume {name} --fork-session`"
    return f"{lock}; {copying}; to display it, run `clew sessions show {name}`"


def ensure_free(path: Path, home: Path, cwd: str) -> None:
    """Raise `SessionError` if a session can't be resumed.

    Called before clew leaves the current session to resume another.
    """
    session_id, files = id_of(path), Files()
    placed(home, cwd, path)
    try:
        fd = files.open_to_read(path.resolve())
    except OSError as error:
        raise SessionError(f"can't read session {session_id}: {describe_error(error)}") from None
    try:
        if not files.lock(fd):
            raise SessionError(
                in_hold(LockedSession(path=path, holder=find_holder(home, session_id)), home)
            )
        if not files.size(fd):
            raise SessionError(f"session {session_id} is empty: {path}")
    finally:
        files.close(fd)


def copied(
    recorder: Recorder, log: Log, loaded: LoadedSession, back: Back | None, lost: list[str]
) -> bool:
    """Start the recorder's session as a copy of another. Return whether the copy is on disk."""
    if loaded.is_empty:
        return False
    until = None if back is None else back.of(loaded).leaf_uuid
    end = until or loaded.messages[-1]["uuid"]
    last = next(node for node in loaded.chain.nodes() if node.uuid == end)
    lines = [*write_fork(loaded, recorder.writer.session_id, until=until)]
    place, home = recorder.paths.place, recorder.paths.home
    spoken = None if until is None else find_mentioned_ids(loaded, last)
    agents = list[Path]()
    try:
        agents = share_with_new_session(loaded.path, place, lines, home=home, spoken=spoken)
        give_tasks(loaded.path.stem, place, home=home, spoken=spoken)
    except OSError as error:
        lost.append(LOST.format(session=loaded.path.stem, why=describe_error(error)))
    origin = {"sessionId": loaded.path.stem, "messageUuid": end}
    recorder.begin_as(lines, forked_from=origin, agents=agents)
    return not log.flush().troubles


def choose_transcript(options: Options, home: Path, cwd: str) -> Path | None:
    """Return the transcript to resume, or None for a new session."""
    if options.resume is not None:
        is_read_only = options.fork or not options.persists
        return find_or_adopt(home, cwd, options.resume, is_read_only=is_read_only)
    if options.continues:
        outline = choose.find_newest(home, cwd)
        return None if outline is None else outline.path
    return None


def find_or_adopt(home: Path, cwd: str, name: str, *, is_read_only: bool = False) -> Path:
    """Return the transcript that `name` refers to, which may be a session of another agent.

    Such a session is imported as a clew session, unless it is only read.
    """
    try:
        return choose.resolve_session(home, cwd, name)
    except choose.UnknownSessionError as error:
        # Loads all importers.
        from clew.record.exchange.others import OtherSessions

        others = OtherSessions(home)
        path = others.find(name, cwd) if is_read_only else others.adopt(name, cwd)
        if path is None:
            raise error from None
        return path


def placed(home: Path, cwd: str, path: Path) -> Path:
    """Return the folder in which a resumed session continues.

    For a recovery file, this is the folder of the session's other files.
    """
    folder = choose.folder_of(home, cwd, path)
    closed = None if folder == path.parent else why_closed(folder)
    if closed is not None:
        raise SessionError(f"{closed}, so the other files of session {path.stem} can't be read")
    return folder
