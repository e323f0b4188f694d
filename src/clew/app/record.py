"""Where a session is written: a new transcript, one that goes on, or a copy of one."""

import os
from contextlib import AsyncExitStack
from pathlib import Path

from clew.app.stamps import new_id, now
from clew.config.paths import Places
from clew.messages.errors import SessionError, in_words
from clew.options import Options
from clew.transcript import choose
from clew.transcript.entries import encode
from clew.transcript.load import Loaded
from clew.transcript.load import load as load_transcript
from clew.transcript.log import Log
from clew.transcript.paths import SessionPaths, rescue_dirs
from clew.transcript.policy import Writer
from clew.transcript.record import Recorder
from clew.transcript.resume import Held, forked, resume
from clew.transcript.running import Registration, Running
from clew.version import VERSION


def open_record(
    options: Options, places: Places, opened: AsyncExitStack, *, entrypoint: str
) -> tuple[Recorder, Loaded | None]:
    """The recorder of a new session, or of one that goes on, with what it holds so far."""
    home, cwd = places.config_home, str(places.cwd)
    path = which(options, home, cwd)
    if path is None or options.fork:
        session_id = options.session_id or new_id()
        session_paths = SessionPaths(home=home, cwd=cwd, session_id=session_id)
        if session_paths.place.transcript.exists():
            raise SessionError(f"--session-id {session_id}: this session exists; --resume it")
    else:
        session_id = path.stem
        session_paths = SessionPaths(home=home, cwd=cwd, session_id=session_id)
        if path.parent not in rescue_dirs(home):
            session_paths.switch(session_id, path.parent)
    log = log_of(options, home, opened)
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
    )
    if options.persists:
        running = Running(
            pid=os.getpid(),
            session_id=session_id,
            cwd=cwd,
            status="busy",
            started_at=now(),
            version=VERSION,
        )
        opened.callback(Registration(home, running).leave)
    if path is None:
        return recorder, None
    return recorder, gone_on(recorder, log, path, home, fork=options.fork)


def log_of(options: Options, home: Path, opened: AsyncExitStack) -> Log | None:
    if not options.persists:
        return None
    log = Log(rescue_dirs=rescue_dirs(home))
    opened.callback(log.close)
    return log


def gone_on(recorder: Recorder, log: Log | None, path: Path, home: Path, *, fork: bool) -> Loaded:
    """What the session at `path` holds, now the recorder's: the session itself, or a copy of it."""
    loaded: Loaded | Held
    try:
        if log is None or (fork and not copied(recorder, log, path)):
            # A copy that no disk takes now is in memory until one does.
            loaded = load_transcript(path)
            recorder.resume(loaded)
        else:
            loaded = resume(recorder, log, home=home)
    except OSError as error:
        raise SessionError(f"session {path.stem} cannot be read: {in_words(error)}") from None
    if isinstance(loaded, Held):
        raise SessionError(f"{loaded}: --fork-session, or `clew sessions show {path.stem}`")
    if loaded.is_empty:
        raise SessionError(f"session {path.stem} holds no conversation: {path}")
    return loaded


def copied(recorder: Recorder, log: Log, path: Path) -> bool:
    """Begins the recorder's session as a copy of the one at `path`; False if it is not on disk."""
    loaded = load_transcript(path)
    if loaded.is_empty:
        return False
    begun = forked(loaded, recorder.writer.session_id)
    log.append(recorder.transcript, [encode(recorder.header()) + b"\n", *begun])
    return not log.flush().troubles


def which(options: Options, home: Path, cwd: str) -> Path | None:
    """The transcript to go on with; None for a new session."""
    if options.resume is not None:
        return choose.named(home, cwd, options.resume)
    if options.continues:
        found = choose.newest(home, cwd)
        return None if found is None else found.path
    return None


def branch(folder: Path) -> str:
    """The branch by `.git/HEAD`, without asking git."""
    for place in (folder, *folder.parents):
        try:
            head = (place / ".git" / "HEAD").read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError):
            continue
        return head.removeprefix("ref: refs/heads/") if head.startswith("ref: ") else "HEAD"
    return "HEAD"
