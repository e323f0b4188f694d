"""A worker's place at a session server: its session, token and epoch. Shared by all workers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from random import random

from clew.core.json_object import Json
from clew.core.stream.sse import ServerSentEvent
from clew.fronts.remote.service import CODE, ServiceError, SessionService, delay_s, session_path


class WorkerLink:
    """The link of one session. `epoch` is 0 before the first connection."""

    def __init__(self, service: SessionService, session: str, title: str, config: Json) -> None:
        self._service = service
        self._session = session
        self._about = {"session_id": session, "title": title, "config": config}
        self.path = session_path(session)
        self._token, self.epoch = "", 0
        self._renewing = asyncio.Lock()

    async def renew(self) -> None:
        """Get a worker's token. A later one must not replace a worker that took over meanwhile."""
        async with self._renewing:
            if self._token:
                return
            await self._service.ask("POST", CODE, self._about)
            expected = {"expected_epoch": self.epoch} if self.epoch else {}
            given = await self._service.ask("POST", f"{self.path}/bridge", expected)
            self.epoch = int(given["worker_epoch"])
            self._token = str(given["worker_jwt"])

    async def ask(self, method: str, path: str, body: Json, **headers: str) -> Json:
        """Send a worker's request. Raise `ServiceError`."""
        body = body | {"worker_epoch": self.epoch}
        path = f"{self.path}/worker{path}"
        return await self._service.ask(method, path, body, token=self._token, **headers)

    def stream(self, after: int) -> AsyncIterator[ServerSentEvent]:
        """Yield what viewers sent after a number."""
        path = f"{self.path}/worker/events/stream"
        return self._service.stream(path, after, token=self._token)

    async def persist(
        self,
        work: Callable[[], Awaitable[None]],
        note: Callable[[ServiceError | None], None],
        *,
        is_up: Callable[[], bool],
    ) -> None:
        """Do work again and again, with pauses after failures that may pass.

        `note` is called with such a failure, or with None when the server answers again.
        """
        attempt = 0
        while True:
            try:
                await self.renew()
                if not is_up():
                    await self.ask("POST", "/heartbeat", {})
                    note(None)
                    attempt = 0
                await work()
            except ServiceError as error:
                if error.status == 401 and self._token:
                    self._token = ""  # It has expired, or was revoked with its device.
                    continue
                if not error.is_passing:
                    raise
                note(error)
                await asyncio.sleep(delay_s(attempt, random))
                attempt += 1
