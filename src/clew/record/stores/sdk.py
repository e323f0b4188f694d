"""A session store on a clew server, for programs that use the Agent SDK for Python.

`ServedSessions` has the methods of the SDK's `SessionStore` and imports nothing from the SDK.
"""

from typing import Any
from urllib.parse import urlencode

import msgspec

from clew.core.json_object import Json
from clew.record.stores.base import ANSWER_MAX_BYTES, StoreError
from clew.system.transport.http import HttpTransport
from clew.system.transport.network import Network
from clew.system.transport.seam import HttpRequest, Transport, TransportError


class ServedSessions:
    """A store at the server with this URL. Keys are the SDK's: project, session and subpath."""

    def __init__(self, url: str, *, token: str, transport: Transport | None = None) -> None:
        self._url = url.rstrip("/").removesuffix("/v1") + "/v1/entries"
        self._transport = HttpTransport(Network()) if transport is None else transport
        self._headers = (("authorization", f"Bearer {token}"),)

    async def append(self, key: Json, entries: list[Json]) -> None:
        """Append entries to the stored ones. Ignore an entry whose UUID is already stored."""
        if entries:
            lines = b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries)
            await self._ask("POST", query_of(key), lines)

    async def load(self, key: Json) -> list[Json] | None:
        """Return the entries with this key, or None if there are none."""
        data = await self._ask("GET", query_of(key))
        if data is None:
            return None
        return [msgspec.json.decode(line) for line in data.split(b"\n") if line]

    async def list_sessions(self, project_key: str) -> list[Json]:
        latest: dict[str, int] = {}
        for row in await self._keys(project=project_key):
            if not row["subpath"]:
                latest[row["session"]] = row["mtime"]
        return [{"session_id": session, "mtime": at} for session, at in latest.items()]

    async def list_subkeys(self, key: Json) -> list[str]:
        rows = await self._keys(project=key["project_key"], session=key["session_id"])
        return [row["subpath"] for row in rows if row["subpath"]]

    async def delete(self, key: Json) -> None:
        """Delete the transcript with this key or, if it has no subpath, the entire session."""
        await self._ask("DELETE", query_of(key))

    async def _keys(self, **names: str) -> list[Json]:
        data = await self._ask("GET", urlencode(names), path="/keys")
        rows: list[Json] = msgspec.json.decode(data or b"[]")
        return rows

    async def _ask(
        self, method: str, query: str, body: bytes = b"", path: str = ""
    ) -> bytes | None:
        """Return the body of the response, or None if nothing is stored under the key.

        Raise `StoreError` if the request fails.
        """
        request = HttpRequest(
            method=method, url=f"{self._url}{path}?{query}", headers=self._headers, body=body
        )
        exchange = self._transport.exchange(request)
        try:
            head = await exchange.open()
            if head.status == 404 and method == "GET":
                return None
            if not 200 <= head.status < 300:
                raise StoreError(f"session server: HTTP status {head.status}")
            data = bytearray()
            while piece := await exchange.read():
                data += piece
                if len(data) > ANSWER_MAX_BYTES:
                    raise StoreError("session server: the response is too large")
            return bytes(data)
        except TransportError as error:
            raise StoreError(f"session server: {error.kind}") from None
        finally:
            await exchange.close()


def query_of(key: Json) -> str:
    fields: dict[str, Any] = {
        "project": key["project_key"],
        "session": key["session_id"],
        "subpath": key.get("subpath") or "",
    }
    return urlencode(fields)
