"""Long-lived responses: bodies for slow readers, and streams of a session's events."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from clew.serve import log
from clew.serve.database import Database, Transaction
from clew.serve.feed import Feed, Subscriber
from clew.serve.frames import event_frame
from clew.serve.log import LoggedEvent, RefusedError

# Proxies close idle connections, and the published viewer gives up after 45 s.
SILENCE_S = 15.0
# A reader that reads nothing for this long is disconnected. It can resume where it stopped.
STALLED_S = 30.0
PAGE = 200


class PatientStream(StreamingResponse):
    """A response that ends if the client stops reading."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_soon(message: Any) -> None:
            async with asyncio.timeout(STALLED_S):
                await send(message)

        with contextlib.suppress(TimeoutError):
            await super().__call__(scope, receive, send_soon)


class EventStream(PatientStream):
    """A response of server-sent events."""

    def __init__(self, content: AsyncIterator[bytes]) -> None:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(content, media_type="text/event-stream", headers=headers)


async def read_frames(
    database: Database,
    feed: Feed,
    subscriber: Subscriber,
    after: int,
    source: str,
    is_allowed: Callable[[Transaction], bool],
) -> AsyncIterator[bytes]:
    """Yield the events after a number, then new ones as long as the reader has access.

    Questions that have an answer are omitted, so that a new viewer is not asked again.
    """
    session = subscriber.session

    def read(transaction: Transaction) -> tuple[list[LoggedEvent], set[int]] | None:
        if not is_allowed(transaction):
            return None
        events = log.read_events(transaction, session, after, PAGE, source)
        is_asked = any(event.kind == "control_request" for event in events)
        return events, log.closed_questions(transaction, session) if is_asked else set()

    try:
        yield b": connected\n\n"
        while not subscriber.is_closed:
            passing = subscriber.take()
            batch = await database.read(read)
            if batch is None:
                return
            events, closed = batch
            frames = [*passing, *(event_frame(e) for e in events if e.seq not in closed)]
            if events:
                after = events[-1].seq
            if frames:
                yield b"".join(frames)
            if len(events) == PAGE:
                continue
            if not await subscriber.wait(SILENCE_S):
                yield b": alive\n\n"
    except RefusedError:
        return  # The database is unavailable. The reader resumes after its last number.
    finally:
        feed.close(subscriber)
