"""What a store of sessions is. `clew.testing.conform_store` holds any of them to it.

A store keeps whole lines in the order in which it was given them. It may hold less than the local file, never
something else: the local file is the first truth.
"""

import asyncio
import errno
import fcntl
import os
import re
import stat
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import msgspec
from msgspec import Struct

from clew.record.transcript.files import Files
from clew.record.transcript.light import is_uuid
from clew.system.config.settings import read_text
from clew.system.files import is_file, open_only_files
from clew.system.transport.seam import Head, HttpRequest, Transport, TransportError


class StoreError(Exception):
    """A store did not do what was asked. The text names the kind of failure, and nothing of anybody's."""


class TranscriptKey(Struct, frozen=True, kw_only=True):
    """A transcript: the session's id, and a subagent's within it."""

    session_id: str
    agent_id: str = ""


class Listed(Struct, frozen=True, kw_only=True):
    """A transcript that a store has, and how many lines of it."""

    key: TranscriptKey
    lines: int


class SessionStore(Protocol):
    """Every failure is a `StoreError`, whatever happened beneath."""

    async def append(self, key: TranscriptKey, lines: Sequence[bytes], *, at: int) -> int:
        """Takes whole lines behind the first `at` ones, and answers how many there are now.

        What the store has already of these lines is not taken twice; lines that differ from what it has, or
        that would leave a gap, are refused.
        """
        ...

    def read(self, key: TranscriptKey) -> AsyncIterator[bytes]:
        """The transcript's bytes from its beginning; nothing for one that is not there."""
        ...

    async def list(self, session_id: str = "") -> Sequence[Listed]:
        """Every transcript, or those of one session, in no particular order."""
        ...


# A store in a folder: another disk, a mounted share. One file a transcript, appended and synced.


_AGENT = re.compile(r"[A-Za-z0-9_-]+")
PIECE_BYTES = 1 << 20


class FolderStore:
    """Lies below one folder, the owner's alone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = Files()
        # Sizes and lines of what this process wrote: where nothing else did, it is not read again.
        self._known: dict[Path, tuple[int, int]] = {}

    async def append(self, key: TranscriptKey, lines: Sequence[bytes], *, at: int) -> int:
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
                complete_lines = _lines(files.read_at(fd, size, 0))
                tail_lines = complete_lines[at:]
                if at > len(complete_lines) or new[: len(tail_lines)] != tail_lines[: len(new)]:
                    raise StoreError("folder store: what it holds is not what comes before")
                lines_size = sum(map(len, complete_lines))
                if lines_size < size:
                    os.ftruncate(fd, lines_size)  # half a line, of an append that was cut short
                size, count, new = (
                    lines_size,
                    max(len(complete_lines), count),
                    new[len(tail_lines) :],
                )
            data = b"".join(new)
            size += len(data)
            while data:
                data = data[files.write(fd, data) :]
            files.sync(fd)
            self._known[path] = size, count
            return count
        finally:
            files.close(fd)

    async def read(self, key: TranscriptKey) -> AsyncIterator[bytes]:
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
                key=TranscriptKey(session_id=path.parent.name, agent_id=_agent_of(path.stem)),
                lines=_count(path),
            )
            for path in sorted(self._folder.glob(f"{sessions}/*.jsonl"))
            if is_uuid(path.parent.name) and is_file(path)
        ]

    def _path(self, key: TranscriptKey) -> Path:
        if not is_uuid(key.session_id) or (key.agent_id and not _AGENT.fullmatch(key.agent_id)):
            raise StoreError("no such name of a transcript")
        name = f"agent-{key.agent_id}" if key.agent_id else "session"
        return self._folder / key.session_id / f"{name}.jsonl"


def _agent_of(stem: str) -> str:
    return "" if stem == "session" else stem.removeprefix("agent-")


def _opened(path: Path) -> BinaryIO:
    return open(path, "rb", opener=open_only_files)


def _count(path: Path) -> int:
    with _opened(path) as file:
        return sum(piece.count(b"\n") for piece in iter(lambda: file.read(PIECE_BYTES), b""))


def _lines(data: bytes) -> list[bytes]:
    """The whole lines, each with its end."""
    return [line + b"\n" for line in data.split(b"\n")[:-1]]


# A store behind HTTP: a client of three calls, over the project's own transport.


ANSWER_MAX_BYTES = 64 << 20
# No session is as large; a service that never ends is none.
TRANSCRIPT_MAX_BYTES = 2 << 30


class HttpStore:
    """`token` goes out as a bearer's and into no error."""

    def __init__(
        self,
        base: str,
        transport: Transport,
        *,
        token: str = "",
        most_bytes: int = TRANSCRIPT_MAX_BYTES,
    ) -> None:
        self._most_bytes = most_bytes
        self._base = base.rstrip("/")
        self._transport = transport
        self._headers = (("authorization", f"Bearer {token}"),) if token else ()

    async def append(self, key: TranscriptKey, lines: Sequence[bytes], *, at: int) -> int:
        reply = await self._json(
            HttpRequest(
                method="POST",
                url=f"{self._url(key)}?at={at}",
                headers=(*self._headers, ("content-type", "application/x-ndjson")),
                body=b"".join(lines),
            )
        )
        if type(reply) is not dict or type(reply.get("lines")) is not int:
            raise StoreError("http store: the answer to an append says no number of lines")
        if reply["lines"] < at + len(lines):
            raise StoreError("http store: it says that it took fewer lines than it was given")
        return int(reply["lines"])

    async def read(self, key: TranscriptKey) -> AsyncIterator[bytes]:
        request = HttpRequest(method="GET", url=self._url(key), headers=self._headers)
        exchange = self._transport.exchange(request)
        try:
            head = await exchange.open()
            if head.status == 404:
                return
            _refuse(head)
            size = 0
            while piece := await exchange.read():
                size += len(piece)
                if size > self._most_bytes:
                    limit = f"{self._most_bytes >> 20} MiB"
                    raise StoreError(f"http store: the transcript is larger than {limit}")
                yield piece
        except TransportError as error:
            raise StoreError(f"http store: {error.kind}") from None
        finally:
            await exchange.close()

    async def list(self, session_id: str = "") -> Sequence[Listed]:
        query = f"?session={session_id}" if session_id else ""
        url = f"{self._base}/sessions{query}"
        request = HttpRequest(method="GET", url=url, headers=self._headers)
        reply = await self._json(request)
        if type(reply) is not list:
            raise StoreError("http store: the answer is no list")
        listed = []
        for item in reply:
            if not isinstance(item, dict) or type(item.get("sessionId")) is not str:
                raise StoreError("http store: the list holds what is no transcript")
            agent, lines = item.get("agentId"), item.get("lines")
            key = TranscriptKey(
                session_id=item["sessionId"], agent_id=agent if type(agent) is str else ""
            )
            if session_id in ("", key.session_id):
                listed.append(Listed(key=key, lines=lines if type(lines) is int else 0))
        return listed

    async def _json(self, request: HttpRequest) -> Any:
        exchange = self._transport.exchange(request)
        try:
            _refuse(await exchange.open())
            data = b""
            while piece := await exchange.read():
                data += piece
                if len(data) > ANSWER_MAX_BYTES:
                    raise StoreError("http store: the answer is too large")
            return msgspec.json.decode(data)
        except TransportError as error:
            raise StoreError(f"http store: {error.kind}") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise StoreError("http store: the answer is no JSON") from None
        finally:
            await exchange.close()

    def _url(self, key: TranscriptKey) -> str:
        agent = f"/agents/{key.agent_id}" if key.agent_id else ""
        return f"{self._base}/sessions/{key.session_id}{agent}"


def _refuse(head: Head) -> None:
    if head.status == 409:
        raise StoreError("http store: what it holds is not what comes before (409)")
    if not 200 <= head.status < 300:
        raise StoreError(f"http store: status {head.status}")


# A store by what a person writes: a folder, or a URL; the token for it comes from the environment.


SETTING = "sessionStore"


def is_url(text: str) -> bool:
    return text.startswith(("http://", "https://"))


def _folder(text: str) -> Path:
    return Path(text).expanduser()


@asynccontextmanager
async def store_of(text: str, environ: Mapping[str, str]) -> AsyncIterator[SessionStore]:
    """The store is good for as long as the context lasts."""
    if not is_url(text):
        yield FolderStore(_folder(text))
        return
    from clew.system.config.environment import freeze
    from clew.system.transport.http import HttpTransport
    from clew.system.transport.network import read_network

    transport = HttpTransport(read_network(freeze(environ)))
    try:
        yield HttpStore(text, transport, token=environ.get("CLEW_STORE_TOKEN", ""))
    finally:
        await transport.aclose()


def in_settings(settings: Mapping[str, object]) -> str:
    """The store that the settings name, or none. Raises `ValueError` for a folder that is not the
    same from every working folder."""
    text = read_text(settings, "sessionStore")
    if text is None:
        return ""
    if not is_url(text) and not _folder(text).is_absolute():
        raise ValueError(f"{SETTING}: {text!r} is no URL and no folder from / or ~ on")
    return text
