"""Subscriptions to changes of sessions, and frames that are forwarded without being stored.

A stream reads from the log every event after the last one that it sent, so a lost or duplicate
signal does no harm. Frames that are never stored (streaming answers) wait in a bounded queue for
each stream; a slow reader loses the oldest frames.
"""

import asyncio
from collections import deque

import msgspec

from clew.core.json_object import Json

# The most frames that wait for a slow reader.
MOST_WAITING = 1_000


class Subscriber:
    """One open stream. To end it, set `is_closed` and wake it."""

    def __init__(self, session: str, device: str, worker_of: str = "") -> None:
        self.session = session
        # The device of a viewer, or the one for which a worker's token was created.
        self.device = device
        self.worker_of = worker_of
        self.is_closed = False
        # Frames for streams, and their payloads for WebSockets.
        self._frames: deque[tuple[bytes, Json | None]] = deque(maxlen=MOST_WAITING)
        self._changed = asyncio.Event()
        # Whether the log may have changed since it was last read.
        self._has_news = True

    def wake(self) -> None:
        self._has_news = True
        self._changed.set()

    def take_news(self) -> bool:
        """Return whether the log may have changed since the last call."""
        has_news, self._has_news = self._has_news, False
        return has_news

    def pass_on(self, frame: bytes, payload: Json | None) -> None:
        self._frames.append((frame, payload))
        self._changed.set()

    def take(self) -> list[bytes]:
        """Remove and return the waiting frames; only later signals end the next `wait`."""
        return [frame for frame, _ in self._take()]

    def take_payloads(self) -> list[bytes]:
        """Return the payloads of the waiting frames, as lines of JSON."""
        payloads = [payload for _, payload in self._take() if payload is not None]
        return [msgspec.json.encode(payload) + b"\n" for payload in payloads]

    def _take(self) -> list[tuple[bytes, Json | None]]:
        self._changed.clear()
        frames = list(self._frames)
        self._frames.clear()
        return frames

    async def wait(self, timeout_s: float) -> bool:
        """Wait for a change; return False after a timeout."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True


class Feed:
    """All open streams of this server."""

    def __init__(self) -> None:
        self._open: dict[str, set[Subscriber]] = {}
        # The number of changes so far. What was read before the last one may be out of date.
        self.changes = 0

    def open(self, session: str, device: str, worker_of: str = "") -> Subscriber:
        subscriber = Subscriber(session, device, worker_of)
        self._open.setdefault(session, set()).add(subscriber)
        return subscriber

    def close(self, subscriber: Subscriber) -> None:
        streams = self._open.get(subscriber.session, set())
        streams.discard(subscriber)
        if not streams:
            self._open.pop(subscriber.session, None)

    def changed(self, session: str) -> None:
        self.changes += 1
        for subscriber in self._open.get(session, ()):
            subscriber.wake()

    def pass_on(self, session: str, frame: bytes, payload: Json | None = None) -> None:
        for subscriber in self._open.get(session, ()):
            if subscriber.device:
                subscriber.pass_on(frame, payload)

    def has_viewers(self, session: str) -> bool:
        return any(subscriber.device for subscriber in self._open.get(session, ()))

    def close_device(self, device: str) -> None:
        """End the streams of a device."""
        for streams in self._open.values():
            for subscriber in streams:
                if device in (subscriber.device, subscriber.worker_of):
                    subscriber.is_closed = True
                    subscriber.wake()

    def close_all(self) -> None:
        for streams in self._open.values():
            for subscriber in streams:
                subscriber.is_closed = True
                subscriber.wake()
