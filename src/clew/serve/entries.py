"""The routes of clew's own API: copies of transcripts, line by line, and the files they need.

Described in docs/using/serve.md.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TypeAlias

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from clew.serve import devices, transcripts
from clew.serve.database import Database
from clew.serve.devices import Device
from clew.serve.frames import now_ms
from clew.serve.log import RefusedError
from clew.serve.requests import (
    BODY_MAX_BYTES,
    entry_key,
    parse_number,
    parse_project,
    read_body,
    split_lines,
)
from clew.serve.streams import PatientStream

Answer: TypeAlias = Callable[[Request], Awaitable[Response]]
Handler: TypeAlias = Callable[[Device, Request], Awaitable[Response]]

PAGE_LINES = 500


class EntryRoutes:
    """The routes for transcripts and blobs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def routes(self, for_device: Callable[[Handler, str], Answer]) -> list[Route]:
        return [
            Route("/v1/entries", for_device(self._read, "view"), methods=["GET"]),
            Route("/v1/entries", for_device(self._append, "start"), methods=["POST"]),
            Route("/v1/entries", for_device(self._delete, "admin"), methods=["DELETE"]),
            Route("/v1/entries/keys", for_device(self._list, "view"), methods=["GET"]),
            Route("/v1/blobs/{name}", for_device(self._get_blob, "view"), methods=["GET"]),
            Route("/v1/blobs/{name}", for_device(self._put_blob, "start"), methods=["PUT"]),
        ]

    async def _read(self, device: Device, request: Request) -> Response:
        key = entry_key(device, request)
        after = parse_number(request, "after", 0)
        count, chain = await self._database.look(partial(transcripts.find_transcript, key=key))
        if not count:
            raise RefusedError(404, "not_found", "transcript not found")
        headers = {"clew-lines": str(count), "clew-chain": chain.hex()}
        if "at" in request.query_params:
            # The hash of the first lines, with which a worker finds where copies diverge.
            at = parse_number(request, "at", 0)
            chain_hash = await self._database.look(partial(transcripts.chain_at, key=key, count=at))
            return JSONResponse(
                {
                    "lines": count,
                    "chain": chain.hex(),
                    "chain_at": None if chain_hash is None else chain_hash.hex(),
                }
            )
        return PatientStream(
            self._lines(key, after, count), media_type="application/x-ndjson", headers=headers
        )

    async def _lines(
        self, key: tuple[str, str, str], after: int, count: int
    ) -> AsyncIterator[bytes]:
        while after < count:
            limit = min(PAGE_LINES, count - after)
            page = await self._database.read(
                partial(transcripts.read_lines, key=key, after=after, limit=limit)
            )
            if not page:  # Deleted in the meantime.
                return
            after += len(page)
            yield b"".join(page)

    async def _append(self, device: Device, request: Request) -> Response:
        """Append lines after a position or, if none is given, the lines with new UUIDs."""
        key = entry_key(device, request)
        lines = split_lines(await read_body(request, BODY_MAX_BYTES))
        epoch = request.headers.get("clew-epoch")
        at = parse_number(request, "at", 0) if "at" in request.query_params else None
        append = partial(
            transcripts.append_lines,
            key=key,
            lines=lines,
            at=at,
            epoch=int(epoch) if epoch is not None and epoch.isdecimal() else None,
            now_ms=now_ms(),
        )
        count, chain = await self._database.write(append)
        return JSONResponse({"lines": count, "chain": chain.hex()})

    async def _delete(self, device: Device, request: Request) -> Response:
        project, session, agent = entry_key(device, request)
        delete = partial(
            transcripts.delete_transcripts, project=project, session=session, agent=agent or None
        )
        await self._database.write(delete)
        return Response(status_code=204)

    async def _list(self, device: Device, request: Request) -> Response:
        project, session = parse_project(device, request), request.query_params.get("session", "")
        rows = await self._database.read(
            partial(transcripts.list_transcripts, project=project, session=session)
        )
        return JSONResponse(
            [
                {"session": name, "subpath": agent, "lines": lines, "mtime": at}
                for name, agent, lines, at in rows
            ]
        )

    async def _put_blob(self, _: Device, request: Request) -> Response:
        body = await read_body(request, BODY_MAX_BYTES)
        put = partial(devices.put_blob, name=request.path_params["name"], body=body)
        await self._database.write(put)
        return Response(status_code=204)

    async def _get_blob(self, _: Device, request: Request) -> Response:
        get = partial(devices.get_blob, name=request.path_params["name"])
        return Response(await self._database.read(get), media_type="application/octet-stream")
