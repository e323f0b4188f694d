"""A conformance suite for session stores.

`await conform_store(make)` raises `StoreConformanceError` with the case and the broken promise, and
returns the names of the cases. `make()` returns an empty store.
"""

import hashlib
from collections.abc import Awaitable, Callable

from clew.core.messages.errors import OutsideError
from clew.record.stores.base import SessionStore, StoreError, TranscriptKey

SESSION = "0b5c2a1e-7d4f-4e0a-9c57-1f2e3d4c5b6a"
OTHER = "1c6d3b2f-8e5a-4f1b-8d68-2a3f4e5d6c7b"
LINES = [
    b'{"type":"user","uuid":"1"}\n',
    '{"type":"user","text":"Łódź \u2028 \U0001f9f6"}\n'.encode(),
    b'{"type":"broken\xff\n',
    b"{" + b"x" * 300_000 + b"}\n",
]


class StoreConformanceError(OutsideError):
    """Raised when a store breaks a promise. The text names the case and the promise."""


def _must(case: str, holds: bool, promise: str) -> None:
    if not holds:
        raise StoreConformanceError(f"{case}: {promise}")


async def _all(store: SessionStore, key: TranscriptKey) -> bytes:
    return b"".join([piece async for piece in store.read(key)])


async def _empty(store: SessionStore) -> None:
    _must("empty", list(await store.list()) == [], "an empty store lists nothing")
    content = await _all(store, TranscriptKey(session_id=SESSION))
    _must("empty", content == b"", "a missing transcript reads as empty")


async def _bytes(store: SessionStore) -> None:
    key = TranscriptKey(session_id=SESSION)
    _must(
        "bytes",
        await store.append(key, LINES[:2], at=0) == 2,
        "an append returns the number of lines",
    )
    _must(
        "bytes",
        await store.append(key, LINES[2:], at=2) == 4,
        "a second append follows the first",
    )
    _must("bytes", await _all(store, key) == b"".join(LINES), "lines are returned unchanged")


async def _again(store: SessionStore) -> None:
    key = TranscriptKey(session_id=SESSION)
    await store.append(key, LINES[:3], at=0)
    _must(
        "again",
        await store.append(key, LINES[:3], at=0) == 3,
        "existing lines are not appended again",
    )
    _must(
        "again",
        await store.append(key, LINES[1:], at=1) == 4,
        "new lines after existing ones are appended",
    )
    _must(
        "again", await store.append(key, LINES[1:2], at=1) == 4, "a shorter append removes nothing"
    )
    _must("again", await _all(store, key) == b"".join(LINES), "each line exists once")


async def _refused(store: SessionStore) -> None:
    key = TranscriptKey(session_id=SESSION)
    await store.append(key, LINES[:2], at=0)
    for at, lines, promise in (
        (1, [LINES[0]], "a line that differs from the stored one is refused"),
        (3, [LINES[3]], "a gap is refused"),
    ):
        try:
            await store.append(key, lines, at=at)
        except StoreError:
            pass
        else:
            _must("refused", False, promise)
    _must("refused", await _all(store, key) == b"".join(LINES[:2]), "refused lines change nothing")


async def _apart(store: SessionStore) -> None:
    keys = [
        TranscriptKey(session_id=s, agent_id=a) for s in (SESSION, OTHER) for a in ("", "a1", "a-2")
    ]
    for n, key in enumerate(keys):
        await store.append(key, LINES[: n % 3 + 1], at=0)
    for n, key in enumerate(keys):
        content = await _all(store, key)
        _must(
            "apart",
            content == b"".join(LINES[: n % 3 + 1]),
            "transcripts are separate",
        )
    listed = {item.key: item.lines for item in await store.list()}
    wanted = {key: n % 3 + 1 for n, key in enumerate(keys)}
    _must("apart", listed == wanted, "each transcript is listed with its number of lines")
    of_one = {item.key: item.lines for item in await store.list(OTHER)}
    its_own = {key: n for key, n in wanted.items() if key.session_id == OTHER}
    _must("apart", of_one == its_own, "the list of one session contains only its transcripts")


async def _blobs(store: SessionStore) -> None:
    data = b"\x00a file\xff" * 1000
    name = hashlib.sha256(data).hexdigest()
    _must("blobs", await store.get_blob(name) is None, "a file that was not stored is None")
    for _ in range(2):
        await store.put_blob(name, data)
    _must("blobs", await store.get_blob(name) == data, "a file is returned unchanged")
    _must("blobs", list(await store.list()) == [], "files are not listed as transcripts")


CASES: dict[str, Callable[[SessionStore], Awaitable[None]]] = {
    "empty": _empty,
    "bytes": _bytes,
    "again": _again,
    "refused": _refused,
    "apart": _apart,
    "blobs": _blobs,
}


async def conform_store(make: Callable[[], SessionStore]) -> list[str]:
    for case in CASES.values():
        await case(make())
    return list(CASES)
