"""Brings a session home from a store: fetched beside, compared, merged, synced, and only then named.

The local file is never made shorter: not by a remote that is empty, cut off, refused or older. Nothing is
raised to who asked; a failure is False and a diagnostic that tells of kinds and counts, of nobody's data.
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from clew.core.messages.text import count_of
from clew.record.stores.base import SessionStore, StoreError, TranscriptKey
from clew.record.stores.merge import merge, uuids_of, whole_lines, with_last
from clew.record.stores.sending import Sender, agent_file, files_of, key_of
from clew.record.transcript.files import Files
from clew.record.transcript.load import load
from clew.record.transcript.paths import SessionPaths, SessionPlace, own_dir

TIMEOUT_S = 120.0


class Diagnostic(Struct, frozen=True, kw_only=True):
    """What came of one transcript. `what` is one of a few words of ours; no name, path or content."""

    what: str
    ok: bool
    is_agent: bool = False
    local_lines: int = 0
    remote_lines: int = 0
    lines: int = 0

    def __str__(self) -> str:
        whose = "subagent" if self.is_agent else "session"
        return (
            f"hydrate {whose}: {self.what} (local {self.local_lines}, remote {self.remote_lines}, "
            f"now {count_of(self.lines, 'line')})"
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
    """Makes a session the current one and its file what the store and this machine know of it.

    Whatever comes of that, `set_ingress` is called: what is written from here on goes to the store.
    """
    place = paths.switch(session_id, folder)
    try:
        return await hydrate(place, paths.home, store, note)
    finally:
        set_ingress()


async def hydrate(place: SessionPlace, home: Path, store: SessionStore, note: Note) -> bool:
    """The session's transcript and its subagents'. True if the session's own is at least what the store
    has of it."""
    done = False
    try:
        async with asyncio.timeout(TIMEOUT_S):
            listed = await store.list(place.session_id)
            agents = [
                one.key
                for one in listed
                if one.key.session_id == place.session_id and one.key.agent_id
            ]
            own = TranscriptKey(session_id=place.session_id)
            done = await _one(own, place.transcript, home, store, note)
            for key in agents:
                await _one(key, agent_file(place, key.agent_id), home, store, note)
    except StoreError as error:
        note(Diagnostic(what=str(error), ok=False))
    except TimeoutError:
        note(Diagnostic(what="the store took too long", ok=False))
    except OSError as error:
        note(Diagnostic(what=f"the disk failed: {os.strerror(error.errno or 0)}", ok=False))
    return done


async def _one(key: TranscriptKey, path: Path, home: Path, store: SessionStore, note: Note) -> bool:
    base = own_dir(home) / "fetching"
    Files().make_folder(base)
    with tempfile.TemporaryDirectory(dir=base) as folder:
        fetched = Path(folder) / "remote"
        await _fetch(store, key, fetched)
        found = await asyncio.to_thread(_settle, path, fetched, own_dir(home) / "backups")
    note(found if not key.agent_id else _of_agent(found))
    return found.ok


def _of_agent(found: Diagnostic) -> Diagnostic:
    return Diagnostic(
        what=found.what,
        ok=found.ok,
        is_agent=True,
        local_lines=found.local_lines,
        remote_lines=found.remote_lines,
        lines=found.lines,
    )


async def _fetch(store: SessionStore, key: TranscriptKey, target: Path) -> None:
    fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        async for piece in store.read(key):
            file.write(piece)


def _settle(path: Path, fetched: Path, backups: Path) -> Diagnostic:
    """Compares and, if the remote has something to add, puts the union in the place of the local file."""
    files = Files()
    remote = whole_lines(fetched.read_bytes())
    fd = files.open(path) if path.exists() else None
    try:
        if fd is not None and not files.lock(fd):
            return Diagnostic(what="the session is open", ok=False, remote_lines=len(remote))
        data = b"" if fd is None else files.read_at(fd, files.size(fd), 0)
        local = with_last(data)
        if not uuids_of(remote):
            what = "the remote is empty" if not remote else "the remote holds no entry"
            return Diagnostic(
                what=what,
                ok=False,
                local_lines=len(local),
                remote_lines=len(remote),
                lines=len(local),
            )
        merged = merge(local, remote)
        if merged.relation in ("remote is ahead", "both went on"):
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
        missing = (uuids_of(local) | uuids_of(remote)) - load(beside, whole=True).uuids
        if missing or len(lines) < len(local):
            raise StoreError("the union would lack something; nothing was changed")
        if local:
            _back_up(path, backups)
        beside.rename(path)
        files.sync_folder(path.parent)
    finally:
        beside.unlink(missing_ok=True)


def _back_up(path: Path, backups: Path) -> None:
    backups.mkdir(mode=0o700, parents=True, exist_ok=True)
    taken = len(list(backups.glob(f"{path.stem}*")))
    copy = backups / f"{path.stem}.{taken + 1}.jsonl"
    shutil.copy2(path, copy)
    copy.chmod(0o600)


async def send(place: SessionPlace, store: SessionStore) -> dict[str, int]:
    """Appends to the store what it does not have yet; answers how many lines went, by subagent id (the
    session itself is the empty one). Raises `StoreError`."""
    sender = Sender(store)
    return {key_of(path).agent_id: await sender.send(path) for path in files_of(place)}
