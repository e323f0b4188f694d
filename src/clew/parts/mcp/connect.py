"""Connect to MCP servers: choose the transport, check servers for the command line, and log in."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeAlias, assert_never

from msgspec import Struct

from clew.core.messages.text import format_count
from clew.parts.mcp.client import Helpers, ServerHost
from clew.parts.mcp.config import (
    HttpServer,
    IdeServer,
    InProcessServer,
    ServerConfig,
    StdioServer,
)
from clew.parts.mcp.credentials import Proof, TokenStore
from clew.parts.mcp.http import HttpLine, SseLine
from clew.parts.mcp.line import InProcessLine, ServerConnection, StdioLine
from clew.parts.mcp.server import MakeLine, McpServer
from clew.parts.mcp.servers import Servers
from clew.providers.credentials import run_helper
from clew.system.config.environment import freeze
from clew.system.config.paths import Places
from clew.system.process.spawn import Launcher
from clew.system.transport.http import HttpTransport
from clew.system.transport.network import read_network
from clew.system.transport.seam import HttpRequest, Transport, TransportError

# Choose the connection for a server's type of configuration.


# Sends a message to a server in the host and returns the response; see `in_process`.
ToHost: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[Any]]


def make_line_maker(
    *,
    launcher: Launcher,
    transport: Transport,
    places: Places,
    cwd: str,
    environ: Mapping[str, str],
    to_host: ToHost | None = None,
    in_host: MakeLine | None = None,
) -> MakeLine:
    stores: list[TokenStore] = []

    def store() -> TokenStore:
        if not stores:
            stores.append(TokenStore.usual(places))
        return stores[0]

    async def helped(command: str) -> str | None:
        return await run_helper(launcher, command, cwd, environ)

    def make(config: ServerConfig, host: ServerHost, group: asyncio.TaskGroup) -> ServerConnection:
        reach = config.reach
        match reach:
            case StdioServer():
                return StdioLine(reach, host, group, launcher=launcher, cwd=cwd, environ=environ)
            case HttpServer():
                proof = Proof(reach, store(), transport, helped)
                make_http = SseLine if reach.is_sse else HttpLine
                return make_http(reach, host, group, transport=transport, credentials=proof)
            case InProcessServer() if in_host is not None:
                return in_host(config, host, group)
            case InProcessServer():
                return InProcessLine(reach, host, group, to_host=to_host)
            case IdeServer():
                from clew.parts.mcp.ide_line import IdeLine  # Few sessions need it.

                return IdeLine(reach, host, group)
            case _ as never:
                assert_never(never)

    return make


LOOK_S = 15.0


class Seen(Struct, frozen=True, kw_only=True):
    is_well: bool
    line: str
    offers: tuple[str, ...] = ()


async def look(configs: Iterable[ServerConfig], places: Places) -> dict[str, Seen]:
    """Start all servers, record whether each works and what it offers, and stop them again."""
    launcher = Launcher()
    transport = HttpTransport(read_network(freeze(os.environ)))
    servers = Servers(
        make_line_maker(
            launcher=launcher,
            transport=transport,
            places=places,
            cwd=str(places.cwd),
            environ=os.environ,
        ),
        Helpers(roots=lambda: (str(places.cwd),)),
    )
    try:
        servers.add(config for config in configs if config.kind != "sdk")
        async with asyncio.TaskGroup() as group:
            for server in servers.all():
                group.create_task(servers.connected(server.name, LOOK_S))
        for server in servers.all():
            if not server.is_settled and not server.problem:
                server.problem = f"no response within {LOOK_S:g} s"
        return {server.name: probe_server(server) for server in servers.all()}
    finally:
        await servers.aclose()
        await launcher.aclose()
        await transport.aclose()


def probe_server(server: McpServer) -> Seen:
    offers = server.offers
    if server.state != "ready":
        return Seen(is_well=False, line=f"- {server.hindrance}")
    counts = (
        (len(offers.tools), "tool"),
        (len(offers.prompts), "prompt"),
        (len(offers.resources), "resource"),
    )
    summary = ", ".join(format_count(*count) for count in counts if count[0]) or "nothing"
    lines = [f"tool {tool.tool}: {first_line(tool.description)}" for tool in offers.tools]
    lines += [f"prompt /{prompt.name} {prompt.hint}" for prompt in offers.prompts]
    lines += [f"resource @{server.name}:{resource.uri}" for resource in offers.resources]
    lines += [f"warning: {fault}" for fault in offers.faults]
    return Seen(is_well=True, line=f"- connected: {summary}", offers=tuple(lines))


def first_line(text: str) -> str:
    return text.split("\n", 1)[0][:120]


async def log_in(
    reach: HttpServer, places: Places, *, browser: bool, show: Callable[[str], None]
) -> str:
    """Guide the user through the login to a server. Return where the tokens were saved."""
    from clew.parts.mcp.oauth import obtain_tokens

    transport = HttpTransport(read_network(freeze(os.environ)))

    def bring(url: str) -> None:
        show(f"Open this page to log in:\n{url}")
        if browser:
            open_browser(url)

    try:
        tokens = await obtain_tokens(
            reach, transport, bring, challenge=await challenge_of(reach, transport)
        )
    finally:
        await transport.aclose()
    return TokenStore.usual(places).save(reach.url, tokens)


async def challenge_of(reach: HttpServer, transport: Transport) -> str:
    """Send a request without a token, and return the server's authentication challenge."""
    exchange = transport.exchange(
        HttpRequest(
            method="POST",
            url=reach.url,
            headers=(
                ("Content-Type", "application/json"),
                ("Accept", "application/json, text/event-stream"),
            ),
            body=b'{"jsonrpc":"2.0","id":0,"method":"ping"}',
        )
    )
    try:
        async with asyncio.timeout(LOOK_S):
            head = await exchange.open()
            return head.headers.get("www-authenticate", "") if head.status == 401 else ""
    except (TransportError, TimeoutError):
        return ""
    finally:
        await exchange.close()


def open_browser(url: str) -> None:
    """Open a URL in the browser if possible.

    The URL was already printed, so failure does not matter. Do not wait for the browser, because a
    browser in the terminal runs until the user leaves it.
    """
    import threading
    import webbrowser

    threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
