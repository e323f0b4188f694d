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
from clew.process.output import Output
from clew.process.run import run
from clew.process.spawn import Launcher
from clew.transport.seam import Transport

# A message for a server in the host, and what the host answers; see `in_process`.
ToHost: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[Any]]

HELPER_S = 30.0
HELPER_MAX_BYTES = 65536


def line_maker(
    *,
    launcher: Launcher,
    transport: Transport,
    places: Places,
    cwd: str,
    environ: Mapping[str, str],
    to_host: ToHost | None = None,
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
            case InProcess():
                return InProcessLine(reach, host, group, to_host=to_host)
            case _ as never:
                assert_never(never)

    return make


async def printed_by(
    launcher: Launcher, command: str, cwd: str, environ: Mapping[str, str]
) -> str | None:
    """What a helper prints; None where it fails or takes too long. What it complains of may be secret."""
    out, thrown_away = Output(keep_bytes=HELPER_MAX_BYTES), Output(keep_bytes=0)
    try:
        finished = await run(
            launcher,
            ["/bin/sh", "-c", command],
            cwd=cwd,
            env=environ,
            stdout=out,
            stderr=thrown_away,
            timeout_s=HELPER_S,
        )
    except OSError:
        return None
    failed = finished.timed_out or finished.exit.code != 0
    return None if failed else bytes(out.head).decode("utf-8", "replace")
