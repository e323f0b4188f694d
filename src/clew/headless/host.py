"""Requests of ours that a host answers: asked, answered once, withdrawn when nobody waits any more.

Owns the table of what is open. An answer that never comes because the host has gone is an error
that says so; nothing waits for ever on a closed channel.
"""

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias

from clew.headless.channel import Channel
from clew.messages.errors import ClewError
from clew.wire import frames
from clew.wire.incoming import Answered

Json: TypeAlias = dict[str, Any]

GONE = "stream closed"


class HostError(ClewError):
    """The host answered with an error, or is gone; the text is its own."""


class Host:
    def __init__(self, channel: Channel, new_id: Callable[[], str]) -> None:
        self._channel = channel
        self._new_id = new_id
        self._open: dict[str, asyncio.Future[Json]] = {}
        self._is_gone = False

    async def ask(self, subtype: str, fields: Json, *, timeout_s: float | None = None) -> Json:
        """The host's answer; `HostError` where there is none, TimeoutError after `timeout_s`."""
        if self._is_gone:
            raise HostError(GONE)
        request_id = self._new_id()
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._open[request_id] = answer
        self._channel.post(frames.asked(request_id, subtype, fields))
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except (asyncio.CancelledError, TimeoutError):
            self._channel.post(frames.withdrawn(request_id))
            raise
        finally:
            del self._open[request_id]

    def answered(self, answer: Answered) -> None:
        """Takes an answer; one that nobody waits for is none of our business."""
        waiting = self._open.get(answer.request_id)
        if waiting is None or waiting.done():
            return
        if answer.error is None:
            waiting.set_result(answer.response)
        else:
            waiting.set_exception(HostError(answer.error))

    def leave(self) -> None:
        """The host says nothing more: whoever waits is told."""
        self._is_gone = True
        for waiting in self._open.values():
            if not waiting.done():
                waiting.set_exception(HostError(GONE))

    def open_requests(self) -> list[str]:
        return list(self._open)
