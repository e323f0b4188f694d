"""Send pushes about questions that are not answered within seconds.

A push goes only to HTTPS addresses of the public internet. Each contains what its browser chose,
encrypted for that browser. Nothing waits for a push service, and a push that fails is not repeated:
the page shows the question anyway.

Decision: docs/decisions/334-web-push.md
"""

import asyncio
import contextlib
import hashlib
import os
import time
from collections import deque
from functools import partial

import msgspec
from msgspec import Struct

from clew.core.json_object import Json
from clew.serve.database import Database, Transaction
from clew.serve.log import RefusedError
from clew.serve.push.encryption import SALT_BYTES, authorize, decode, encrypt, make_private_key
from clew.serve.push.subscriptions import PushTarget, find_private_key, list_targets, remove
from clew.serve.web.lists import show_one
from clew.system.transport.seam import HttpRequest, Transport, TransportError

# A question that is answered within this time needs no push.
WAIT_S = 5.0
SEND_S = 15.0
# How long a push service keeps a push for a browser that is offline.
KEPT_S = 3600
GONE = frozenset({404, 410})
MOST_WAITING = 1_000
WAITS = "A session waits for your answer"
BODY_CHARACTERS = 180


class PushNetwork(Struct, frozen=True, kw_only=True):
    """The way to push services. `allowed` lists the private ones that browsers may name."""

    transport: Transport
    allowed: tuple[str, ...] = ()
    wait_s: float = WAIT_S


class PushDelivery:
    """Questions that may need a push, oldest first."""

    def __init__(self, database: Database, network: PushNetwork) -> None:
        self._database = database
        self._transport = network.transport
        self._wait_s = network.wait_s
        self._asked: deque[tuple[float, str, str]] = deque(maxlen=MOST_WAITING)
        self._changed = asyncio.Event()

    def note(self, session: str, request_id: str) -> None:
        """Send a push about this question if it is still open in a few seconds."""
        self._asked.append((time.monotonic() + self._wait_s, session, request_id))
        self._changed.set()

    async def run(self) -> None:
        """Send pushes until cancelled. A slow push service delays no other push."""
        async with asyncio.TaskGroup() as group:
            while True:
                while not self._asked:
                    self._changed.clear()
                    await self._changed.wait()
                at_s, session, request_id = self._asked.popleft()
                await asyncio.sleep(at_s - time.monotonic())
                read = partial(read_waiting, session=session, request_id=request_id)
                try:
                    private, about, targets = await self._database.read(read)
                except RefusedError:
                    continue  # The database is unavailable.
                for target in targets:
                    text = msgspec.json.encode(describe(session, about, target.detail))
                    group.create_task(self._send(session, target, text, private))

    async def _send(self, session: str, target: PushTarget, text: bytes, private: str) -> None:
        body = encrypt(
            text,
            decode(target.receiver),
            decode(target.secret),
            private=make_private_key(),
            salt=os.urandom(SALT_BYTES),
        )
        headers = {
            "authorization": authorize(target.endpoint, target.subject, private, int(time.time())),
            "content-encoding": "aes128gcm",
            "content-type": "application/octet-stream",
            "ttl": str(KEPT_S),
            "urgency": "high",
            # A later push about the same session replaces one that has not been delivered.
            "topic": hashlib.sha256(session.encode()).hexdigest()[:32],
        }
        request = HttpRequest(
            method="POST", url=target.endpoint, headers=tuple(headers.items()), body=body
        )
        exchange = self._transport.exchange(request)
        try:
            async with asyncio.timeout(SEND_S):
                status = (await exchange.open()).status
        except (TransportError, TimeoutError):
            return
        finally:
            await exchange.close()
        if status in GONE:
            # The browser has unsubscribed.
            with contextlib.suppress(RefusedError):
                await self._database.write(partial(remove, device=target.device))


def read_waiting(
    transaction: Transaction, session: str, request_id: str
) -> tuple[str, Json, list[PushTarget]]:
    """Return the server's key, a session and the browsers to notify of its open question."""
    rows = transaction.run(
        "SELECT owner FROM session JOIN question ON question.session=session.id"
        " WHERE session.id=? AND request=? AND answer=''",
        session,
        request_id,
    )
    if not rows:
        return "", {}, []
    owner = str(rows[0][0])
    about = show_one(transaction, session, owner)
    return find_private_key(transaction), about, list_targets(transaction, owner)


def describe(session: str, about: Json, detail: str) -> Json:
    """Return the content of a push: no text of the session beyond what the user chose."""
    title, question = str(about.get("title") or "Session"), str(about.get("asks") or "")
    shown = title if detail != "none" else "clew"
    body = question[:BODY_CHARACTERS] if detail == "question" and question else WAITS
    return {"session": session, "title": shown, "body": body}
