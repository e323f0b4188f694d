"""A worker's registration at a session server: its session, token and epoch."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from random import random

from clew.core.json_object import Json
from clew.core.stream.sse import ServerSentEvent
from clew.fronts.remote.service import CODE, ServiceError, SessionService, delay_s, session_path


class WorkerLink:
    """The link of one session to its server. `epoch` is 0 before the first connection."""

    def __init__(self, service: SessionService, session: str, title: str, config: Json) -> None:
        self._service = service
        self._session = session
        self._about = {"session_id": session, "title": title, "config": config}
        self.path = session_path(session)
        self._token, self.epoch = "", 0
        self._renewing = asyncio.Lock()

    async def renew(self) -> None:
        """Request a worker token. A renewal must not replace another worker that has taken over."""
        async with self._renewing:
            if self._token:
                return
            await self._service.ask("POST", CODE, self._about)
            expected = {"expected_epoch": self.epoch} if self.epoch else {}
            reply = await self._service.ask("POST", f"{self.path}/bridge", expected)
            self.epoch = int(reply["worker_epoch"])
            self._token = str(reply["worker_jwt"])

    async def ask(self, method: str, path: str, body: Json, **headers: str) -> Json:
        """Send a worker's request. Raise `ServiceError`."""
        body = body | {"worker_epoch": self.epoch}
        path = f"{self.path}/worker{path}"
        return await self._service.ask(method, path, body, token=self._token, **headers)

    def stream(self, after: int) -> AsyncIterator[ServerSentEvent]:
        """Yield the events that viewers sent after a number."""
        path = f"{self.path}/worker/events/stream"
        return self._service.stream(path, after, token=self._token)

    async def persist(
        self,
        work: Callable[[], Awaitable[None]],
        note: Callable[[ServiceError | None], None],
        *,
        is_up: Callable[[], bool],
    ) -> None:
        """Repeat `work` forever, with a pause after each temporary failure.

        `note` is called with each failure, and with None when the server answers again.
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
                    self._token = ""  # The token has expired, or was revoked with its device.
                    continue
                if not error.is_passing:
                    raise
                note(error)
                await asyncio.sleep(delay_s(attempt, random))
                attempt += 1
