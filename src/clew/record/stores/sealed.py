"""A store that keeps only sealed lines and files, on top of any other store.

A line is sealed together with its position, so lines can't be swapped. Unsealed lines are read as
they are; sealed lines are never appended after unsealed ones.

Decision: docs/decisions/333-sealed-sessions.md
"""

import hmac
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from clew.record.stores.base import Listed, SessionStore, StoreError, TranscriptKey, store_of
from clew.record.stores.sealing import Sealer, SealError, make_sealer, read_sealer
from clew.record.transcript.paths import get_own_dir
from clew.system.config.settings import read_switch

BEGIN, END = b'{"sealed":"', b'"}\n'
BLOB = "sealed-"
NO_KEY = "the session is sealed, and this machine has no key that opens it; run clew pair"
# The session whose key seals the files that several sessions share.
SHARED = "files"


class SealedStore(SessionStore):
    """A store that opens sealed data with any key of `sealer`.

    If `is_sealing`, lines and files are sealed before they are stored.
    """

    def __init__(self, store: SessionStore, sealer: Sealer | None, *, is_sealing: bool) -> None:
        self._store = store
        self._sealer = sealer
        self._is_sealing = is_sealing

    async def append(self, key: TranscriptKey, lines: Sequence[bytes], *, at: int) -> int:
        if self._is_sealing and self._sealer is not None:
            sealer = self._sealer
            lines = [
                b"%s%s%s" % (BEGIN, seal_line(sealer, key, number, line), END)
                for number, line in enumerate(lines, at + 1)
            ]
        return await self._store.append(key, lines, at=at)

    async def read(self, key: TranscriptKey) -> AsyncIterator[bytes]:
        number, rest = 0, b""
        async for piece in self._store.read(key):
            data = rest + piece
            end = data.rfind(b"\n") + 1
            data, rest = data[:end], data[end:]
            if BEGIN not in data:
                number += data.count(b"\n")
                yield data
                continue
            lines = data.split(b"\n")[:-1]
            yield b"".join(
                self._open(key, place, line) for place, line in enumerate(lines, number + 1)
            )
            number += len(lines)
        if rest:
            yield rest

    def _open(self, key: TranscriptKey, number: int, line: bytes) -> bytes:
        if not line.startswith(BEGIN):
            return line + b"\n"
        if self._sealer is None:
            raise StoreError(NO_KEY)
        text = line[len(BEGIN) : 1 - len(END)].decode("ascii", "replace")
        try:
            return self._sealer.open(key.session_id, place_of(key, number), text)
        except SealError as error:
            raise StoreError(f"can't open sealed line {number}: {error}") from None

    async def list(self, session_id: str = "") -> Sequence[Listed]:
        return await self._store.list(session_id)

    async def put_blob(self, name: str, data: bytes) -> None:
        if self._is_sealing and self._sealer is not None:
            place = name.encode()
            data = self._sealer.seal(SHARED, place, data).encode()
            name = hide_name(self._sealer.keys[0], name)
        await self._store.put_blob(name, data)

    async def get_blob(self, name: str) -> bytes | None:
        sealer = self._sealer
        for key in () if sealer is None else sealer.keys:
            sealed = await self._store.get_blob(hide_name(key, name))
            if sealed is not None and sealer is not None:
                try:
                    return sealer.open(SHARED, name.encode(), sealed.decode("ascii", "replace"))
                except SealError as error:
                    raise StoreError(f"can't open a sealed file: {error}") from None
        return await self._store.get_blob(name)


def place_of(key: TranscriptKey, number: int) -> bytes:
    return f"line\n{key.agent_id}\n{number}".encode()


def seal_line(sealer: Sealer, key: TranscriptKey, number: int, line: bytes) -> bytes:
    return sealer.seal(key.session_id, place_of(key, number), line).encode()


def hide_name(key: bytes, name: str) -> str:
    """Return the name of a sealed file, which reveals neither its content nor its hash."""
    return BLOB + hmac.digest(key, b"clew file\n" + name.encode(), "sha256").hex()


@asynccontextmanager
async def open_store(
    text: str, environ: Mapping[str, str], home: Path, settings: Mapping[str, Any]
) -> AsyncIterator[SessionStore]:
    """Open the store that `text` names; with `remoteSealed`, it receives only sealed data."""
    is_sealing = read_switch(settings, "remoteSealed") is True
    folder = get_own_dir(home) / "remote"
    sealer = make_sealer(folder) if is_sealing else read_sealer(folder)
    async with store_of(text, environ) as store:
        yield SealedStore(store, sealer, is_sealing=is_sealing)
