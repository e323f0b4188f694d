"""What a server may ask of clew, and what it may tell.

A server is a stranger: it learns the folders it was started for, and nothing else without a person or a
rule. What it asks a person stands under its name, and nothing it says is a permission.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from clew.jsonrpc.wire import INVALID_PARAMS, METHOD_NOT_FOUND, Fault, Params
from clew.mcp.protocol import LIST_CHANGES, LOG_LEVELS, Json, a_text, an_object

Answerer: TypeAlias = Callable[[str, Json], Awaitable[Any]]

KEPT_LINES = 200
MAX_LINE = 500


class Helpers:
    """What stands behind a server's questions; None: it is not offered. Each takes (server, params).

    `completed` is told that what a page was for is done.
    """

    __slots__ = ("completed", "elicit", "roots", "sample")

    def __init__(
        self,
        *,
        roots: Callable[[], Sequence[str]] = tuple,
        elicit: Answerer | None = None,
        sample: Answerer | None = None,
        completed: Callable[[str, Json], object] = lambda _server, _params: None,
    ) -> None:
        self.completed = completed
        self.roots = roots
        self.elicit = elicit
        self.sample = sample


class ServerHost:
    """One server's counterpart. `changed` is told which list is another one now."""

    def __init__(
        self,
        server: str,
        helpers: Helpers,
        *,
        changed: Callable[[str], None],
        updated: Callable[[str], None],
        headers_of: Callable[[str], Mapping[tuple[str, ...], str]] = lambda _: {},
    ) -> None:
        self._server = server
        self._helpers = helpers
        self._changed = changed
        self._updated = updated
        # For a tool: which of its arguments are said in headers too, and under what names.
        self.headers_of = headers_of
        # What the server said about itself, the newest last.
        self.log: deque[str] = deque(maxlen=KEPT_LINES)
        # A person and a model are asked one question at a time, whatever a server sends at once.
        self._one_at_a_time = asyncio.Lock()

    async def asked(self, method: str, params: Params) -> Any | Fault:
        given = an_object(params)
        match method:
            case "ping":
                return {}
            case "roots/list":
                return {"roots": [root(folder) for folder in self._helpers.roots()]}
            case "elicitation/create" if self._helpers.elicit is not None:
                return await self._one(self._helpers.elicit, given)
            case "sampling/createMessage" if self._helpers.sample is not None:
                return await self._one(self._helpers.sample, given)
            case _:
                return Fault(code=METHOD_NOT_FOUND, message=f"{method} is not offered here")

    async def _one(self, answerer: Answerer, params: Json) -> Any | Fault:
        if not params:
            return Fault(code=INVALID_PARAMS, message="params are missing")
        async with self._one_at_a_time:
            return await answerer(self._server, params)

    def told(self, method: str, params: Params) -> None:
        given = an_object(params)
        if method in LIST_CHANGES:
            self._changed(LIST_CHANGES[method])
        elif method == "notifications/resources/updated":
            self._updated(a_text(given.get("uri")))
        elif method == "notifications/elicitation/complete":
            self._helpers.completed(self._server, given)
        elif method == "notifications/message":
            level = given.get("level")
            shown = level if level in LOG_LEVELS else "info"
            self.note(f"{shown}: {said(given.get('data'))}")

    def odd(self, why: str) -> None:
        self.note(why)

    def note(self, line: str) -> None:
        """Keeps a line without what would move a terminal's cursor."""
        self.log.append("".join(c if c.isprintable() else " " for c in line[:MAX_LINE]))


def root(folder: str) -> Json:
    return {"uri": Path(folder).as_uri(), "name": Path(folder).name or folder}


def said(data: Any) -> str:
    if isinstance(data, str):
        return data
    inner = an_object(data).get("message") or an_object(data).get("msg")
    return a_text(inner) or str(data)[:MAX_LINE]
