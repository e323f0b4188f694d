"""A store in a folder: another disk, a mounted share. One file a transcript, appended and synced."""

import asyncio
import fcntl
import os
import re
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from clew.stores.base import Key, Listed, StoreError
from clew.transcript.files import Files
from clew.transcript.light import is_uuid

_AGENT = re.compile(r"[A-Za-z0-9_-]+")
PIECE_BYTES = 1 << 20


class FolderStore:
    """Lies below one folder, the owner's alone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = Files()

    async def append(self, key: Key, lines: Sequence[bytes], *, at: int) -> int:
        path = self._path(key)
        try:
            return await asyncio.to_thread(self._append, path, lines, at)
        except OSError as error:
            raise StoreError(f"folder store: {error.strerror or 'the disk failed'}") from None

    def _append(self, path: Path, lines: Sequence[bytes], at: int) -> int:
        files = self._files
        files.make_folder(path.parent)
        fd = files.open(path)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            held = _lines(files.read_at(fd, files.size(fd), 0))
            known = held[at:]
            if at > len(held) or list(lines[: len(known)]) != known[: len(lines)]:
                raise StoreError("folder store: what it holds is not what comes before")
            size = sum(map(len, held))
            if size < files.size(fd):
                os.ftruncate(fd, size)  # half a line, of an append that was cut short
            data = b"".join(lines[len(known) :])
            while data:
                data = data[files.write(fd, data) :]
            files.sync(fd)
            return max(len(held), at + len(lines))
        finally:
            files.close(fd)

    async def read(self, key: Key) -> AsyncIterator[bytes]:
        path = self._path(key)
        try:
            with path.open("rb") as file:
                left = os.fstat(file.fileno()).st_size
                while left > 0 and (piece := await asyncio.to_thread(file.read, PIECE_BYTES)):
                    left -= len(piece)
                    yield piece
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreError(f"folder store: {error.strerror or 'the disk failed'}") from None

    async def list(self) -> Sequence[Listed]:
        try:
            return await asyncio.to_thread(self._list)
        except OSError as error:
            raise StoreError(f"folder store: {error.strerror or 'the disk failed'}") from None

    def _list(self) -> Sequence[Listed]:
        return [
            Listed(
                key=Key(session_id=path.parent.name, agent_id=_agent_of(path.stem)),
                lines=len(_lines(path.read_bytes())),
            )
            for path in sorted(self._folder.glob("*/*.jsonl"))
            if is_uuid(path.parent.name)
        ]

    def _path(self, key: Key) -> Path:
        if not is_uuid(key.session_id) or (key.agent_id and not _AGENT.fullmatch(key.agent_id)):
            raise StoreError("no such name of a transcript")
        name = f"agent-{key.agent_id}" if key.agent_id else "session"
        return self._folder / key.session_id / f"{name}.jsonl"


def _agent_of(stem: str) -> str:
    return "" if stem == "session" else stem.removeprefix("agent-")


def _lines(data: bytes) -> list[bytes]:
    """The whole lines, each with its end."""
    return [line + b"\n" for line in data.split(b"\n")[:-1]]
