"""A worker's registration at a session server: its session, token and epoch."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from random import random

from clew.core.json_object import Json, object_of
from clew.core.stream.sse import ServerSentEvent
from clew.fronts.remote.service import CODE, ServiceError, SessionService, delay_s, session_path
from clew.system.clock import make_id


class ExpiredTokenError(ServiceError):
    """The server no longer accepts a worker's token; the next request gets a new one."""


class WorkerLink:
    """The link of one session to its server. `epoch` is 0 before the first connection.

    A request may reach the server twice, late, or without its response coming back. Each
    registration therefore contains the worker's ID and the epoch that it follows: a repeated
    registration changes nothing, and one from a killed worker does not replace that worker's
    successor.
    """

    def __init__(self, service: SessionService, session: str, title: str, config: Json) -> None:
        self._service = service
        self._session = session
        self._about = {"session_id": session, "title": title, "config": config}
        self.path = session_path(session)
        self._worker_id = make_id()
        self._token, self.epoch = "", 0
        self._renewing = asyncio.Lock()

    async def renew(self) -> None:
        """Request a worker token. A renewal must not replace another worker that has taken over.

        The first registration replaces any worker that the session had before.
        """
        async with self._renewing:
            if self._token:
                return
            made = await self._service.ask("POST", CODE, self._about)
            # The first registration replaces whichever worker the session had.
            before = self.epoch or object_of(made.get("session")).get("worker_epoch")
            asked: Json = {"worker_id": self._worker_id}
            if isinstance(before, int):
                asked["expected_epoch"] = before
            try:
                reply = await self._service.ask("POST", f"{self.path}/bridge", asked)
            except ServiceError as error:
                if error.reason == "superseded_by_worker" and not self.epoch:
                    # Another worker registered in between; replace it as well.
                    raise ServiceError(0, error.reason, str(error)) from None
                raise
            self.epoch = int(reply["worker_epoch"])
            self._token = str(reply["worker_jwt"])

    async def ask(self, method: str, path: str, body: Json, **headers: str) -> Json:
        """Send a worker's request and return the response. Raise `ServiceError` on failure."""
        await self.renew()
        token, body = self._token, body | {"worker_epoch": self.epoch}
        path = f"{self.path}/worker{path}"
        try:
            return await self._service.ask(method, path, body, token=token, **headers)
        except ServiceError as error:
            raise self._note_refusal(error, token) from None

    async def stream(self, after: int) -> AsyncIterator[ServerSentEvent]:
        """Yield the events that viewers sent after the one with the number `after`."""
        await self.renew()
        token, path = self._token, f"{self.path}/worker/events/stream"
        try:
            async for event in self._service.stream(path, after, token=token):
                yield event
        except ServiceError as error:
            raise self._note_refusal(error, token) from None

    def _note_refusal(self, error: ServiceError, token: str) -> ServiceError:
        """Return the error to raise. If the server rejected the token, forget the token.

        A token is rejected if it has expired, or was revoked with its device.
        """
        if error.status != 401:
            return error
        # A request that was sent earlier must not discard the token that arrived in the meantime.
        if token == self._token:
            self._token = ""
        return ExpiredTokenError(error.status, error.reason, str(error))

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
            except ExpiredTokenError:
                continue
            except ServiceError as error:
                if not error.is_passing:
                    raise
                note(error)
                await asyncio.sleep(delay_s(attempt, random))
                attempt += 1
