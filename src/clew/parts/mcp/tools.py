"""Tools from MCP servers, as tools of the session.

What a server says about its tools is an untrusted hint: it affects the order of calls and the text
of a permission prompt, never whether a call is allowed. If a call fails, the model receives the
error as a result that it can act on.
"""

import asyncio
from typing import Any

from msgspec import Struct

from clew.agent.tools.base import (
    RESULT_MAX_CHARS,
    Progress,
    Tool,
    ToolContext,
    ToolOutcome,
    make_failure,
)
from clew.core.json_object import Json
from clew.parts.mcp.catalogue import ToolOffer
from clew.parts.mcp.content import ServerReply, as_json, reply_of
from clew.parts.mcp.protocol import URL_ELICITATION_REQUIRED, as_object, as_text
from clew.parts.mcp.server import McpServer
from clew.system.jsonrpc.peer import Outcome, PeerFailure

UNSURE = "The call may or may not have taken effect."

# How long a call waits for a server that is reconnecting.
RECONNECT_WAIT_S = 10.0
CALL_PATIENCE_S = 600.0
# The limit for a result's size, even if a server requests more.
RESULT_CEILING_CHARS = 500_000
MAX_DATA = 2000
# The maximum number of characters of a progress message.
MESSAGE_CHARACTERS = 200


class ServerArguments(Struct, frozen=True):
    """The arguments of a call, which follow the server's own schema."""

    values: dict[str, Any]


class McpTool(Tool[ServerArguments]):
    """One tool of an MCP server, which the model can call."""

    is_mcp = True
    owns_its_time = True

    def __init__(
        self, offer: ToolOffer, server: McpServer, *, patience_s: float, is_deferred: bool
    ) -> None:
        self.offer = offer
        self.is_deferred = is_deferred and not offer.always_load
        self.name = offer.name
        self.description = offer.title
        self.prompt = offer.description or offer.title
        self.foreign_schema = offer.input_schema
        self.result_max_chars = min(
            max(offer.max_result_chars or 0, RESULT_MAX_CHARS), RESULT_CEILING_CHARS
        )
        self._server = server
        self._patience_s = server.config.timeout_s or patience_s

    @property
    def input_type(self) -> type[ServerArguments]:
        return ServerArguments

    def is_read_only(self, arguments: ServerArguments) -> bool:
        return self.offer.read_only

    def is_destructive(self, arguments: ServerArguments) -> bool:
        return self.offer.destructive and not self.offer.read_only

    def title(self, arguments: ServerArguments) -> str:
        text = as_json(arguments.values)
        return f"{self.name} {text if len(text) <= 200 else text[:200] + '…'}"

    async def call(self, arguments: ServerArguments, ctx: ToolContext) -> ToolOutcome:
        params = {
            "name": self.offer.tool,
            "arguments": arguments.values,
            "_meta": {"claudecode/toolUseId": ctx.tool_use_id},
        }
        outcome = await self._asked(params, ctx)
        if isinstance(outcome, PeerFailure) and await self._visited(outcome):
            outcome = await self._asked(params, ctx)
        if isinstance(outcome, PeerFailure):
            return make_failure(describe_refusal(self.offer.server, outcome, self._patience_s))
        is_in_host = self._server.config.kind == "sdk"
        return result_of(
            reply_of(outcome.result), as_object(outcome.result), keeps_blocks=is_in_host
        )

    async def _asked(self, params: Json, ctx: ToolContext) -> Outcome:
        news = ProgressNews(ctx)
        try:
            return await self._server.call(
                "tools/call",
                params,
                patience_s=self._patience_s,
                on_progress=news.heard,
                wait_s=RECONNECT_WAIT_S,
            )
        finally:
            await news.aclose()

    async def _visited(self, failure: PeerFailure) -> bool:
        """Ask the user to visit the pages that a server requires before a call.

        Return whether the user did.
        """
        wanted = as_object(failure.data).get("elicitations")
        if failure.code != URL_ELICITATION_REQUIRED or not isinstance(wanted, list) or not wanted:
            return False
        for question in wanted:
            answer = await self._server.host.asked("elicitation/create", question)
            if as_object(answer).get("action") != "accept":
                return False
        return True


class ProgressNews:
    """Forwards a server's progress messages. If several arrive at once, only the last one is sent.

    The task that sends them starts with the first message, because most calls report no progress.
    """

    def __init__(self, ctx: ToolContext) -> None:
        self._ctx = ctx
        self._last: Json | None = None
        self._telling: asyncio.Task[None] | None = None

    def heard(self, step: Json) -> None:
        self._last = step
        if self._telling is None or self._telling.done():
            self._telling = asyncio.ensure_future(self._tell())

    async def _tell(self) -> None:
        while self._last is not None:
            step, self._last = self._last, None
            await self._ctx.emit(Progress(text=in_words(step), data=figures_of(step)))

    async def aclose(self) -> None:
        """Wait until the last message has been sent."""
        if self._telling is not None:
            await asyncio.wait([self._telling])


def figures_of(step: Json) -> Json:
    """Return the data of a progress message in the format for hosts."""
    names = ("progress", "total")
    counts = {n: step[n] for n in names if isinstance(step.get(n), (int, float))}
    message = as_text(step.get("message"))[:MESSAGE_CHARACTERS]
    return {"type": "mcp_progress", **counts, **({"message": message} if message else {})}


def in_words(step: Json) -> str:
    figures = figures_of(step)
    counted = f"{figures['progress']:g}" if "progress" in figures else ""
    if counted and "total" in figures:
        counted = f"{counted} of {figures['total']:g}"
    return " ".join(filter(None, (counted, figures.get("message", ""))))


def result_of(reply: ServerReply, raw: Json, *, keeps_blocks: bool = False) -> ToolOutcome:
    """Return a server's reply as a call's outcome.

    A single block of text becomes a string. With `keeps_blocks`, which is for the own servers of
    the Agent SDK's hosts, it stays a list of blocks.
    """
    blocks = reply.blocks
    only = blocks[0]["text"] if len(blocks) == 1 and blocks[0]["type"] == "text" else None
    content: str | list[Json] = blocks if only is None or keeps_blocks else only
    if reply.is_error:
        words = reply.words or "the tool failed without an error message"
        return ToolOutcome(
            content=content or words,
            is_error=True,
            tool_use_result=f"Error: {words}",
            display=words.split("\n", 1)[0],
        )
    content = content or "The tool returned nothing."
    structured = None if reply.structured is None else {"structuredContent": reply.structured}
    return ToolOutcome(
        content=content,
        tool_use_result=(
            raw.get("content", []) if structured is None else {"content": content} | structured
        ),
        mcp_meta=structured,
        display=reply.words.split("\n", 1)[0][:200],
    )


def describe_refusal(server: str, failure: PeerFailure, patience_s: float) -> str:
    """Return the error message that the model receives for a failed call."""
    match failure.kind:
        case "timeout":
            return (
                f"The server {server} was silent for {patience_s:g} s, so the call was cancelled. "
                f"{UNSURE}"
            )
        case "lost":
            return f"The server {server} disconnected during the call: {failure.message}. {UNSURE}"
        case "unsent":
            return f"The call was not made: {failure.message}."
        case "refused":
            data = "" if failure.data is None else f" {as_json(failure.data)[:MAX_DATA]}"
            return (
                f"The server {server} rejected the call: {failure.message} ({failure.code}){data}"
            )
        case _:
            return f"The server {server} returned an invalid response: {failure.message}"
