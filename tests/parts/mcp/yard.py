"""Real servers for tests of the client.

`server_program.py` in one of its modes, over real pipes.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from clew.agent.calls import bind, run_tool
from clew.agent.tools.base import Progress, ShellSetup, Tool, ToolContext, ToolOutcome, ToolSession
from clew.parts.mcp.client import Helpers
from clew.parts.mcp.config import ServerConfig, read_server
from clew.parts.mcp.connect import make_line_maker
from clew.parts.mcp.server import McpServer
from clew.parts.mcp.servers import Servers
from clew.system.config.environment import freeze
from clew.system.config.paths import find_places
from clew.system.process.spawn import Launcher
from clew.system.transport.http import HttpTransport
from clew.system.transport.network import read_network
from tests.fronts.headless.clew_process import until as seen

PROGRAM = str(Path(__file__).with_name("server_program.py"))


def entry(mode: str, *more: str, **fields: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-I", "-S", PROGRAM, mode, *more], **fields}


def config(name: str, value: dict[str, Any]) -> ServerConfig:
    found = read_server(name, value, scope="user", environ=os.environ)
    assert isinstance(found, ServerConfig), found
    return found


async def until(holds: Callable[[], bool]) -> None:
    """Waits for what another process does, bounded."""
    await asyncio.to_thread(seen, holds, within_s=20)


class Yard:
    """`servers`, and what a session has around them."""

    def __init__(self, servers: Servers, folder: Path, launcher: Launcher) -> None:
        self.servers = servers
        self.news = asyncio.Event()
        self.progress: list[Progress] = []
        self.session = ToolSession(
            cwd=str(folder),
            spill_folder=folder / "spill",
            shell=ShellSetup(launcher=launcher, environment={}, project=str(folder)),
        )

    def server(self, name: str = "one") -> McpServer:
        found = self.servers.get(name)
        assert found is not None
        return found

    def tool(self, name: str) -> Tool[Any]:
        return next(tool for tool in self.servers.tools() if tool.name == name)

    async def use(self, name: str, **given: Any) -> ToolOutcome:
        async def emit(progress: Progress) -> None:
            self.progress.append(progress)

        context = ToolContext(session=self.session, emit=emit, tool_use_id="toolu_1")
        return await run_tool(bind(self.tool(name), {"name": name, "input": given}), context)

    async def changed(self, holds: Callable[[], bool]) -> None:
        """Waits for something that a server announces, bounded."""
        async with asyncio.timeout(20):
            while not holds():
                self.news.clear()
                await self.news.wait()

    async def until(self, state: str, name: str = "one") -> McpServer:
        """Waits for a server to be in a state, bounded."""
        server = self.server(name)
        async with asyncio.timeout(20):
            while server.state != state:
                await server.moved()
        return server


@asynccontextmanager
async def yard(folder: Path, entries: dict[str, Any], **more: Any) -> AsyncIterator[Yard]:
    """Start the servers of `entries` and wait for them."""
    launcher = Launcher()
    helpers = more.pop("helpers", None) or Helpers(roots=lambda: [str(folder)])
    settle = more.pop("settle", True)
    transport = HttpTransport(read_network(freeze(os.environ)))
    environ = {**os.environ, "HOME": str(folder), "CLEW_CONFIG_DIR": str(folder / "config")}
    make = make_line_maker(
        launcher=launcher,
        transport=transport,
        places=find_places(environ, folder),
        cwd=str(folder),
        environ=environ,
        to_host=more.pop("to_host", None),
    )
    told: list[Yard] = []

    def changed() -> None:
        for one in told:
            one.news.set()

    servers = Servers(make, helpers, on_change=changed, **more)
    try:
        servers.add([config(name, value) for name, value in entries.items()])
        if settle:
            await servers.settled(20)
        told.append(Yard(servers, folder, launcher))
        yield told[0]
    finally:
        await servers.aclose()
        await transport.aclose()
        await launcher.aclose()
        assert launcher.living == 0
