"""Change the end of a stored session: append API messages, or rewind to a message.

Nothing is written unless all messages are valid.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from clew.core.json_object import Json
from clew.core.messages.errors import SessionError
from clew.record.exchange.formats.conversion import describe_losses
from clew.record.exchange.formats.one_file import extend
from clew.record.transcript.files import OPEN_ELSEWHERE
from clew.record.transcript.light import read_outline
from clew.record.transcript.load import load
from clew.record.transcript.loaded import LoadedSession
from clew.record.transcript.log import Log
from clew.record.transcript.paths import SessionPaths, home_of
from clew.record.transcript.policy import Writer
from clew.record.transcript.record import Recorder
from clew.version import VERSION


@contextmanager
def open_to_write(path: Path, now: Callable[[], str]) -> Iterator[tuple[Recorder, LoadedSession]]:
    """Lock a session and yield its recorder. Raise `SessionError` if a process has it open."""
    outline = read_outline(path)
    cwd = (outline.cwd if outline else None) or ""
    paths = SessionPaths(home=home_of(path), cwd=cwd, session_id=path.stem)
    paths.switch(path.stem, path.parent)
    branch = (outline.git_branch if outline else None) or "HEAD"
    writer = Writer(
        session_id=path.stem, cwd=cwd, version=VERSION, git_branch=branch, entrypoint="import"
    )
    log = Log()
    try:
        if not log.claim(path):
            raise SessionError(f"session {path.stem} {OPEN_ELSEWHERE}; close it first")
        loaded = load(path)
        recorder = Recorder(paths=paths, log=log, writer=writer, now=now)
        recorder.resume(loaded)
        yield recorder, loaded
        for trouble in log.flush().troubles:
            raise OSError(str(trouble))
    finally:
        log.close()


def append_messages(path: Path, messages: Sequence[Json], now: Callable[[], str]) -> None:
    """Append messages of the Messages API. Raise `ValueError` if one of them is invalid."""
    with open_to_write(path, now) as (recorder, loaded):
        converted = extend(loaded.messages, messages, lambda: str(uuid4()), at=now())
        if converted.tally.losses:
            raise ValueError(
                f"messages: cannot be converted: {describe_losses(converted.tally.losses)}"
            )
        if not converted.messages:
            raise ValueError("messages: expected at least one message with text or a tool call")
        recorder.record(converted.messages)


def go_back(path: Path, uuid: str | None, now: Callable[[], str]) -> None:
    """Rewind a session so that the message `uuid` is its last one; None means the beginning."""
    with open_to_write(path, now) as (recorder, loaded):
        if uuid is not None and uuid not in {entry.get("uuid") for entry in loaded.messages}:
            raise SessionError(
                f"message {uuid} not found in the conversation of session {path.stem}"
            )
        recorder.rewind(uuid)
