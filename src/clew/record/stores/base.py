"""The interface of a session store, and two stores: in a folder and over HTTP.

A store keeps complete lines in the order in which they were appended. It may have fewer lines than
the local file but never different ones, because the local file is authoritative.
`clew.testing.conform_store` tests whether a store meets the interface.
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
from urllib.parse import quote

import msgspec
from msgspec import Struct

from clew.record.transcript.files import Files
from clew.record.transcript.light import is_uuid
from clew.system.config.settings import read_text
from clew.system.files import is_file, open_only_files
from clew.system.transport.seam import Head, HttpRequest, Transport, TransportError


class StoreError(Exception):
    """A store failed. The message describes the kind of failure and contains no user data."""


class TranscriptKey(Struct, frozen=True, kw_only=True):
    """The key of a transcript: the session's ID, and a subagent's ID or an empty string."""

    session_id: str
    agent_id: str = ""


class Listed(Struct, frozen=True, kw_only=True):
    """A transcript in a store, and the number of its lines."""

    key: TranscriptKey
    lines: int


class SessionStore(Protocol):
    """A store of sessions. Every failure is a `StoreError`, whatever the underlying error."""

    async def append(self, key: TranscriptKey, lines: Sequence[bytes], *, at: int) -> int:
        """Append complete lines after the first `at` lines, and return the new number of lines.

        Lines that the store already has are not appended again. The store refuses lines that differ
        from its own or would leave a gap.
        """
        ...

    def read(self, key: TranscriptKey) -> AsyncIterator[bytes]:
        """Yield the transcript's bytes from its beginning; nothing if it does not exist."""
        ...

    async def list(self, session_id: str = "") -> Sequence[Listed]:
        """Return every transcript, or those of one session, in no particular order."""
        ...

    async def put_blob(self, name: str, data: bytes) -> None:
        """Store a file under its SHA-256."""
        ...

    async def get_blob(self, name: str) -> bytes | None:
        """Return the file with this SHA-256, or None."""
        ...


# A store in a folder, such as another disk or a mounted share. One synced file per transcript.


_AGENT = re.compile(r"[A-Za-z0-9_-]+")
_BLOB = re.compile(r"(sealed-)?[0-9a-f]{64}")
PIECE_BYTES = 1 << 20


class FolderStore:
    """A store in a private folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = Files()
        # The size and line count of files that this process wrote; an unchanged file is not read
        # again.
        self._known: dict[Path, tuple[int, int]] = {}

    async def append(self, key: TranscriptKey, lines: Sequence[bytes], *, at: int) -> int:
        path = self._path(key)
        try:
            return await asyncio.to_thread(self._append, path, lines, at)
        except OSError as error:
            raise StoreError(f"folder store: {error.strerror or 'disk error'}") from None

    def _append(self, path: Path, lines: Sequence[bytes], at: int) -> int:
        files = self._files
        files.make_folder(path.parent)
        fd = files.open(path)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise OSError(errno.EINVAL, "not a regular file")
            fcntl.flock(fd, fcntl.LOCK_EX)
            size = files.size(fd)
            new, count = list(lines), at + len(lines)
            if self._known.get(path) != (size, at):
                complete_lines = _lines(files.read_at(fd, size, 0))
                tail_lines = complete_lines[at:]
                if at > len(complete_lines) or new[: len(tail_lines)] != tail_lines[: len(new)]:
                    raise StoreError("folder store: the stored lines differ from the local lines")
                lines_size = sum(map(len, complete_lines))
                if lines_size < size:
                    os.ftruncate(fd, lines_size)  # An incomplete line, from an interrupted append.
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
            raise StoreError(f"folder store: {error.strerror or 'disk error'}") from None

    async def list(self, session_id: str = "") -> Sequence[Listed]:
        try:
            return await asyncio.to_thread(self._list, session_id or "*")
        except OSError as error:
            raise StoreError(f"folder store: {error.strerror or 'disk error'}") from None

    def _list(self, sessions: str) -> Sequence[Listed]:
        return [
            Listed(
                key=TranscriptKey(session_id=path.parent.name, agent_id=_agent_of(path.stem)),
                lines=_count(path),
            )
            for path in sorted(self._folder.glob(f"{sessions}/*.jsonl"))
            if is_uuid(path.parent.name) and is_file(path)
        ]

    async def put_blob(self, name: str, data: bytes) -> None:
        path = self._blob(name)
        try:
            if not is_file(path):
                await asyncio.to_thread(write_file, path, data)
        except OSError as error:
            raise StoreError(f"folder store: {error.strerror or 'disk error'}") from None

    async def get_blob(self, name: str) -> bytes | None:
        try:
            return await asyncio.to_thread(self._blob(name).read_bytes)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"folder store: {error.strerror or 'disk error'}") from None

    def _blob(self, name: str) -> Path:
        if not _BLOB.fullmatch(name):
            raise StoreError("invalid file name")
        return self._folder / "blobs" / name

    def _path(self, key: TranscriptKey) -> Path:
        if not is_uuid(key.session_id) or (key.agent_id and not _AGENT.fullmatch(key.agent_id)):
            raise StoreError("invalid transcript key")
        name = f"agent-{key.agent_id}" if key.agent_id else "session"
        return self._folder / key.session_id / f"{name}.jsonl"


def _agent_of(stem: str) -> str:
    return "" if stem == "session" else stem.removeprefix("agent-")


def write_file(path: Path, data: bytes) -> None:
    """Write a private file atomically."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.rename(path)
    finally:
        beside.unlink(missing_ok=True)


def _opened(path: Path) -> BinaryIO:
    return open(path, "rb", opener=open_only_files)


def _count(path: Path) -> int:
    with _opened(path) as file:
        return sum(piece.count(b"\n") for piece in iter(lambda: file.read(PIECE_BYTES), b""))


def _lines(data: bytes) -> list[bytes]:
    """Return the complete lines, each with its newline."""
    return [line + b"\n" for line in data.split(b"\n")[:-1]]


# A store over HTTP: a client of `clew serve`, over clew's own transport.


ANSWER_MAX_BYTES = 64 << 20
# No session is this large; the limit protects against an endless response.
TRANSCRIPT_MAX_BYTES = 2 << 30


def describe_kind(kind: str) -> str:
    """Describe why a store could not be reached, without its address.

    The address may contain a secret.
    """
    return {"no_server": "no server responds at its address", "connect": "no connection"}.get(
        kind, kind.replace("_", " ")
    )


class HttpStore:
    """A store over HTTP. `token` is sent as a bearer token and never appears in an error."""

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
                url=f"{self._url(key)}&at={at}",
                headers=(*self._headers, ("content-type", "application/x-ndjson")),
                body=b"".join(lines),
            )
        )
        if type(reply) is not dict or type(reply.get("lines")) is not int:
            raise StoreError("http store: the response to an append has no line count")
        if reply["lines"] < at + len(lines):
            raise StoreError("http store: the store accepted fewer lines than were sent")
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
            raise StoreError(f"http store: {describe_kind(error.kind)}") from None
        finally:
            await exchange.close()

    async def list(self, session_id: str = "") -> Sequence[Listed]:
        query = f"?session={quote(session_id, safe='')}" if session_id else ""
        url = f"{self._base}/entries/keys{query}"
        request = HttpRequest(method="GET", url=url, headers=self._headers)
        reply = await self._json(request)
        if type(reply) is not list:
            raise StoreError("http store: the response is not a list")
        listed = []
        for item in reply:
            if not isinstance(item, dict) or type(item.get("session")) is not str:
                raise StoreError("http store: the list contains an invalid transcript")
            agent, lines = item.get("subpath"), item.get("lines")
            key = TranscriptKey(
                session_id=item["session"], agent_id=agent if type(agent) is str else ""
            )
            if session_id in ("", key.session_id):
                listed.append(Listed(key=key, lines=lines if type(lines) is int else 0))
        return listed

    async def put_blob(self, name: str, data: bytes) -> None:
        url = f"{self._base}/blobs/{name}"
        await self._bytes(HttpRequest(method="PUT", url=url, headers=self._headers, body=data))

    async def get_blob(self, name: str) -> bytes | None:
        url = f"{self._base}/blobs/{name}"
        return await self._bytes(HttpRequest(method="GET", url=url, headers=self._headers))

    async def _json(self, request: HttpRequest) -> Any:
        data = await self._bytes(request)
        try:
            return msgspec.json.decode(data or b"")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise StoreError("http store: the response is not JSON") from None

    async def _bytes(self, request: HttpRequest) -> bytes | None:
        """Return the response's body, or None if the requested item does not exist."""
        exchange = self._transport.exchange(request)
        try:
            head = await exchange.open()
            if head.status == 404 and request.method == "GET":
                return None
            _refuse(head)
            data = bytearray()
            while piece := await exchange.read():
                data += piece
                if len(data) > ANSWER_MAX_BYTES:
                    raise StoreError("http store: the response is too large")
            return bytes(data)
        except TransportError as error:
            raise StoreError(f"http store: {describe_kind(error.kind)}") from None
        finally:
            await exchange.close()

    def _url(self, key: TranscriptKey) -> str:
        agent = f"&subpath={quote(key.agent_id, safe='')}" if key.agent_id else ""
        return f"{self._base}/entries?session={quote(key.session_id, safe='')}{agent}"


def _refuse(head: Head) -> None:
    if head.status == 409:
        raise StoreError("http store: the stored lines differ from the local lines (409)")
    if not 200 <= head.status < 300:
        raise StoreError(f"http store: HTTP status {head.status}")


# Open a store that the user names: a folder, or a URL with a token from the environment.


SETTING = "sessionStore"


def is_url(text: str) -> bool:
    return text.startswith(("http://", "https://"))


def _folder(text: str) -> Path:
    return Path(text).expanduser()


@asynccontextmanager
async def store_of(text: str, environ: Mapping[str, str]) -> AsyncIterator[SessionStore]:
    """Open the store that `text` names; it can be used until the context ends."""
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
    """Return the name of the store in the settings, or an empty string.

    Raise `ValueError` for a relative folder, which would depend on the working folder.
    """
    text = read_text(settings, "sessionStore")
    if text is None:
        return ""
    if not is_url(text) and not _folder(text).is_absolute():
        raise ValueError(f"{SETTING}: {text!r} must be a URL or a path that begins with / or ~")
    return text
