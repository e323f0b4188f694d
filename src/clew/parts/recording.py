"""Where a session is written: a new transcript, one that goes on, or a copy of one."""

import contextlib
import os
import shlex
import shutil
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

from clew.agent.options import Options
from clew.core.messages.errors import SessionError, in_words
from clew.record.transcript import choose
from clew.record.transcript.belongings import give_tasks, share_anew, spoken_until
from clew.record.transcript.files import Files
from clew.record.transcript.light import is_uuid
from clew.record.transcript.load import LoadedSession
from clew.record.transcript.log import Log
from clew.record.transcript.paths import SessionPaths, find_session, is_begun, rescue_dirs
from clew.record.transcript.policy import Writer
from clew.record.transcript.record import Mirror, Recorder
from clew.record.transcript.recovery import copies, with_unsaved
from clew.record.transcript.resume import Back, LockedSession, forked, resume
from clew.record.transcript.running import Registration, Running, holder
from clew.system.clock import new_id, now
from clew.system.config.paths import Places
from clew.system.files import content, why_closed
from clew.version import VERSION

LOST = "the subagents, tasks and outputs of session {session} could not all be copied: {why}"
EXISTS = "--session-id {}: this session exists; --resume it"


def open_record(
    options: Options,
    places: Places,
    opened: AsyncExitStack,
    *,
    entrypoint: str,
    mirror: Mirror | None = None,
) -> tuple[Recorder, LoadedSession | None, list[str]]:
    """The recorder of a new session, or of one that goes on, with what it holds so far; and what of it
    could not be copied, where that was asked for."""
    home, cwd = places.config_home, str(places.cwd)
    path = which(options, home, cwd)
    folder = None if path is None else placed(home, cwd, path)
    if path is None or options.fork:
        session_id = options.session_id or new_id()
        session_paths = SessionPaths(home=home, cwd=cwd, session_id=session_id)
        transcript = session_paths.place.transcript
        if options.session_id and (is_begun(transcript) or copies(transcript, home)):
            raise SessionError(EXISTS.format(session_id))
    else:
        session_id = id_of(path)
        session_paths = SessionPaths(home=home, cwd=cwd, session_id=session_id)
        session_paths.switch(session_id, folder)
    if not options.persists:
        session_paths.aside = kept_nowhere(opened)
    log = log_of(options, home, opened)
    if log is not None and options.session_id and (path is None or options.fork):
        reserve(log, session_paths.place.transcript, session_id, opened)
    registration = None
    if options.persists:
        running = Running(
            pid=os.getpid(), session_id=session_id, cwd=cwd, started_at=now(), version=VERSION
        )
        registration = Registration(home, running)
        opened.callback(registration.leave)
    recorder = Recorder(
        paths=session_paths,
        log=log,
        writer=Writer(
            session_id=session_id,
            cwd=cwd,
            version=VERSION,
            git_branch=branch(places.cwd),
            entrypoint=entrypoint,
        ),
        now=now,
        mirror=mirror,
        registration=registration,
    )
    loaded, lost = None, list[str]()
    if path is not None:
        back = None
        if options.resume_at is not None:
            back = Back(to=options.resume_at, only_turn=options.drops_turn)
        loaded = gone_on(recorder, log, path, home, back, lost, fork=options.fork)
        if registration is not None:
            registration.update(name=title_of(loaded))
    if options.name:
        recorder.title(options.name)
    return recorder, loaded, lost


def kept_nowhere(opened: AsyncExitStack) -> Path | None:
    """A folder for what the model reads again while the session lasts, large outputs: gone with it."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="clew-unkept-"))
    except OSError:
        return None  # no disk takes anything, so nothing is kept anywhere
    opened.callback(shutil.rmtree, folder, ignore_errors=True)
    return folder


def title_of(loaded: LoadedSession) -> str:
    """What a person called the session; empty if nobody did."""
    title = loaded.side.current.get("custom-title", {}).get("customTitle")
    return title if isinstance(title, str) else ""


def reserve(log: Log, transcript: Path, session_id: str, opened: AsyncExitStack) -> None:
    """Makes a session's given id this process's own: of two that begin it at once, one is told.

    On a disk that takes nothing the session begins in memory, as any other does.
    """
    try:
        transcript.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        transcript.touch(mode=0o600)
    except OSError:
        return
    if not log.claim(transcript):
        raise SessionError(f"--session-id {session_id}: this session is open in another process")
    if is_begun(transcript):
        raise SessionError(EXISTS.format(session_id))
    opened.callback(leave_no_empty, transcript)


def leave_no_empty(transcript: Path) -> None:
    """Takes a name back under which nothing was said."""
    with contextlib.suppress(OSError):
        if not transcript.stat().st_size:
            transcript.unlink()


def log_of(options: Options, home: Path, opened: AsyncExitStack) -> Log | None:
    if not options.persists:
        return None
    log = Log(rescue_dirs=rescue_dirs(home))
    opened.callback(log.close)
    return log


def gone_on(
    recorder: Recorder,
    log: Log | None,
    path: Path,
    home: Path,
    back: Back | None,
    lost: list[str],
    *,
    fork: bool,
) -> LoadedSession:
    """What the session at `path` holds, now the recorder's: the session itself, or a copy of it."""
    loaded: LoadedSession | LockedSession
    try:
        if log is None or (
            fork and not copied(recorder, log, with_unsaved(path, home), back, lost)
        ):
            # A copy that no disk takes now is in memory until one does.
            loaded = with_unsaved(path, home)
            loaded = loaded if back is None else back.of(loaded)
            recorder.resume(loaded)
        else:
            loaded = resume(recorder, log, home=home, back=None if fork else back)
    except OSError as error:
        raise SessionError(f"session {path.stem} cannot be read: {in_words(error)}") from None
    if isinstance(loaded, LockedSession):
        raise SessionError(in_hold(loaded, home))
    if loaded.is_empty and not loaded.stands_before_all:
        raise SessionError(f"session {path.stem} holds no conversation: {path}")
    return loaded


def id_of(path: Path) -> str:
    """The id of the session in a file, which is the file's name."""
    if not is_uuid(path.stem):
        copying = f"`clew --resume {shlex.quote(str(path))} --fork-session` goes on in a copy"
        raise SessionError(f"{path}: its name is no session's id; {copying}")
    return path.stem


def in_hold(held: LockedSession, home: Path) -> str:
    """Who has a session, and what can be done with it all the same."""
    is_known = find_session(home, held.path.stem) == [held.path]
    name = held.path.stem if is_known else shlex.quote(str(held.path))
    copying = f"`clew --resume {name} --fork-session` goes on in a copy"
    return f"{held}; {copying}, `clew sessions show {name}` reads it"


def ensure_free(path: Path, home: Path, cwd: str) -> None:
    """Raises `SessionError` if going on with a session would be refused, for who is about to leave
    another one for it."""
    session_id, files = id_of(path), Files()
    placed(home, cwd, path)
    try:
        fd = files.open_to_read(path.resolve())
    except OSError as error:
        raise SessionError(f"session {session_id} cannot be read: {in_words(error)}") from None
    try:
        if not files.lock(fd):
            raise SessionError(
                in_hold(LockedSession(path=path, holder=holder(home, session_id)), home)
            )
        if not files.size(fd):
            raise SessionError(f"session {session_id} holds no conversation: {path}")
    finally:
        files.close(fd)


def copied(
    recorder: Recorder, log: Log, loaded: LoadedSession, back: Back | None, lost: list[str]
) -> bool:
    """Begins the recorder's session as a copy of another; False if it is not on disk."""
    if loaded.is_empty:
        return False
    until = None if back is None else back.of(loaded).leaf_uuid
    end = until or loaded.messages[-1]["uuid"]
    last = next(node for node in loaded.chain.nodes() if node.uuid == end)
    lines = [*forked(loaded, recorder.writer.session_id, until=until)]
    place, home = recorder.paths.place, recorder.paths.home
    spoken = None if until is None else spoken_until(loaded, last)
    agents = list[Path]()
    try:
        agents = share_anew(loaded.path, place, lines, home=home, spoken=spoken)
        give_tasks(loaded.path.stem, place, home=home, spoken=spoken)
    except OSError as error:
        lost.append(LOST.format(session=loaded.path.stem, why=in_words(error)))
    origin = {"sessionId": loaded.path.stem, "messageUuid": end}
    recorder.begin_as(lines, forked_from=origin, agents=agents)
    return not log.flush().troubles


def which(options: Options, home: Path, cwd: str) -> Path | None:
    """The transcript to go on with; None for a new session."""
    if options.resume is not None:
        return choose.named(home, cwd, options.resume)
    if options.continues:
        found = choose.newest(home, cwd)
        return None if found is None else found.path
    return None


def placed(home: Path, cwd: str, path: Path) -> Path:
    """The folder that a session goes on in; of an emergency copy, where the rest of it may lie."""
    folder = choose.folder_of(home, cwd, path)
    closed = None if folder == path.parent else why_closed(folder)
    if closed is not None:
        raise SessionError(f"{closed}; so what else session {path.stem} holds is not known")
    return folder


def branch(folder: Path) -> str:
    """The branch by `.git/HEAD`, without asking git."""
    for place in (folder, *folder.parents):
        try:
            head = content(place / ".git" / "HEAD").decode("utf-8").strip()
        except (OSError, UnicodeDecodeError):
            continue
        return head.removeprefix("ref: refs/heads/") if head.startswith("ref: ") else "HEAD"
    return "HEAD"
