"""A store in a folder: another disk, a mounted share. One file a transcript, appended and synced."""

import asyncio
import errno
import fcntl
import os
import re
import stat
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import BinaryIO

from clew.config.regular import only_files
from clew.config.there import is_file
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
        # Sizes and lines of what this process wrote: where nothing else did, it is not read again.
        self._known: dict[Path, tuple[int, int]] = {}

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
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise OSError(errno.EINVAL, "what is to be written to is not a regular file")
            fcntl.flock(fd, fcntl.LOCK_EX)
            size = files.size(fd)
            new, count = list(lines), at + len(lines)
            if self._known.get(path) != (size, at):
                held = _lines(files.read_at(fd, size, 0))
                known = held[at:]
                if at > len(held) or new[: len(known)] != known[: len(new)]:
                    raise StoreError("folder store: what it holds is not what comes before")
                whole = sum(map(len, held))
                if whole < size:
                    os.ftruncate(fd, whole)  # half a line, of an append that was cut short
                size, count, new = whole, max(len(held), count), new[len(known) :]
            data = b"".join(new)
            size += len(data)
            while data:
                data = data[files.write(fd, data) :]
            files.sync(fd)
            self._known[path] = size, count
            return count
        finally:
            files.close(fd)

    async def read(self, key: Key) -> AsyncIterator[bytes]:
        path = self._path(key)
        try:
            with await asyncio.to_thread(_opened, path) as file:
                left = os.fstat(file.fileno()).st_size
                while left > 0 and (piece := await asyncio.to_thread(file.read, PIECE_BYTES)):
                    left -= len(piece)
                    yield piece
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreError(f"folder store: {error.strerror or 'the disk failed'}") from None

    async def list(self, session_id: str = "") -> Sequence[Listed]:
        try:
            return await asyncio.to_thread(self._list, session_id or "*")
        except OSError as error:
            raise StoreError(f"folder store: {error.strerror or 'the disk failed'}") from None

    def _list(self, sessions: str) -> Sequence[Listed]:
        return [
            Listed(
                key=Key(session_id=path.parent.name, agent_id=_agent_of(path.stem)),
                lines=_count(path),
            )
            for path in sorted(self._folder.glob(f"{sessions}/*.jsonl"))
            if is_uuid(path.parent.name) and is_file(path)
        ]

    def _path(self, key: Key) -> Path:
        if not is_uuid(key.session_id) or (key.agent_id and not _AGENT.fullmatch(key.agent_id)):
            raise StoreError("no such name of a transcript")
        name = f"agent-{key.agent_id}" if key.agent_id else "session"
        return self._folder / key.session_id / f"{name}.jsonl"


def _agent_of(stem: str) -> str:
    return "" if stem == "session" else stem.removeprefix("agent-")


def _opened(path: Path) -> BinaryIO:
    return open(path, "rb", opener=only_files)


def _count(path: Path) -> int:
    with _opened(path) as file:
        return sum(piece.count(b"\n") for piece in iter(lambda: file.read(PIECE_BYTES), b""))


def _lines(data: bytes) -> list[bytes]:
    """The whole lines, each with its end."""
    return [line + b"\n" for line in data.split(b"\n")[:-1]]
