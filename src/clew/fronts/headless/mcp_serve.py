"""`clew mcp serve`: an MCP server that offers clew's tools to another agent over pipes.

This module answers the requests to the server. The permission rules of the current folder apply to
every call. There is no user to ask, so a call that needs approval is denied. Only messages are
written to standard output.
"""

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from clew.agent.options import Options
from clew.agent.toolset import decide
from clew.core.json_object import Json
from clew.core.messages.encoding import encode
from clew.core.messages.errors import ClewError
from clew.fronts.headless.permission import deny_unasked
from clew.parts.mcp.line import MAX_MESSAGE_BYTES
from clew.parts.mcp.protocol import (
    CLIENT_INFO,
    DIALECT,
    HANDSHAKE_VERSIONS,
    STATELESS_VERSIONS,
    as_object,
    as_text,
)
from clew.permissions.decision import Allow, describe_reason
from clew.record.library.places import list_worktrees
from clew.record.library.search import Scope, folders_of, format_hits, search
from clew.record.library.words import query_of
from clew.session.build import open_session
from clew.session.session import Session
from clew.system.clock import make_id
from clew.system.jsonrpc.connection import Connection
from clew.system.jsonrpc.framing import LineFraming, Unframed, as_line
from clew.system.jsonrpc.wire import INVALID_PARAMS, METHOD_NOT_FOUND, Params, RpcFault

# Session search for another agent, as a tool of `clew mcp serve`.


NAME = "SessionsSearch"
MOST = 50
USUAL = 10
DEFINITION: Json = {
    "name": NAME,
    "description": (
        "Search the clew sessions of this folder and its git worktrees, newest first. All words must "
        'match; use "a phrase" for an exact phrase and pre* for a prefix.'
    ),
    "input_schema": {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "The words to search for"},
            "limit": {
                "type": "integer",
                "description": f"Maximum number of results (default {USUAL})",
            },
            "everywhere": {
                "type": "boolean",
                "description": "Search the sessions of all folders; requires a rule that allows this tool",
            },
        },
        "required": ["query"],
    },
}


def is_offered(session: Session) -> bool:
    return not session.rules.standing.rules.withholds(NAME)


async def found(session: Session, arguments: Json) -> tuple[str, bool]:
    """Return the search results as text, and whether the search failed."""
    everywhere = arguments.get("everywhere") is True
    if everywhere:
        decision = session.rules.judge(NAME, arguments, cwd=session.workspace.cwd)
        if not isinstance(decision, Allow):
            return (
                f"The sessions of other folders were not searched: {describe_reason(decision)}.",
                True,
            )
    query = query_of(as_text(arguments.get("query")))
    if query.is_empty:
        return "The query contains no word to search for.", True
    limit = arguments.get("limit")
    most = min(limit, MOST) if type(limit) is int and limit > 0 else USUAL
    home = session.rules.standing.places.config_home
    folders = None if everywhere else folders_of(home, list_worktrees(session.workspace.cwd))
    hits = await asyncio.to_thread(search, home, query, Scope(folders=folders), limit=most)
    return "\n".join(format_hits(hits)), False


READ_BYTES = 1 << 18
OFFERED: Json = {"tools": {}}
REFUSED = "Permission denied; the call did not run: {why}."


def main(argv: list[str]) -> int:
    argparse.ArgumentParser(
        prog="clew mcp serve", description="Offer clew's tools to another agent."
    ).parse_args(argv)
    try:
        with asyncio.Runner() as runner:
            runner.run(serve())
    except ClewError as error:
        sys.stderr.write(f"clew: {error}\n")
        return 1
    return 0


async def serve() -> None:
    """Answer requests on standard input until it ends."""
    options = Options(is_print=True, persists=False, strict_mcp_config=True)
    async with open_session(
        options, os.environ, str(Path.cwd()), deny_unasked, entrypoint="mcp"
    ) as session:
        for notice in session.notices:
            sys.stderr.write(f"clew: {notice}\n")
        over = asyncio.Event()
        loop = asyncio.get_running_loop()
        framing = LineFraming(max_bytes=MAX_MESSAGE_BYTES)
        async with asyncio.TaskGroup() as group:
            connection = Connection(said, Offering(session), DIALECT, group)

            def readable() -> None:
                data = os.read(0, READ_BYTES)
                for payload in framing.feed(data) if data else framing.close():
                    if not isinstance(payload, Unframed):
                        connection.deliver_bytes(payload)
                if not data:
                    loop.remove_reader(0)
                    over.set()

            loop.add_reader(0, readable)
            await over.wait()
            connection.lose("the client disconnected")


def said(message: Json) -> None:
    """Write a message. Drop it if the client has exited; the end of the input ends the server."""
    rest = memoryview(as_line(encode(message)))
    try:
        while rest:
            rest = rest[os.write(1, rest) :]
    except BrokenPipeError:
        return


class Offering:
    """Answers the requests that another agent may send."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def told(self, method: str, params: Params) -> None:
        """Ignore notifications from the client."""

    def odd(self, why: str) -> None:
        sys.stderr.write(f"clew: {why}\n")

    async def asked(self, method: str, params: Params) -> Any | RpcFault:
        fields = as_object(params)
        match method:
            case "initialize":
                wanted = fields.get("protocolVersion")
                version = wanted if wanted in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[0]
                return {
                    "protocolVersion": version,
                    "capabilities": OFFERED,
                    "serverInfo": CLIENT_INFO,
                }
            case "server/discover":
                return {
                    "resultType": "complete",
                    "supportedVersions": [*STATELESS_VERSIONS, *HANDSHAKE_VERSIONS],
                    "capabilities": OFFERED,
                    "serverInfo": CLIENT_INFO,
                    "cacheScope": "private",
                    "ttlMs": 0,
                }
            case "ping":
                return {}
            case "tools/list":
                listed = [offered(tool) for tool in self._tools()]
                return {
                    "resultType": "complete",
                    "tools": listed,
                    "cacheScope": "private",
                    "ttlMs": 0,
                }
            case "tools/call":
                return await self._called(as_text(fields.get("name")), fields.get("arguments", {}))
            case _:
                return RpcFault(code=METHOD_NOT_FOUND, message=f"method not found: {method}")

    def _tools(self) -> list[Json]:
        searching = [DEFINITION] if is_offered(self._session) else []
        return [*self._session.tools.definitions(), *searching]

    async def _called(self, name: str, arguments: Any) -> Any | RpcFault:
        if not isinstance(arguments, dict):
            return RpcFault(code=INVALID_PARAMS, message="arguments: expected an object")
        tools = self._session.tools
        if name == NAME and is_offered(self._session):
            words, failed = await found(self._session, arguments)
            return result(words, is_error=failed)
        block = {"type": "tool_use", "id": f"toolu_{make_id()}", "name": name, "input": arguments}
        if name not in {tool["name"] for tool in tools.definitions()}:
            return RpcFault(code=INVALID_PARAMS, message=f"unknown tool {name[:80]!r}")
        call = tools.bind(block)
        outcome = tools.unusable(call)
        if outcome is None:
            rules, cwd = self._session.rules, self._session.workspace.cwd
            decision, is_confined = await decide(
                tools,
                call,
                lambda call: rules.judge(
                    name, arguments, cwd=cwd, line=call.line, places=call.places
                ),
            )
            if not isinstance(decision, Allow):
                return result(REFUSED.format(why=describe_reason(decision)), is_error=True)
            outcome = await tools.run(
                call, message_uuid=make_id(), progress=unheard, is_confined=is_confined
            )
        return result(outcome.content, is_error=outcome.is_error)


async def unheard(_: Any) -> None:
    """Ignore a call's progress, because the result is sent in one piece."""


def offered(tool: Json) -> Json:
    return {
        "name": tool["name"],
        "description": tool["description"],
        "inputSchema": tool["input_schema"],
    }


def result(content: Any, *, is_error: bool) -> Json:
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    parts = [part(block) for block in blocks]
    return {"resultType": "complete", "content": parts, "isError": is_error}


def part(block: Json) -> Json:
    """Return a content block of the Messages API in MCP's form."""
    source = as_object(block.get("source"))
    if block.get("type") == "image" and source.get("type") == "base64":
        return {"type": "image", "data": source["data"], "mimeType": source["media_type"]}
    if block.get("type") == "text":
        return {"type": "text", "text": block["text"]}
    return {"type": "text", "text": f"[{as_text(block.get('type'))}]"}
