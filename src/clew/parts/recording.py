"""Open the record of a session: a new transcript, a resumed one, or a copy of one."""

import contextlib
import os
from contextlib import AsyncExitStack
from hashlib import sha256
from pathlib import Path

from clew.agent.options import Options
from clew.core.messages.errors import SessionError
from clew.core.regex import lazy_pattern
from clew.record.transcript.files import OPEN_ELSEWHERE
from clew.record.transcript.loaded import LoadedSession
from clew.record.transcript.log import Log
from clew.record.transcript.paths import SessionPaths, is_begun, rescue_dirs
from clew.record.transcript.policy import Writer
from clew.record.transcript.record import Mirror, Recorder
from clew.record.transcript.recovery import list_copies
from clew.record.transcript.running import Registration, Running
from clew.system.clock import get_timestamp, make_id
from clew.system.config.paths import Places
from clew.system.files import read_content
from clew.version import VERSION

EXISTS = "--session-id {}: this session already exists; use --resume"


def open_record(
    options: Options,
    places: Places,
    opened: AsyncExitStack,
    *,
    entrypoint: str,
    mirror: Mirror | None = None,
) -> tuple[Recorder, LoadedSession | None, list[str]]:
    """Open the recorder of a new or resumed session.

    Also return the loaded session, if any, and the problems with copying parts of it.
    """
    home, cwd = places.config_home, str(places.cwd)
    path = folder = None
    if options.resume is not None or options.continues:
        from clew.parts.resuming import choose_transcript, placed

        path = choose_transcript(options, home, cwd)
        folder = None if path is None else placed(home, cwd, path)
    if path is None or options.fork:
        session_id = options.session_id or make_id()
        session_paths = SessionPaths(home=home, cwd=cwd, session_id=session_id)
        transcript = session_paths.place.transcript
        if options.session_id and (is_begun(transcript) or list_copies(transcript, home)):
            raise SessionError(EXISTS.format(session_id))
    else:
        from clew.parts.resuming import id_of

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
            pid=os.getpid(),
            session_id=session_id,
            cwd=cwd,
            started_at=get_timestamp(),
            version=VERSION,
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
            git_branch=read_branch(places.cwd),
            entrypoint=entrypoint,
            project=identify_project(places.cwd),
        ),
        now=get_timestamp,
        mirror=mirror,
        registration=registration,
    )
    loaded, lost = None, list[str]()
    if path is not None:
        from clew.parts.resuming import gone_on

        loaded = gone_on(recorder, log, path, home, options, lost)
        if registration is not None:
            registration.update(name=title_of(loaded))
    if options.name:
        recorder.title(options.name)
    return recorder, loaded, lost


def kept_nowhere(opened: AsyncExitStack) -> Path | None:
    """Create a temporary folder for the large outputs of a session that is not saved.

    Return None if that fails. The folder is removed when `opened` closes.
    """
    import shutil
    import tempfile

    try:
        folder = Path(tempfile.mkdtemp(prefix="clew-unkept-"))
    except OSError:
        return None  # without any writable disk, nothing is kept
    opened.callback(shutil.rmtree, folder, ignore_errors=True)
    return folder


def title_of(loaded: LoadedSession) -> str:
    """Return the title that the user gave the session, or an empty string."""
    title = loaded.side.current.get("custom-title", {}).get("customTitle")
    return title if isinstance(title, str) else ""


def reserve(log: Log, transcript: Path, session_id: str, opened: AsyncExitStack) -> None:
    """Claim a requested session ID for this process, so that a second process gets an error.

    If the transcript can't be created, for example because the disk is full, the session starts in
    memory, as any other session does.
    """
    try:
        transcript.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        transcript.touch(mode=0o600)
    except OSError:
        return
    if not log.claim(transcript):
        raise SessionError(f"--session-id {session_id}: this session {OPEN_ELSEWHERE}")
    if is_begun(transcript):
        raise SessionError(EXISTS.format(session_id))
    opened.callback(leave_no_empty, transcript)


def leave_no_empty(transcript: Path) -> None:
    """Delete a transcript if it is empty."""
    with contextlib.suppress(OSError):
        if not transcript.stat().st_size:
            transcript.unlink()


def log_of(options: Options, home: Path, opened: AsyncExitStack) -> Log | None:
    if not options.persists:
        return None
    log = Log(rescue_dirs=rescue_dirs(home))
    opened.callback(log.close)
    return log


def read_branch(folder: Path) -> str:
    """Return the branch that `.git/HEAD` names, or `HEAD` if there is none, without running git."""
    for place in (folder, *folder.parents):
        try:
            head = read_content(place / ".git" / "HEAD").decode("utf-8").strip()
        except (OSError, UnicodeDecodeError):
            continue
        return head.removeprefix("ref: refs/heads/") if head.startswith("ref: ") else "HEAD"
    return "HEAD"


# The repository's remote or, if it has none, the first entry of its log.
_SIGNS = (
    ("config", lazy_pattern(rb'\[remote "origin"\][^\[]*?\n[ \t]*url[ \t]*=[ \t]*(\S+)')),
    ("logs/HEAD", lazy_pattern(rb"\A([^\n]+)")),
)
SIGN_MAX_BYTES = 1 << 20


def identify_project(folder: Path) -> str | None:
    """Return an identifier of a folder's repository that survives moving it, or None."""
    for name, pattern in _SIGNS:
        try:
            match = pattern.search(read_content(folder / ".git" / name, SIGN_MAX_BYTES))
        except (OSError, ValueError):
            continue
        if match is not None:
            return sha256(match[1]).hexdigest()[:16]
    return None
