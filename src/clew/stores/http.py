"""A store behind HTTP: a client of three calls, over the project's own transport.

`GET {base}/sessions` (`?session=ID`: of one), and for one transcript (`{base}/sessions/ID` or `.../ID/agents/AGENT`) `GET` for its bytes and
`POST ?at=N` to append lines behind the first N. 409 says that what is there is something else. docs/stores.md.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from clew.stores.base import Key, Listed, StoreError
from clew.transport.seam import Head, HttpRequest, Transport, TransportError

ANSWER_MAX_BYTES = 64 << 20
# No session is as large; a service that never ends is none.
TRANSCRIPT_MAX_BYTES = 2 << 30


class HttpStore:
    """`token` goes out as a bearer's and into no error."""

    def __init__(
        self,
        base: str,
        transport: Transport,
        *,
        token: str = "",
        most_bytes: int = TRANSCRIPT_MAX_BYTES,
    ) -> None:
        self._most_bytes = most_bytes
        self._base = base.rstrip("/")
        self._transport = transport
        self._headers = (("authorization", f"Bearer {token}"),) if token else ()

    async def append(self, key: Key, lines: Sequence[bytes], *, at: int) -> int:
        found = await self._json(
            HttpRequest(
                method="POST",
                url=f"{self._url(key)}?at={at}",
                headers=(*self._headers, ("content-type", "application/x-ndjson")),
                body=b"".join(lines),
            )
        )
        if type(found) is not dict or type(found.get("lines")) is not int:
            raise StoreError("http store: the answer to an append says no number of lines")
        if found["lines"] < at + len(lines):
            raise StoreError("http store: it says that it took fewer lines than it was given")
        return int(found["lines"])

    async def read(self, key: Key) -> AsyncIterator[bytes]:
        request = HttpRequest(method="GET", url=self._url(key), headers=self._headers)
        exchange = self._transport.exchange(request)
        try:
            head = await exchange.open()
            if head.status == 404:
                return
            _refuse(head)
            size = 0
            while piece := await exchange.read():
                size += len(piece)
                if size > self._most_bytes:
                    limit = f"{self._most_bytes >> 20} MiB"
                    raise StoreError(f"http store: the transcript is larger than {limit}")
                yield piece
        except TransportError as error:
            raise StoreError(f"http store: {error.kind}") from None
        finally:
            await exchange.close()

    async def list(self, session_id: str = "") -> Sequence[Listed]:
        query = f"?session={session_id}" if session_id else ""
        url = f"{self._base}/sessions{query}"
        request = HttpRequest(method="GET", url=url, headers=self._headers)
        found = await self._json(request)
        if type(found) is not list:
            raise StoreError("http store: the answer is no list")
        listed = []
        for one in found:
            if not isinstance(one, dict) or type(one.get("sessionId")) is not str:
                raise StoreError("http store: the list holds what is no transcript")
            agent, lines = one.get("agentId"), one.get("lines")
            key = Key(session_id=one["sessionId"], agent_id=agent if type(agent) is str else "")
            if session_id in ("", key.session_id):
                listed.append(Listed(key=key, lines=lines if type(lines) is int else 0))
        return listed

    async def _json(self, request: HttpRequest) -> Any:
        exchange = self._transport.exchange(request)
        try:
            _refuse(await exchange.open())
            data = b""
            while piece := await exchange.read():
                data += piece
                if len(data) > ANSWER_MAX_BYTES:
                    raise StoreError("http store: the answer is too large")
            return msgspec.json.decode(data)
        except TransportError as error:
            raise StoreError(f"http store: {error.kind}") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise StoreError("http store: the answer is no JSON") from None
        finally:
            await exchange.close()

    def _url(self, key: Key) -> str:
        agent = f"/agents/{key.agent_id}" if key.agent_id else ""
        return f"{self._base}/sessions/{key.session_id}{agent}"


def _refuse(head: Head) -> None:
    if head.status == 409:
        raise StoreError("http store: what it holds is not what comes before (409)")
    if not 200 <= head.status < 300:
        raise StoreError(f"http store: status {head.status}")
