"""The line to a server by the way its entry names."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias, assert_never

from clew.config.paths import Places
from clew.mcp.config import Http, InProcess, ServerConfig, Stdio
from clew.mcp.host import ServerHost
from clew.mcp.http import HttpLine
from clew.mcp.in_process import InProcessLine
from clew.mcp.line import Line, StdioLine
from clew.mcp.proof import Proof
from clew.mcp.server import MakeLine
from clew.mcp.sse_line import SseLine
from clew.mcp.tokens import TokenStore
from clew.process.spawn import Launcher
from clew.providers.credentials import printed_by
from clew.transport.seam import Transport

# A message for a server in the host, and what the host answers; see `in_process`.
ToHost: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[Any]]


def line_maker(
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
        return await printed_by(launcher, command, cwd, environ)

    def make(config: ServerConfig, host: ServerHost, group: asyncio.TaskGroup) -> Line:
        reach = config.reach
        match reach:
            case Stdio():
                return StdioLine(reach, host, group, launcher=launcher, cwd=cwd, environ=environ)
            case Http():
                proof = Proof(reach, store(), transport, helped)
                make_http = SseLine if reach.is_sse else HttpLine
                return make_http(reach, host, group, transport=transport, credentials=proof)
            case InProcess() if in_host is not None:
                return in_host(config, host, group)
            case InProcess():
                return InProcessLine(reach, host, group, to_host=to_host)
            case _ as never:
                assert_never(never)

    return make
