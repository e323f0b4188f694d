"""The copy of a session in a store: pulled before the session opens, pushed while it runs.

Off unless the setting `sessionStore` names a store. The local transcript is authoritative: if the
store fails, the failure is reported and the transfer retried, and nothing else is affected. Unsent
data is pushed by the next session with the same ID or by `clew sessions push`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from clew.agent.options import Options
from clew.core.json_object import Json
from clew.core.messages.errors import SessionError
from clew.parts.context import Ground
from clew.parts.part import Part
from clew.record.transcript.light import is_uuid
from clew.record.transcript.paths import SessionPaths, SessionPlace, get_project_dir, rescue_dirs
from clew.record.transcript.record import Mirror
from clew.system.config.flags import is_feature_on
from clew.system.config.settings import read_text
from clew.system.files import is_there

if TYPE_CHECKING:
    from clew.record.stores.base import SessionStore


# Changes within this time are sent together.
QUIET_S = 1.0
# The pause after a failure.
PAUSE_S = 30.0
# How long the end of a session waits for the rest to be sent.
LAST_S = 5.0
# How long the start of a session waits for the store's state.
FIRST_S = 10.0


def _later() -> None:
    """Do nothing when a problem is added; problems are polled instead."""


class StoreCopy(Part):
    """The session part for the copy in a store; this base class is used if there is no store.

    `faults` are problems not yet reported; `heard` is called when one is added.
    """

    name = "store copy"

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.heard: Callable[[], None] = _later
        self._is_failing = False
        self._waiting: dict[Path, None] = {}
        self._something = asyncio.Event()

    def beside(self, mirror: Mirror | None) -> Mirror | None:
        """Return a mirror that passes written lines to `mirror` and to the copy, if any."""
        return mirror

    def news(self) -> tuple[str, ...]:
        """Return the problems since the last call; a failure that repeats is reported once."""
        faults, self.faults = tuple(self.faults), []
        return faults

    def notices(self) -> tuple[str, ...]:
        return self.news()

    async def refresh(self) -> tuple[str, ...]:
        return self.news()

    def _failed(self, why: str) -> None:
        if not self._is_failing:
            self.faults.append(f"this session can't be copied to the store: {why}")
            self.heard()
        self._is_failing = True


class ConfiguredStore(StoreCopy):
    """The session part for the copy in the store that the settings name."""

    def __init__(self, store: "SessionStore", home: Path) -> None:
        super().__init__()
        self._store = store
        self._home = home
        self._begin_anew()

    def beside(self, mirror: Mirror | None) -> Mirror | None:
        def both(path: Path, entries: Sequence[Json]) -> None:
            if mirror is not None:
                mirror(path, entries)
            self.wrote(path)

        return both

    def wrote(self, path: Path) -> None:
        """Note that lines may have been added to a transcript."""
        self._waiting[path] = None
        self._something.set()

    async def bring_home(self, options: Options, home: Path, cwd: str) -> None:
        """Pull the session to be resumed if the store has more of it than the local disk.

        Raise `SessionError` only if neither has the session.
        """
        from clew.record.stores.base import StoreError
        from clew.record.stores.transfer import Diagnostic, files_of, hydrate_session

        place, is_here = _place(options, home, cwd)
        if place is None:
            return
        notes: list[Diagnostic] = []
        why = ""
        try:
            async with asyncio.timeout(FIRST_S):
                is_behind = await self._sender.is_behind(place)
            if is_behind:
                paths = SessionPaths(home=home, cwd=cwd, session_id=place.session_id)
                await hydrate_session(
                    paths,
                    place.session_id,
                    self._store,
                    notes.append,
                    self._begin_anew,
                    place.project_dir,
                )
                why = "; ".join(note.what for note in notes if not note.ok)
        except TimeoutError:
            why = "the store timed out"
        except StoreError as error:
            why = str(error)
        if why:
            self._failed(why)
        if not is_here and not is_there(place.transcript):
            reason = why or "the store does not contain it"
            raise SessionError(
                f"session {place.session_id} not found here, and can't be pulled from the store: {reason}"
            )
        for path in files_of(place):
            self.wrote(path)

    def _begin_anew(self) -> None:
        """Forget which lines were sent, because the files have been replaced."""
        from clew.record.stores.transfer import Sender, blob_folder

        self._sender = Sender(self._store, blob_folder(self._home))

    async def keep(self) -> None:
        """Send changes to the store until cancelled."""
        while True:
            await self._something.wait()
            await asyncio.sleep(PAUSE_S if self._is_failing else QUIET_S)
            self._something.clear()
            await self._send()

    async def _send(self) -> None:
        from clew.record.stores.base import StoreError

        while self._waiting:
            path = next(iter(self._waiting))
            del self._waiting[path]
            try:
                await self._sender.send(path)
            except StoreError as error:
                self._failed(str(error))
                self.wrote(path)
                return
            except asyncio.CancelledError:
                self.wrote(path)
                raise
        self._is_failing = False

    async def finish(self) -> None:
        """Send the remaining changes, once the transcript is complete."""
        try:
            async with asyncio.timeout(LAST_S):
                await self._send()
        except TimeoutError:
            self._failed("the store timed out")


def _place(options: Options, home: Path, cwd: str) -> tuple[SessionPlace | None, bool]:
    """Return the session to be resumed, if it is known, and whether it is on the local disk."""
    from clew.parts.resuming import choose_transcript

    try:
        path = choose_transcript(options, home, cwd)
    except SessionError:
        if options.resume is None or not is_uuid(options.resume):
            raise
        return SessionPlace(
            session_id=options.resume.lower(), project_dir=get_project_dir(home, cwd)
        ), False
    if path is None or path.parent in rescue_dirs(home) or not is_uuid(path.stem):
        return None, True
    return SessionPlace(session_id=path.stem, project_dir=path.parent), True


@asynccontextmanager
async def open_store_copy(ground: Ground) -> AsyncIterator[StoreCopy]:
    """Open the store copy of a session that is about to be opened.

    The copy is closed after the transcript.
    """
    settings = ground.began.settings
    is_on = is_feature_on("remote", settings, ground.environment)
    if not (is_on and ground.options.persists) or read_text(settings, "sessionStore") is None:
        yield StoreCopy()
        return
    from clew.record.stores.base import in_settings
    from clew.record.stores.sealed import open_store

    try:
        name = in_settings(settings)
    except ValueError as error:
        nowhere = StoreCopy()
        nowhere.faults.append(str(error))
        yield nowhere
        return
    async with AsyncExitStack() as opened:
        home = ground.began.places.config_home
        found = await opened.enter_async_context(open_store(name, ground.environ, home, settings))
        store = ConfiguredStore(found, home)
        await store.bring_home(ground.options, home, ground.cwd)
        sending = asyncio.create_task(store.keep())
        try:
            yield store
        finally:
            sending.cancel()
            await asyncio.wait([sending])
            await store.finish()
