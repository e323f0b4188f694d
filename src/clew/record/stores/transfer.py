"""Transfer sessions to and from a store: fetch to a temporary file, compare, merge, sync, rename.

The local file never becomes shorter, even if the remote copy is empty, truncated, refused or older.
Fetching raises nothing: a failure is reported as False, and as a diagnostic with a kind and counts,
but no user data.
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from clew.core.messages.text import format_count
from clew.record.stores.base import SessionStore, StoreError, TranscriptKey
from clew.record.stores.blobs import BlobFolder
from clew.record.stores.merge import merge, select_whole_lines, uuids_of, with_last
from clew.record.transcript.files import OPEN_ELSEWHERE, Files
from clew.record.transcript.light import is_uuid
from clew.record.transcript.load import load
from clew.record.transcript.paths import SessionPaths, SessionPlace, get_own_dir
from clew.record.transcript.source import TranscriptSource

# Send appended lines of transcripts to a store: complete, in order, and each once.


BATCH_BYTES = 4 << 20
# The time limit for one call.
PATIENCE_S = 60.0


class Mark(Struct, frozen=True):
    """The part of a transcript that was sent: the number of lines, and the offset of their end."""

    lines: int = 0
    at: int = 0


def key_of(path: Path) -> TranscriptKey:
    """Return the store's key for the transcript of a session or subagent."""
    if is_uuid(path.stem):
        return TranscriptKey(session_id=path.stem)
    session = next((folder.name for folder in path.parents if is_uuid(folder.name)), "")
    return TranscriptKey(session_id=session, agent_id=path.stem.removeprefix("agent-"))


def files_of(place: SessionPlace) -> list[Path]:
    """Return the session's transcript and its subagents' transcripts."""
    return [place.transcript, *sorted((place.folder / "subagents").rglob("agent-*.jsonl"))]


def agent_file(place: SessionPlace, agent_id: str) -> Path:
    """Return the path of a subagent's transcript, whatever its group.

    Raise `StoreError` for an invalid ID.
    """
    try:
        own = place.agent(agent_id)
    except ValueError:
        raise StoreError("the store lists an invalid agent ID") from None
    return next((place.folder / "subagents").rglob(own.name), own)


class Sender:
    """Sends transcripts to a store, and tracks how much of each was sent."""

    def __init__(self, store: SessionStore, blobs: BlobFolder) -> None:
        self._store = store
        self._blobs = blobs
        self._marks: dict[Path, Mark] = {}
        self._held: dict[str, dict[TranscriptKey, int]] = {}

    async def send(self, path: Path) -> int:
        """Send the lines that the store lacks, and return their number."""
        key = key_of(path)
        mark = self._marks.get(path)
        had = 0 if mark is None else mark.lines
        if mark is None:
            had = (await self._held_of(key.session_id)).get(key, 0)
            # The last line that the store already has is sent again: if the store's line differs,
            # the store reports it.
            mark = await asyncio.to_thread(_behind, path, max(0, had - 1))
        if mark is None:
            raise StoreError(
                "the store has lines that are missing locally; run clew sessions pull first"
            )
        while (batch := await asyncio.to_thread(_batch, path, mark)).lines:
            async with answering():
                await self._blobs.send(self._store, batch.lines)
                now = await self._store.append(key, batch.lines, at=mark.lines)
            mark = Mark(lines=mark.lines + len(batch.lines), at=batch.end)
            if now < mark.lines:
                raise StoreError("the store accepted fewer lines than were sent")
            self._marks[path] = mark
        return max(0, mark.lines - had)

    async def is_behind(self, place: SessionPlace) -> bool:
        """Return whether the store has lines of a session that are missing on this machine.

        Only the number of lines and the store's last line are compared with the local files.
        """
        for key, count in (await self._held_of(place.session_id)).items():
            path = agent_file(place, key.agent_id) if key.agent_id else place.transcript
            mark = await asyncio.to_thread(_behind, path, max(0, count - 1))
            batch = None if mark is None else await asyncio.to_thread(_batch, path, mark)
            if not count:
                continue
            if not batch or not batch.lines:
                return True
            try:
                async with answering():
                    await self._store.append(key, batch.lines[:1], at=count - 1)
            except StoreError:
                return True
        return False

    async def _held_of(self, session_id: str) -> dict[TranscriptKey, int]:
        if session_id not in self._held:
            async with answering():
                listed = await self._store.list(session_id)
            self._held[session_id] = {item.key: item.lines for item in listed}
        return self._held[session_id]


@asynccontextmanager
async def answering() -> AsyncIterator[None]:
    """Raise `StoreError` if the store does not respond in time."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield
    except TimeoutError:
        raise StoreError("the store timed out") from None


def _behind(path: Path, count: int) -> Mark | None:
    """Return the mark after the first `count` lines, or None if the file has fewer lines."""
    if not count:
        return Mark()
    for number, at, raw in _lines(path, 0):
        if number == count:
            return Mark(lines=count, at=at + len(raw) + 1)
    return None


class Batch(Struct, frozen=True):
    lines: list[bytes]
    end: int


def _batch(path: Path, mark: Mark) -> Batch:
    """Return the next complete lines after a mark, with their newlines, and where they end."""
    lines: list[bytes] = []
    size = end = 0
    for _, at, raw in _lines(path, mark.at):
        lines.append(raw + b"\n")
        size, end = size + len(raw) + 1, at + len(raw) + 1
        if size >= BATCH_BYTES:
            break
    return Batch(lines, end)


def _lines(path: Path, start: int) -> Iterator[tuple[int, int, bytes]]:
    """Yield lines that end with a newline; none if the file does not exist."""
    try:
        with path.open("rb", buffering=0) as file:
            source = TranscriptSource(file.fileno())
            for number, at, raw in source.lines(start):
                if at + len(raw) < source.size:
                    yield number, at, raw
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(f"can't read the transcript: {os.strerror(error.errno or 0)}") from None


TIMEOUT_S = 120.0


class Diagnostic(Struct, frozen=True, kw_only=True):
    """The result for one transcript.

    `what` is a fixed phrase without names, paths or content.
    """

    what: str
    ok: bool
    is_agent: bool = False
    local_lines: int = 0
    remote_lines: int = 0
    lines: int = 0

    def __str__(self) -> str:
        whose = "subagent" if self.is_agent else "session"
        return (
            f"{whose}: {self.what} (local {self.local_lines}, remote {self.remote_lines}, "
            f"now {format_count(self.lines, 'line')})"
        )


Note = Callable[[Diagnostic], None]


async def hydrate_session(
    paths: SessionPaths,
    session_id: str,
    store: SessionStore,
    note: Note,
    set_ingress: Callable[[], None],
    folder: Path | None = None,
) -> bool:
    """Make a session the current one, and merge the store's copy into the session's file.

    `set_ingress` is called even if merging fails, so that everything written later is sent to the
    store.
    """
    place = paths.switch(session_id, folder)
    try:
        return await hydrate(place, paths.home, store, note)
    finally:
        set_ingress()


async def hydrate(place: SessionPlace, home: Path, store: SessionStore, note: Note) -> bool:
    """Fetch the session's transcript and its subagents' transcripts, and merge them.

    Return True if the session's own transcript now has at least the store's lines.
    """
    done = False
    try:
        async with asyncio.timeout(TIMEOUT_S):
            listed = await store.list(place.session_id)
            agents = [
                item.key
                for item in listed
                if item.key.session_id == place.session_id and item.key.agent_id
            ]
            own = TranscriptKey(session_id=place.session_id)
            done = await _one(own, place.transcript, home, store, note)
            for key in agents:
                await _one(key, agent_file(place, key.agent_id), home, store, note)
    except StoreError as error:
        note(Diagnostic(what=str(error), ok=False))
    except TimeoutError:
        note(Diagnostic(what="the store timed out", ok=False))
    except OSError as error:
        note(Diagnostic(what=f"disk error: {os.strerror(error.errno or 0)}", ok=False))
    return done


async def _one(key: TranscriptKey, path: Path, home: Path, store: SessionStore, note: Note) -> bool:
    base = get_own_dir(home) / "fetching"
    Files().make_folder(base)
    with tempfile.TemporaryDirectory(dir=base) as folder:
        fetched = Path(folder) / "remote"
        await _fetch(store, key, fetched)
        await blob_folder(home).fetch(store, await asyncio.to_thread(fetched.read_bytes))
        diagnostic = await asyncio.to_thread(_settle, path, fetched, get_own_dir(home) / "backups")
    note(diagnostic if not key.agent_id else _of_agent(diagnostic))
    return diagnostic.ok


def _of_agent(diagnostic: Diagnostic) -> Diagnostic:
    return Diagnostic(
        what=diagnostic.what,
        ok=diagnostic.ok,
        is_agent=True,
        local_lines=diagnostic.local_lines,
        remote_lines=diagnostic.remote_lines,
        lines=diagnostic.lines,
    )


async def _fetch(store: SessionStore, key: TranscriptKey, target: Path) -> None:
    fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        async for piece in store.read(key):
            file.write(piece)


def _settle(path: Path, fetched: Path, backups: Path) -> Diagnostic:
    """Compare the copies. If the remote copy has additional lines, replace the local file.

    The new file has the merged lines.
    """
    files = Files()
    remote = select_whole_lines(fetched.read_bytes())
    fd = files.open(path) if path.exists() else None
    try:
        if fd is not None and not files.lock(fd):
            return Diagnostic(
                what=f"the session {OPEN_ELSEWHERE}", ok=False, remote_lines=len(remote)
            )
        data = b"" if fd is None else files.read_at(fd, files.size(fd), 0)
        local = with_last(data)
        if not uuids_of(remote):
            what = "the remote is empty" if not remote else "the remote has no entries"
            return Diagnostic(
                what=what,
                ok=False,
                local_lines=len(local),
                remote_lines=len(remote),
                lines=len(local),
            )
        merged = merge(local, remote)
        if merged.relation in ("remote is ahead", "diverged"):
            _replace(path, merged.lines, local, remote, backups, files)
        return Diagnostic(
            what=merged.relation,
            ok=True,
            local_lines=len(local),
            remote_lines=len(remote),
            lines=len(merged.lines),
        )
    finally:
        if fd is not None:
            files.close(fd)


def _replace(
    path: Path,
    lines: list[bytes],
    local: list[bytes],
    remote: list[bytes],
    backups: Path,
    files: Files,
) -> None:
    files.make_folder(path.parent)
    beside = path.with_suffix(".hydrating")
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        missing = (uuids_of(local) | uuids_of(remote)) - load(beside, reads_all=True).uuids
        if missing or len(lines) < len(local):
            raise StoreError("the merged file would be missing lines; nothing was changed")
        if local:
            _back_up(path, backups)
        beside.rename(path)
        files.sync_folder(path.parent)
    finally:
        beside.unlink(missing_ok=True)


def _back_up(path: Path, backups: Path) -> None:
    backups.mkdir(mode=0o700, parents=True, exist_ok=True)
    count = len(list(backups.glob(f"{path.stem}*")))
    copy = backups / f"{path.stem}.{count + 1}.jsonl"
    shutil.copy2(path, copy)
    copy.chmod(0o600)


def blob_folder(home: Path) -> BlobFolder:
    return BlobFolder(get_own_dir(home) / "prompts")


async def send(place: SessionPlace, home: Path, store: SessionStore) -> dict[str, int]:
    """Append what a store lacks, and return the number of lines sent, by subagent ID.

    The session's own key is the empty string. Raise `StoreError` on failure.
    """
    sender = Sender(store, blob_folder(home))
    return {key_of(path).agent_id: await sender.send(path) for path in files_of(place)}
