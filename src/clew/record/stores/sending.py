"""Sends what was appended to transcripts to a store: whole lines, in their order, each once.

The file is read, never what somebody has in memory: a store gets the bytes that the disk has, whole and
however long. A line that was sent and not answered goes again; the store takes it once. Raises nothing but
`StoreError`. Must never write a transcript.

Decision: docs/decisions/127-session-stores.md
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from clew.record.stores.base import SessionStore, StoreError, TranscriptKey
from clew.record.transcript.light import is_uuid
from clew.record.transcript.paths import SessionPlace
from clew.record.transcript.source import TranscriptSource

BATCH_BYTES = 4 << 20
# One answer to one call.
PATIENCE_S = 60.0


class Mark(Struct, frozen=True):
    """How far a transcript was sent: so many lines, which end at this offset."""

    lines: int = 0
    at: int = 0


def key_of(path: Path) -> TranscriptKey:
    """What a store calls a transcript: a session's file, or a subagent's below its folder."""
    if is_uuid(path.stem):
        return TranscriptKey(session_id=path.stem)
    session = next((folder.name for folder in path.parents if is_uuid(folder.name)), "")
    return TranscriptKey(session_id=session, agent_id=path.stem.removeprefix("agent-"))


def files_of(place: SessionPlace) -> list[Path]:
    """The session's transcript and its subagents'."""
    return [place.transcript, *sorted((place.folder / "subagents").rglob("agent-*.jsonl"))]


def agent_file(place: SessionPlace, agent_id: str) -> Path:
    """A subagent's transcript, in whatever group it lies. Raises `StoreError` for a name that is none."""
    try:
        own = place.agent(agent_id)
    except ValueError:
        raise StoreError("the store lists what is no agent") from None
    return next((place.folder / "subagents").rglob(own.name), own)


class Sender:
    """Knows of each file how far it was sent."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self._marks: dict[Path, Mark] = {}
        self._held: dict[str, dict[TranscriptKey, int]] = {}

    async def send(self, path: Path) -> int:
        """Sends what a file has and the store has not; answers how many lines that was."""
        key = key_of(path)
        mark = self._marks.get(path)
        had = 0 if mark is None else mark.lines
        if mark is None:
            had = (await self._held_of(key.session_id)).get(key, 0)
            # The last line that is there goes again: a store that holds something else says so.
            mark = await asyncio.to_thread(_behind, path, max(0, had - 1))
        if mark is None:
            raise StoreError("the store has lines that are not here; pull first")
        while (batch := await asyncio.to_thread(_batch, path, mark)).lines:
            async with answering():
                now = await self._store.append(key, batch.lines, at=mark.lines)
            mark = Mark(lines=mark.lines + len(batch.lines), at=batch.end)
            if now < mark.lines:
                raise StoreError("the store took fewer lines than it was given")
            self._marks[path] = mark
        return max(0, mark.lines - had)

    async def is_behind(self, place: SessionPlace) -> bool:
        """Whether this machine lacks something of a session that the store has: by the numbers of
        lines, and by the last line that is there."""
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
            self._held[session_id] = {one.key: one.lines for one in listed}
        return self._held[session_id]


@asynccontextmanager
async def answering() -> AsyncIterator[None]:
    """A store that does not answer has failed."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield
    except TimeoutError:
        raise StoreError("the store took too long") from None


def _behind(path: Path, count: int) -> Mark | None:
    """The place behind the first `count` lines; None if there are not so many."""
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
    """The next whole lines behind a mark, each with its end, and where the last one ends."""
    lines: list[bytes] = []
    size = end = 0
    for _, at, raw in _lines(path, mark.at):
        lines.append(raw + b"\n")
        size, end = size + len(raw) + 1, at + len(raw) + 1
        if size >= BATCH_BYTES:
            break
    return Batch(lines, end)


def _lines(path: Path, start: int) -> Iterator[tuple[int, int, bytes]]:
    """Lines that have their end; none of a file that is not there."""
    try:
        with path.open("rb", buffering=0) as file:
            source = TranscriptSource(file.fileno())
            for number, at, raw in source.lines(start):
                if at + len(raw) < source.size:
                    yield number, at, raw
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(
            f"the transcript cannot be read: {os.strerror(error.errno or 0)}"
        ) from None
