"""MCP: the cost of a call and of starting a server, and the delay caused by slow servers.

The peer is the official SDK's client with the same server in the same run. CPU time is that of this
process only; the server runs in another process.
"""

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.measure import Figure
from clew.agent.calls import bind, run_tool
from clew.agent.context.facts import make_tool_listing_fact
from clew.agent.deps import Question, Refused, Verdict
from clew.agent.options import Options
from clew.agent.tools.base import Progress, ShellSetup, Tool, ToolContext, ToolSession
from clew.core.normalize.tokens import estimate_text_tokens
from clew.parts.mcp.client import Helpers
from clew.parts.mcp.config import ServerConfig, read_server
from clew.parts.mcp.connect import make_line_maker
from clew.parts.mcp.servers import Servers
from clew.session.build import open_session
from clew.system.config.paths import find_places
from clew.system.process.spawn import Launcher
from clew.system.transport.http import HttpTransport
from clew.system.transport.network import Network

PROGRAM = str(Path(__file__).parents[1] / "tests" / "parts" / "mcp" / "server_program.py")
CALLS = 500
RUNS = 5


def config(name: str, *args: str, **env: str) -> ServerConfig:
    entry = {"command": sys.executable, "args": ["-I", "-S", PROGRAM, *args], "env": env}
    found = read_server(name, entry, scope="user", environ=os.environ)
    assert isinstance(found, ServerConfig)
    return found


def servers(folder: Path, launcher: Launcher) -> Servers:
    make = make_line_maker(
        launcher=launcher,
        transport=HttpTransport(Network()),
        places=find_places({"HOME": str(folder)}, folder),
        cwd=str(folder),
        environ=dict(os.environ),
    )
    return Servers(make, Helpers(roots=tuple))


async def ours(folder: Path, *, calls: int) -> tuple[float, float]:
    """Return the CPU seconds of connecting to a server with 20 tools, and of one call."""
    launcher = Launcher()
    launcher.start()
    await asyncio.sleep(0)
    all_of_them = servers(folder, launcher)
    begin = time.process_time()
    all_of_them.add([config("one", "many", MANY="20")])
    await all_of_them.settled(30)
    connected = time.process_time() - begin
    (server,) = all_of_them.all()
    assert len(server.offers.tools) == 20, server.problem
    tool = next(tool for tool in all_of_them.tools() if tool.name == "mcp__one__tool_000")
    tool_session = ToolSession(
        cwd=str(folder),
        spill_folder=folder,
        shell=ShellSetup(launcher=launcher, environment={}, project=str(folder)),
    )
    called = await calling(tool, tool_session, calls)
    await all_of_them.aclose()
    await launcher.aclose()
    return connected, called


async def calling(tool: Tool[Any], tool_session: ToolSession, calls: int) -> float:
    """Call the tool like the executor does, with progress reports."""

    async def emit(_: Progress) -> None:
        """Ignore the progress."""

    context = ToolContext(session=tool_session, emit=emit, tool_use_id="toolu_1")
    await run_tool(bind(tool, {"name": tool.name, "input": {"text": "x"}}), context)
    begin = time.process_time()
    for _ in range(calls):
        await run_tool(bind(tool, {"name": tool.name, "input": {"text": "x"}}), context)
    return (time.process_time() - begin) / max(1, calls)


async def theirs(*, calls: int) -> tuple[float, float]:
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    parameters = StdioServerParameters(
        command=sys.executable, args=["-I", "-S", PROGRAM, "many"], env={"MANY": "20"}
    )
    begin = time.process_time()
    async with Client(stdio_client(parameters)) as client:
        assert len((await client.list_tools()).tools) == 20
        connected = time.process_time() - begin

        async def call() -> None:
            await client.call_tool("tool_000", {"text": "x"})

        await call()
        begin = time.process_time()
        for _ in range(calls):
            await call()
        return connected, (time.process_time() - begin) / max(1, calls)


async def nobody(_: Question) -> Verdict:
    return Refused(words="nobody is here")


async def opened_s(folder: Path, options: Options) -> float:
    """Return the wall time until the session is open and the user could type."""
    environ = {**os.environ, "HOME": str(folder), "CLEW_CONFIG_DIR": str(folder / "config")}
    # The watchers are still stopping processes of the previous run.
    await asyncio.sleep(0.5)
    begin = time.perf_counter()
    async with open_session(options, environ, str(folder), nobody, entrypoint="cli"):
        return time.perf_counter() - begin


def slow(count: int) -> Options:
    entry = {"command": sys.executable, "args": ["-I", "-S", PROGRAM, "silent"]}
    given = {"mcpServers": {f"slow{n}": entry for n in range(count)}}
    return Options(mcp_config=(json.dumps(given),), persists=False)


def best(work: Any) -> tuple[float, float]:
    runs = [asyncio.run(work()) for _ in range(RUNS)]
    return min(a for a, _ in runs), min(b for _, b in runs)


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        connect, call = best(lambda: ours(folder, calls=CALLS))
        yield Figure(
            name="a tool call over stdio, ours", value=call * 1000, unit="ms CPU", at_most=0.15
        )
        yield Figure(
            name="connect and list 20 tools", value=connect * 1000, unit="ms CPU", at_most=10
        )
        peer_connect, peer_call = best(lambda: theirs(calls=CALLS))
        yield Figure(
            name="a call of the official SDK's client", value=peer_call / call, unit="x ours"
        )
        yield Figure(name="its connecting", value=peer_connect / connect, unit="x ours")
        yield Figure(
            name="delay of the prompt by 10 slow servers",
            value=added_s(folder) * 1000,
            unit="ms wall",
            at_most=10,
        )
        names = [f"mcp__server{n % 5}__fetch_thing_{n}" for n in range(100)]
        fact = make_tool_listing_fact((), names)
        assert fact is not None
        yield Figure(
            name="100 tools until one is used",
            value=estimate_text_tokens("".join(fact.rendered)),
            unit="tokens",
            at_most=1000,
        )


def added_s(folder: Path) -> float:
    """Return the time that ten unresponsive servers add to opening a session; runs alternate after
    a warm-up.
    """
    with_ten, without = [], []
    for _ in range(RUNS + 1):
        without.append(asyncio.run(opened_s(folder, slow(0))))
        with_ten.append(asyncio.run(opened_s(folder, slow(10))))
    return min(with_ten[1:]) - min(without[1:])
