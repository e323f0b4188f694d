"""The client for one MCP server: sends requests over one connection, in either protocol variant.

Owns the handshake, the metadata of stateless requests, the server's requests for input, and the
pagination of lists. The structure of a server's response is checked; its content is not trusted.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from clew.core.json_object import Json
from clew.parts.mcp import protocol
from clew.parts.mcp.protocol import LIST_CHANGES, LOG_LEVELS, Agreement, as_object, as_text
from clew.system.jsonrpc import wire
from clew.system.jsonrpc.connection import Connection, OnProgress
from clew.system.jsonrpc.peer import Outcome, PeerAnswer, PeerFailure
from clew.system.jsonrpc.wire import INVALID_PARAMS, METHOD_NOT_FOUND, Params, RpcFault

# Handle requests and notifications from a server.


Answerer: TypeAlias = Callable[[str, Json], Awaitable[Any]]
# Takes a server's name, and the method and parameters of a notification.
Hear: TypeAlias = Callable[[str, str, Json], object]

KEPT_LINES = 200
MAX_LINE = 500


class Helpers:
    """The functions that answer a server's requests; None means that a request is not supported.

    `elicit`, `sample` and `completed` are called with the server's name and the request's
    parameters; `completed` is called when the user has finished on a web page that the server sent
    them to. `hear` gets the notifications that MCP does not define.
    """

    __slots__ = ("completed", "elicit", "hear", "roots", "sample")

    def __init__(
        self,
        *,
        roots: Callable[[], Sequence[str]] = tuple,
        elicit: Answerer | None = None,
        sample: Answerer | None = None,
        completed: Callable[[str, Json], object] = lambda _server, _params: None,
        hear: Hear = lambda _server, _method, _params: None,
    ) -> None:
        self.completed = completed
        self.hear = hear
        self.roots = roots
        self.elicit = elicit
        self.sample = sample


class ServerHost:
    """Answers the requests of one server and receives its notifications.

    `changed` is called with the name of a list that has changed.
    """

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
        # For a tool: the arguments that are repeated in headers, and the names of these headers.
        self.headers_of = headers_of
        # The server's log messages, the newest last.
        self.log: deque[str] = deque(maxlen=KEPT_LINES)
        # The user and the model receive one question at a time, however many a server sends.
        self._one_at_a_time = asyncio.Lock()

    async def asked(self, method: str, params: Params) -> Any | RpcFault:
        fields = as_object(params)
        match method:
            case "ping":
                return {}
            case "roots/list":
                return {"roots": [root(folder) for folder in self._helpers.roots()]}
            case "elicitation/create" if self._helpers.elicit is not None:
                return await self._one(self._helpers.elicit, fields)
            case "sampling/createMessage" if self._helpers.sample is not None:
                return await self._one(self._helpers.sample, fields)
            case _:
                return RpcFault(code=METHOD_NOT_FOUND, message=f"{method} is not supported")

    async def _one(self, answerer: Answerer, params: Json) -> Any | RpcFault:
        if not params:
            return RpcFault(code=INVALID_PARAMS, message="missing params")
        async with self._one_at_a_time:
            return await answerer(self._server, params)

    def told(self, method: str, params: Params) -> None:
        fields = as_object(params)
        if method in LIST_CHANGES:
            self._changed(LIST_CHANGES[method])
        elif method == "notifications/resources/updated":
            self._updated(as_text(fields.get("uri")))
        elif method == "notifications/elicitation/complete":
            self._helpers.completed(self._server, fields)
        elif method == "notifications/message":
            level = fields.get("level")
            level_name = level if level in LOG_LEVELS else "info"
            self.note(f"{level_name}: {said(fields.get('data'))}")
        else:
            self._helpers.hear(self._server, method, fields)

    def odd(self, why: str) -> None:
        self.note(why)

    def note(self, line: str) -> None:
        """Add a line to the server's log, without control characters."""
        self.log.append("".join(c if c.isprintable() else " " for c in line[:MAX_LINE]))


def root(folder: str) -> Json:
    return {"uri": Path(folder).as_uri(), "name": Path(folder).name or folder}


def said(data: Any) -> str:
    if isinstance(data, str):
        return data
    inner = as_object(data).get("message") or as_object(data).get("msg")
    return as_text(inner) or str(data)[:MAX_LINE]


Ask: TypeAlias = Callable[[str, Any], Awaitable[Any]]

HANDSHAKE_PATIENCE_S = 30.0
LIST_PATIENCE_S = 30.0
# Limits for the pages and items that are read, however many a server lists.
MOST_PAGES = 50
MOST_LISTED = 2000
MOST_ROUNDS = 10
# The pause before a server that requested no input is asked again.
AGAIN_AFTER_S = 0.1


async def negotiate(
    connection: Connection, offered: Json, *, stateless: bool = False
) -> Agreement | PeerFailure:
    """Negotiate the protocol version, with a handshake unless `stateless` is true.

    Nearly every server supports the handshake. A server that supports only stateless requests
    rejects it and lists its versions, which costs one more exchange. Sending `server/discover`
    first would cost older servers an error or a long timeout.
    """
    if stateless:
        return await discover(connection, offered, protocol.STATELESS_VERSIONS[0])
    outcome = await connection.request(
        "initialize", protocol.initialize(offered), patience_s=HANDSHAKE_PATIENCE_S
    )
    if isinstance(outcome, PeerFailure):
        version = protocol.wants_stateless(outcome)
        return outcome if version is None else await discover(connection, offered, version)
    agreement = protocol.read_agreement(outcome.result)
    if isinstance(agreement, str):
        return PeerFailure(kind="invalid", message=agreement)
    connection.notify("notifications/initialized")
    return agreement


async def discover(connection: Connection, offered: Json, version: str) -> Agreement | PeerFailure:
    params = {"_meta": protocol.make_meta(version, offered, None)}
    outcome = await connection.request("server/discover", params, patience_s=HANDSHAKE_PATIENCE_S)
    if isinstance(outcome, PeerFailure):
        return outcome
    agreement = protocol.read_discovery(outcome.result)
    return (
        PeerFailure(kind="invalid", message=agreement) if isinstance(agreement, str) else agreement
    )


class McpClient:
    """Sends requests to one server.

    `ask` answers the server's own requests, such as those for input.
    """

    def __init__(
        self, connection: Connection, agreement: Agreement, offered: Json, ask: Ask
    ) -> None:
        self.agreement = agreement
        self._connection = connection
        self._offered = offered
        self._ask = ask

    @property
    def is_stateless(self) -> bool:
        return self.agreement.era == "stateless"

    @property
    def is_lost(self) -> bool:
        return self._connection.is_lost

    def hear(self, message: Json) -> None:
        self._connection.deliver(wire.read_value(message))

    async def call(
        self,
        method: str,
        params: Json | None = None,
        *,
        patience_s: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Outcome:
        """Send a request; if the server asks for input, send the request again with the input."""
        request_params = dict(params or {})
        for _ in range(MOST_ROUNDS):
            outcome = await self._once(method, request_params, patience_s, on_progress)
            if not isinstance(outcome, PeerAnswer) or not protocol.needs_input(outcome.result):
                return outcome
            answers = await self._answers(outcome.result)
            if isinstance(answers, PeerFailure):
                return answers
            request_params = {**(params or {}), **answers}
        return PeerFailure(
            kind="invalid",
            message=f"the server asked for input {MOST_ROUNDS} times, which is the limit",
        )

    async def _once(
        self, method: str, params: Json, patience_s: float | None, on_progress: OnProgress | None
    ) -> Outcome:
        identity = self._connection.next_id()
        meta: Json = {}
        if on_progress is not None:
            meta["progressToken"] = identity
        if self.is_stateless:
            meta |= protocol.make_meta(self.agreement.version, self._offered, "info")
        return await self._connection.request(
            method,
            protocol.with_meta(params, meta) if meta else params or None,
            identity=identity,
            patience_s=patience_s,
            on_progress=on_progress,
        )

    async def _answers(self, wanted: Json) -> Json | PeerFailure:
        """Ask for the input that a server wants; return the fields to add to the repeated request.

        They contain the input and the server's own state.
        """
        fields: Json = {}
        if isinstance(wanted.get("requestState"), str):
            fields["requestState"] = wanted["requestState"]
        requests = protocol.as_object(wanted.get("inputRequests"))
        if not requests:
            await asyncio.sleep(AGAIN_AFTER_S)
            return fields
        answers: Json = {}
        for key, request in requests.items():
            question = protocol.as_object(request)
            answer = await self._ask(
                protocol.as_text(question.get("method")), question.get("params")
            )
            if isinstance(answer, RpcFault):
                return PeerFailure(kind="refused", message=answer.message, code=answer.code)
            answers[key] = answer
        return fields | {"inputResponses": answers}

    async def listed(self, kind: str, method: str, key: str) -> list[Json] | PeerFailure:
        """Return the items of a list, from all its pages, or the failure.

        The result is empty if the server has no such list, and has at most `MOST_LISTED` items.
        """
        if not self.agreement.offers(kind):
            return []
        listing: list[Json] = []
        cursor: str | None = None
        seen: set[str] = set()
        for _ in range(MOST_PAGES):
            params = None if cursor is None else {"cursor": cursor}
            outcome = await self.call(method, params, patience_s=LIST_PATIENCE_S)
            if isinstance(outcome, PeerFailure):
                # Servers that announce tools before they have any don't know the method.
                return [] if outcome.code == METHOD_NOT_FOUND else outcome
            page = protocol.as_object(outcome.result)
            items = page.get(key)
            if not isinstance(items, list):
                return PeerFailure(
                    kind="invalid", message=f"{method}: the response contains no {key}"
                )
            listing += [item for item in items if isinstance(item, dict)]
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or cursor in seen or len(listing) >= MOST_LISTED:
                break
            seen.add(cursor)
        return listing[:MOST_LISTED]
