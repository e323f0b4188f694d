"""Stores keep what they receive; a pull loses nothing, whatever the store does."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.record.stores.base import (
    FolderStore,
    HttpStore,
    Listed,
    SessionStore,
    StoreError,
    TranscriptKey,
)
from clew.record.stores.merge import identity, merge, select_whole_lines, uuids_of, with_last
from clew.record.stores.sealed import SealedStore
from clew.record.stores.sealing import Sealer
from clew.record.stores.transfer import Diagnostic, hydrate, hydrate_session, send
from clew.record.transcript.files import OPEN_ELSEWHERE
from clew.record.transcript.load import load
from clew.record.transcript.log import Log
from clew.record.transcript.paths import SessionPaths, SessionPlace
from clew.system.transport.http import HttpTransport
from clew.system.transport.network import Network
from clew.testing.conform_store import CASES, StoreConformanceError, conform_store
from tests.record.stores.server import FAULTS, remote
from tests.record.transcript.build import SESSION, encoded, names, talk, user
from tests.requirements import requirement

KEY = TranscriptKey(session_id=SESSION)
OTHER = TranscriptKey(session_id="0b5c2a1e-7d4f-4e0a-9c57-1f2e3d4c5b6a", agent_id="a1")


def lines(entries: list[dict[str, object]]) -> list[bytes]:
    return select_whole_lines(encoded(entries))


@pytest.fixture
def place(tmp_path: Path) -> SessionPlace:
    folder = tmp_path / "home" / "projects" / "p"
    folder.mkdir(parents=True)
    return SessionPlace(session_id=SESSION, project_dir=folder)


def home_of(place: SessionPlace) -> Path:
    return place.project_dir.parent.parent


async def brought(place: SessionPlace, store: SessionStore) -> tuple[bool, list[Diagnostic]]:
    notes: list[Diagnostic] = []
    return await hydrate(place, home_of(place), store, notes.append), notes


async def test_a_folder_is_a_store(tmp_path: Path) -> None:
    folders = iter(range(100))
    assert await conform_store(lambda: FolderStore(tmp_path / str(next(folders)))) == list(CASES)
    made = tmp_path / "1" / SESSION / "session.jsonl"
    assert made.stat().st_mode & 0o777 == 0o600


async def test_a_service_behind_http_is_a_store(tmp_path: Path) -> None:
    transport = HttpTransport(Network())
    async with remote(tmp_path) as server:
        folders = iter(range(100))

        def make() -> SessionStore:
            server.store = FolderStore(tmp_path / str(next(folders)))
            return HttpStore(server.url, transport, token="hush-hush-token")

        assert await conform_store(make) == list(CASES)
        assert all("authorization: Bearer hush-hush-token" in head for head in server.seen)
    await transport.aclose()


def all_in(folder: Path) -> tuple[bytes, str]:
    paths = list(folder.rglob("*"))
    data = b"".join(path.read_bytes() for path in paths if path.is_file())
    return data, " ".join(path.name for path in paths)


async def test_a_sealed_store_is_a_store(tmp_path: Path) -> None:
    folders = iter(range(100))
    sealer = Sealer([b"k" * 32])

    def make() -> SessionStore:
        return SealedStore(FolderStore(tmp_path / str(next(folders))), sealer, is_sealing=True)

    assert await conform_store(make) == list(CASES)


async def test_a_sealed_store_gets_nothing_unsealed(tmp_path: Path) -> None:
    inner = FolderStore(tmp_path)
    sealed = SealedStore(inner, Sealer([b"k" * 32]), is_sealing=True)
    data, name = b'{"plugh": 1}', hashlib.sha256(b'{"plugh": 1}').hexdigest()
    await sealed.append(KEY, lines(talk(1)), at=0)
    await sealed.append(KEY, lines(talk(2)), at=0)
    await sealed.put_blob(name, data)
    kept, names = all_in(tmp_path)
    assert b"plugh" not in kept
    assert b"uuid" not in kept
    assert name not in names
    # Any machine with the key reads it, whether it seals or not.
    reader = SealedStore(inner, Sealer([b"o" * 32, b"k" * 32]), is_sealing=False)
    assert b"".join([piece async for piece in reader.read(KEY)]) == encoded(talk(2))
    assert await reader.get_blob(name) == data
    # Lines that were exchanged, and those without a key, are refused.
    own = tmp_path / SESSION / "session.jsonl"
    first, *rest = own.read_bytes().splitlines(keepends=True)
    own.write_bytes(b"".join([*rest, first]))
    for nobody in (sealed, reader, SealedStore(inner, None, is_sealing=False)):
        with pytest.raises(StoreError, match="sealed"):
            _ = [piece async for piece in nobody.read(KEY)]
    # Nothing is sealed behind what is not: the store refuses it.
    await SealedStore(inner, None, is_sealing=False).append(OTHER, lines(talk(1)), at=0)
    assert b"".join([piece async for piece in reader.read(OTHER)]) == encoded(talk(1))
    with pytest.raises(StoreError, match="differ"):
        await sealed.append(OTHER, lines(talk(2)), at=0)


class Forgetful(FolderStore):
    async def append(self, key: TranscriptKey, lines: Sequence[bytes], *, at: int) -> int:
        return await super().append(key, [line.strip() + b" \n" for line in lines], at=at)


async def test_the_suite_finds_a_store_that_changes_a_byte(tmp_path: Path) -> None:
    with pytest.raises(StoreConformanceError, match="returned unchanged"):
        await conform_store(lambda: Forgetful(tmp_path / os.urandom(4).hex()))


async def test_half_a_line_of_an_append_that_was_cut_short_is_written_over(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    await store.append(KEY, lines(talk(1)), at=0)
    file = tmp_path / SESSION / "session.jsonl"
    with file.open("ab") as out:
        out.write(b'{"half')
    await store.append(KEY, lines(talk(2)), at=0)
    assert file.read_bytes() == encoded(talk(2))
    for odd in (
        TranscriptKey(session_id="../x"),
        TranscriptKey(session_id=SESSION, agent_id="../x"),
    ):
        with pytest.raises(StoreError):
            await store.append(odd, [b"x\n"], at=0)
    (tmp_path / SESSION).chmod(0o700)
    blocked = FolderStore(file)
    with pytest.raises(StoreError):
        await blocked.append(KEY, [b"x\n"], at=0)
    with pytest.raises(StoreError):
        assert [piece async for piece in blocked.read(KEY)]


@requirement("R208", "W31")
async def test_a_session_comes_home_and_what_is_only_here_stays(
    place: SessionPlace, tmp_path: Path
) -> None:
    store = FolderStore(tmp_path / "store")
    await store.append(KEY, lines(talk(2)), at=0)
    await store.append(TranscriptKey(session_id=SESSION, agent_id="a1"), lines(talk(1)), at=0)
    done, notes = await brought(place, store)
    assert done
    assert place.transcript.read_bytes() == encoded(talk(2))
    assert place.agent("a1").read_bytes() == encoded(talk(1))
    assert [note.what for note in notes] == ["remote is ahead", "remote is ahead"]
    assert place.transcript.stat().st_mode & 0o777 == 0o600
    local = [*talk(2), user("u9", "a2", "only here")]
    place.transcript.write_bytes(encoded(local))
    assert (await brought(place, store))[1][0].what == "local is ahead"
    assert place.transcript.read_bytes() == encoded(local)
    await store.append(KEY, lines([user("u7", "a2", "only there")]), at=4)
    done, notes = await brought(place, store)
    assert notes[0].what == "diverged"
    loaded = load(place.transcript, reads_all=True)
    assert names(loaded.messages) == "u1 a1 u2 a2 u9"
    assert len(loaded.uuids) == 6
    backup = home_of(place) / "clew" / "backups" / f"{SESSION}.1.jsonl"
    assert backup.read_bytes() == encoded(local)
    assert await send(place, home_of(place), store) == {"": 1, "a1": 0}
    assert (await brought(place, store))[1][0].what == "same"
    left = [p.name for p in home_of(place).rglob("*") if p.suffix not in ("", ".jsonl")]
    assert left == []


@pytest.mark.no_cover
@requirement("R263", "R208", "R209", "W31", "R258")
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("local", ["more", "less", "none"])
async def test_no_failure_of_a_store_makes_a_file_shorter(
    place: SessionPlace, tmp_path: Path, fault: str, local: str
) -> None:
    transport = HttpTransport(Network())
    async with remote(tmp_path / "store") as server:
        await server.store.append(KEY, lines(talk(2)), at=0)
        before = {"more": encoded(talk(3)), "less": encoded(talk(1)), "none": b""}[local]
        if before:
            place.transcript.write_bytes(before)
        store = HttpStore(server.url, transport, token="hush-hush-token")
        for only in (None, SESSION):
            server.fault, server.only = fault, only
            done, notes = await brought(place, store)
            now = place.transcript.read_bytes() if place.transcript.exists() else b""
            assert set(before.splitlines()) <= set(now.splitlines())
            assert done or now == before
            said = " ".join(map(str, notes))
            assert notes
            for secret in (SESSION, "hush", "ada", str(tmp_path), "u1", server.url):
                assert secret not in said
    await transport.aclose()


async def test_a_service_that_sends_more_than_a_session_is_refused_and_said(
    place: SessionPlace, tmp_path: Path
) -> None:
    transport = HttpTransport(Network())
    async with remote(tmp_path / "store") as server:
        await server.store.append(KEY, [b'{"text":"%s"}\n' % (b"x" * (2 << 20))], at=0)
        place.transcript.write_bytes(before := encoded(talk(1)))
        done, notes = await brought(place, HttpStore(server.url, transport, most_bytes=1 << 20))
    await transport.aclose()
    assert not done
    assert [note.what for note in notes] == ["http store: the transcript is larger than 1 MiB"]
    assert place.transcript.read_bytes() == before


async def test_a_service_that_is_not_there_is_false_and_said(place: SessionPlace) -> None:
    transport = HttpTransport(Network())
    done, notes = await brought(place, HttpStore("http://127.0.0.1:9", transport))
    assert not done
    assert [str(n) for n in notes] == [
        "session: http store: no server responds at its address (local 0, remote 0, now 0 lines)"
    ]
    await transport.aclose()


async def test_a_session_that_is_open_elsewhere_stays(place: SessionPlace, tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "store")
    await store.append(KEY, lines(talk(2)), at=0)
    place.transcript.write_bytes(encoded(talk(1)))
    log = Log()
    assert log.claim(place.transcript)
    done, notes = await brought(place, store)
    log.close()
    assert not done
    assert notes[0].what == f"the session {OPEN_ELSEWHERE}"
    assert place.transcript.read_bytes() == encoded(talk(1))


@requirement("R208")
@pytest.mark.parametrize("is_there", [True, False])
async def test_the_session_is_switched_and_the_ingress_set_whatever_happens(
    tmp_path: Path, *, is_there: bool
) -> None:
    store = FolderStore(tmp_path / "store")
    if is_there:
        await store.append(KEY, lines(talk(1)), at=0)
    paths = SessionPaths(
        home=tmp_path / "home", cwd=str(tmp_path), session_id="1c6d3b2f-8e5a-4f1b-8d68-2a3f4e5d6c7b"
    )
    calls: list[str] = []
    notes: list[Diagnostic] = []
    done = await hydrate_session(
        paths, SESSION, store, notes.append, lambda: calls.append(paths.place.session_id)
    )
    assert done is is_there
    assert calls == [SESSION]
    assert paths.place.transcript.exists() is is_there


class Failing:
    """A store each of whose calls fails, or hangs until it is given up."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    async def append(self, key: TranscriptKey, lines: Sequence[bytes], *, at: int) -> int:
        raise self.error

    async def read(self, key: TranscriptKey) -> AsyncIterator[bytes]:
        yield b'{"uuid":"x"}\n'
        raise self.error

    async def list(self, session_id: str = "") -> Sequence[Listed]:
        return []


@pytest.mark.parametrize("error", [StoreError("broken"), OSError(28, "x"), TimeoutError()])
async def test_a_read_that_breaks_off_changes_nothing(
    place: SessionPlace, error: Exception
) -> None:
    place.transcript.write_bytes(encoded(talk(1)))
    done, notes = await brought(place, Failing(error))
    assert not done
    assert len(notes) == 1
    assert place.transcript.read_bytes() == encoded(talk(1))


async def test_a_cancel_is_a_cancel_and_leaves_nothing(place: SessionPlace) -> None:
    place.transcript.write_bytes(encoded(talk(1)))
    with pytest.raises(asyncio.CancelledError):
        await brought(place, Failing(asyncio.CancelledError()))
    assert [p for p in home_of(place).rglob("*") if p.is_file()] == [place.transcript]


async def test_a_store_that_is_ahead_is_not_sent_to(place: SessionPlace, tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "store")
    await store.append(KEY, lines(talk(3)), at=0)
    place.transcript.write_bytes(encoded(talk(1)))
    with pytest.raises(StoreError, match="pull first"):
        await send(place, home_of(place), store)
    place.transcript.write_bytes(encoded([user("other", None)] * 6))
    with pytest.raises(StoreError):
        await send(place, home_of(place), store)


LINE = st.sampled_from(
    [
        b'{"uuid":"a"}\n',
        b'{"uuid":"b"}\n',
        b'{"uuid":"b","x":1}\n',
        b'{"tag":"t"}\n',
        b"bad\n",
        b"5\n",
    ]
)


@given(st.lists(LINE, max_size=6), st.lists(LINE, max_size=6))
def test_a_union_lacks_nothing_of_either(local: list[bytes], remote_lines: list[bytes]) -> None:
    merged = merge(local, remote_lines)
    for copy in (local, remote_lines):
        for line in set(copy):
            assert merged.lines.count(line) >= copy.count(line)
    assert len(merged.lines) >= max(len(local), len(remote_lines))
    assert uuids_of(merged.lines) == uuids_of(local) | uuids_of(remote_lines)
    again = merge(merged.lines, remote_lines)
    assert again.lines == merged.lines


def test_lines_are_told_apart() -> None:
    assert with_last(b"a\nb") == [b"a\n", b"b\n"]
    assert with_last(b"a\n") == [b"a\n"]
    assert identity(b'{"uuid":"a", "x":1}\n') == identity(b'{"x":1,"uuid":"a"}\n')
    deep = b'{"uuid":"a","x":%s1%s}' % (b"[" * 100_000, b"]" * 100_000)
    assert identity(deep + b"\n") == identity(deep)
