"""A look at servers from the command line: whether they can be reached, what they offer; and a login."""

import asyncio
import os
from collections.abc import Callable, Iterable

from msgspec import Struct

from clew.config.environment import freeze
from clew.config.paths import Places
from clew.mcp.begin import line_maker
from clew.mcp.config import Http, ServerConfig
from clew.mcp.host import Helpers
from clew.mcp.server import Server
from clew.mcp.servers import Servers
from clew.mcp.tokens import TokenStore
from clew.process.spawn import Launcher
from clew.transport.choose import transport_for
from clew.transport.network import network_from
from clew.transport.seam import HttpRequest, Transport, TransportError

LOOK_S = 15.0


class Seen(Struct, frozen=True, kw_only=True):
    is_well: bool
    line: str
    offers: tuple[str, ...] = ()


async def look(configs: Iterable[ServerConfig], places: Places) -> dict[str, Seen]:
    """Begins every server, sees how far it comes, and ends it."""
    launcher = Launcher()
    transport = transport_for(network_from(freeze(os.environ)))
    servers = Servers(
        line_maker(
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
        await servers.settled(LOOK_S)
        return {server.name: seen(server) for server in servers.all()}
    finally:
        await servers.aclose()
        await launcher.aclose()
        await transport.aclose()


def seen(server: Server) -> Seen:
    offers = server.offers
    if server.state != "ready":
        words = {"needs-auth": f"wants a login: clew mcp login {server.name}"}
        state = words.get(server.state, f"not reached: {server.problem or server.state}")
        return Seen(is_well=False, line=f"- {state}")
    counts = (
        (len(offers.tools), "tools"),
        (len(offers.prompts), "prompts"),
        (len(offers.resources), "resources"),
    )
    told = ", ".join(f"{count} {what}" for count, what in counts if count) or "nothing"
    lines = [f"tool {tool.tool}: {first_line(tool.description)}" for tool in offers.tools]
    lines += [f"prompt /{prompt.name} {prompt.hint}" for prompt in offers.prompts]
    lines += [f"resource @{server.name}:{one.uri}" for one in offers.resources]
    lines += [f"fault: {fault}" for fault in offers.faults]
    return Seen(is_well=True, line=f"- reached: {told}", offers=tuple(lines))


def first_line(text: str) -> str:
    return text.split("\n", 1)[0][:120]


async def log_in(reach: Http, places: Places, *, browser: bool, show: Callable[[str], None]) -> str:
    """Brings a person through the login; returns where the tokens are kept."""
    from clew.mcp.oauth import login

    transport = transport_for(network_from(freeze(os.environ)))

    def bring(url: str) -> None:
        show(f"Log in here:\n{url}")
        if browser:
            open_browser(url)

    try:
        tokens = await login(
            reach, transport, bring, challenge=await challenge_of(reach, transport)
        )
    finally:
        await transport.aclose()
    return TokenStore.usual(places).save(reach.url, tokens)


async def challenge_of(reach: Http, transport: Transport) -> str:
    """What the server says to one who has no token."""
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
    """Where there is one; the address was shown in any case."""
    import webbrowser

    webbrowser.open(url)
