"""A program's session store, which receives the entries of a session and returns them for resuming.

The protocol is that of the Agent SDK's `SessionStore`, so a store for the SDK works unchanged. Only
`append` and `load` are required. The local transcript is authoritative: if the store fails, this is
reported, and the session continues.
"""

import asyncio
import inspect
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from clew.core.json_object import Json
from clew.core.messages.encoding import encode
from clew.core.messages.errors import SessionError
from clew.record.library.copies import write_new
from clew.record.transcript.agents import write_fields
from clew.record.transcript.files import OPEN_ELSEWHERE
from clew.record.transcript.light import is_uuid
from clew.record.transcript.log import Log
from clew.record.transcript.paths import get_project_dir, get_projects_dir, get_sidecar
from clew.record.transcript.source import entries_of
from clew.system.clock import make_id
from clew.system.files import is_there

# As in the SDK: attempts per batch, the pauses between them, and the time for one call.
PAUSES_S = (0.2, 0.8)
CALL_TIMEOUT_S = 60.0
# How long a session that ends waits for its store.
LEAVE_TIMEOUT_S = 10.0
LOAD_TIMEOUT_S = 60.0
ENDED = TimeoutError("the session ended before the store answered")
AGENT_PATH = re.compile(r"subagents/(?:[\w-]{1,200}/)*agent-[\w-]{1,200}")
METADATA = "agent_metadata"

Answer = TypeVar("Answer")


class ProgramStore(Protocol):
    """The methods that clew needs from a store. `list_sessions` and `list_subkeys` are optional.

    A key has `project_key` and `session_id`, and for a subagent also `subpath`.
    """

    async def append(self, key: Any, entries: Any) -> None:
        """Append entries to the stored ones. Ignore an entry whose `uuid` is already stored."""
        ...

    async def load(self, key: Any) -> Any:
        """Return all entries with this key, or None if there are none."""
        ...


class ListedSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session in a store, with the time of its last change."""

    session_id: str
    mtime: float


class StoreMirror:
    """Passes recorded entries to the store, in order and in parallel with the session.

    Entries that the store does not accept are reported and logged. They are in the local transcript
    in any case.
    """

    def __init__(
        self,
        store: ProgramStore,
        home: Path,
        report: Callable[[Json], None],
        release: Callable[[int], None],
    ) -> None:
        self._store = store
        self._projects = get_projects_dir(home)
        self._report = report
        self._release = release
        self._waiting: asyncio.Queue[tuple[Json, int]] = asyncio.Queue()
        # The entries that were passed to the store and not yet taken, by transcript.
        self._passed: dict[str, list[Json]] = {}
        # Done when the session no longer waits for the store.
        self._has_left: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def take(self, frame: Json, size: int) -> None:
        """Queue a frame, which is released once the store has accepted or rejected its entries."""
        self._waiting.put_nowait((frame, size))

    async def flush(self) -> None:
        """Wait until the store has accepted or rejected all entries."""
        await self._waiting.join()

    def give_up(self) -> None:
        """Stop waiting for the store, and report the entries that it does not have."""
        if not self._has_left.done():
            self._has_left.set_result(None)

    async def run(self) -> None:
        """Pass entries to the store until this task is cancelled; then report remaining entries."""
        try:
            while True:
                frames = [await self._waiting.get()]
                while not self._waiting.empty():
                    frames.append(self._waiting.get_nowait())
                # One call for each transcript, so that a slow store can keep up.
                for frame, _ in frames:
                    self._passed.setdefault(frame["filePath"], []).extend(frame["entries"])
                for path in [*self._passed]:
                    await self._append(path)
                    del self._passed[path]
                for _, size in frames:
                    self._release(size)
                    self._waiting.task_done()
        finally:
            while not self._waiting.empty():
                frame, _ = self._waiting.get_nowait()
                self._passed.setdefault(frame["filePath"], []).extend(frame["entries"])
            for path in self._passed:
                self._refuse(path, ENDED)

    async def _append(self, path: str) -> None:
        key, entries = find_key(Path(path), self._projects), self._passed[path]
        if key is None or not entries:
            return
        error: BaseException | None = None
        for pause_s in (0.0, *PAUSES_S):
            await asyncio.wait([self._has_left], timeout=pause_s)
            if self._has_left.done():
                error = error or ENDED
                break
            _, error = await call_store(
                lambda: self._store.append(key, entries), CALL_TIMEOUT_S, self._has_left
            )
            if error is None:
                return
            if isinstance(error, TimeoutError | NotAsyncError):
                break  # The call may have succeeded, so a repetition could store entries twice.
        self._refuse(path, error)

    def _refuse(self, path: str, error: BaseException | None) -> None:
        """Report entries that the store does not have."""
        key, entries = find_key(Path(path), self._projects), self._passed[path]
        if key is None or not entries:
            return
        words = f"{type(error).__name__}: {error}"
        logging.getLogger("clew.store").error(
            "session_store: %d entries of session %s were not stored: %s",
            len(entries),
            key["session_id"],
            words,
        )
        self._report(
            {
                "type": "system",
                "subtype": "mirror_error",
                "key": key,
                "error": words,
                "session_id": key["session_id"],
                "uuid": make_id(),
            }
        )


class NotAsyncError(TypeError):
    """A store's method returned a value that can't be awaited."""


async def call_store(
    call: Callable[[], Any], timeout_s: float, has_left: asyncio.Future[None] | None = None
) -> tuple[Any, BaseException | None]:
    """Call a program's store; return the value or the error, whatever the call raises.

    The call is cancelled after the time limit, or when `has_left` is done.
    """
    task = asyncio.create_task(await_store(call))
    leaving = () if has_left is None else (has_left,)
    try:
        await asyncio.wait([task, *leaving], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        is_done = task.done()
        if not is_done:
            task.cancel()
    if not is_done and has_left is not None and has_left.done():
        return None, ENDED
    if not is_done:
        return None, TimeoutError(f"no answer within {timeout_s:g} s")
    if task.cancelled():
        return None, asyncio.CancelledError("the store cancelled the call")
    error = task.exception()
    return (task.result(), None) if error is None else (None, error)


async def await_store(call: Callable[[], Any]) -> Any:
    value = call()
    if not inspect.isawaitable(value):
        raise NotAsyncError(f"expected an awaitable from an async function, got {value!r}")
    return await value


def find_key(path: Path, projects: Path) -> Json | None:
    """Return the key of a transcript, or None for a file that is not in a project's folder."""
    if not path.is_relative_to(projects):
        return None
    parts = path.relative_to(projects).with_suffix("").parts
    if len(parts) < 2:
        return None
    key = {"project_key": parts[0], "session_id": parts[1]}
    return key | {"subpath": "/".join(parts[2:])} if len(parts) > 2 else key


async def bring_session(
    store: ProgramStore, home: Path, cwd: str, session: str | None
) -> str | None:
    """Write a stored session to this machine, and return its ID.

    `session` is an ID; None means the newest session in the store. Return None if the store does
    not have the session, or if `session` is a title or a file, which is not looked up in the store.
    If the session is already on this machine, append only the entries that are missing.
    """
    project = get_project_dir(home, cwd)
    if session is None:
        session = await _newest(store, project.name)
    if session is None or not is_uuid(session):
        return None
    key = {"project_key": project.name, "session_id": session}
    entries = await _load(store, key)
    if not entries:
        return None
    await asyncio.to_thread(_write, project / f"{session}.jsonl", entries)
    subpaths = read_answer("list_subkeys", await _ask(store, "list_subkeys", key), list[str])
    for subpath in subpaths:
        if AGENT_PATH.fullmatch(subpath):
            agent_entries = await _load(store, key | {"subpath": subpath})
            path = project / session / f"{subpath}.jsonl"
            await asyncio.to_thread(_write_agent, path, agent_entries)
    return session


async def _newest(store: ProgramStore, project: str) -> str | None:
    answer = await _ask(store, "list_sessions", project)
    listed = read_answer("list_sessions", answer, list[ListedSession])
    newest = max(listed, key=lambda item: item.mtime, default=None)
    return None if newest is None else newest.session_id


def read_answer(method: str, answer: Any, kind: type[Answer]) -> Answer:
    """Return the list that a method of a store returned; None is an empty list.

    Raise `SessionError` if the answer has another type.
    """
    try:
        return msgspec.convert(answer or [], kind)
    except msgspec.ValidationError as error:
        raise SessionError(f"session_store: {method}: invalid answer: {error}") from error


async def _ask(store: ProgramStore, name: str, argument: object) -> Any:
    """Call an optional method; return None if the store lacks it."""
    method = getattr(store, name, None)
    if method is None:
        return None
    value, error = await call_store(lambda: method(argument), LOAD_TIMEOUT_S)
    if error is None or isinstance(error, NotImplementedError):
        return value
    raise SessionError(f"session_store: {name} failed: {type(error).__name__}: {error}") from error


async def _load(store: ProgramStore, key: Json) -> list[Json]:
    value, error = await call_store(lambda: store.load(key), LOAD_TIMEOUT_S)
    if error is not None:
        words = f"{type(error).__name__}: {error}"
        raise SessionError(f"session_store: load failed: {words}") from error
    return read_answer("load", value, list[Json])


def _write_agent(path: Path, entries: list[Json]) -> None:
    metadata = [entry for entry in entries if entry.get("type") == METADATA]
    transcript = [entry for entry in entries if entry.get("type") != METADATA]
    if transcript:
        _write(path, transcript)
    if metadata:
        fields = {name: value for name, value in metadata[-1].items() if name != "type"}
        write_fields(get_sidecar(path), fields)


def _write(path: Path, entries: list[Json]) -> None:
    """Create the transcript, or append the entries that it lacks."""
    if not is_there(path):
        write_new(path, [encode(entry) + b"\n" for entry in entries])
        return
    identities = set(map(_identify, entries_of(path)))
    missing = [entry for entry in entries if _identify(entry) not in identities]
    if not missing:
        return
    log = Log()
    try:
        if not log.claim(path):
            raise SessionError(f"session {path.stem} {OPEN_ELSEWHERE}; close it first")
        log.append(path, [encode(entry) + b"\n" for entry in missing])
        for trouble in log.flush().troubles:
            raise OSError(str(trouble))
    finally:
        log.close()


def _identify(entry: Json) -> object:
    """Return the entry's UUID or, if it has none, its content with sorted keys.

    The keys are sorted because stores may reorder them.
    """
    return entry.get("uuid") or msgspec.json.encode(entry, order="sorted")
