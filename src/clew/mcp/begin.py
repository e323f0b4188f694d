"""The line to a server by the way its entry names."""

import asyncio
from collections.abc import Mapping

from clew.mcp.config import ServerConfig, Stdio
from clew.mcp.host import ServerHost
from clew.mcp.line import Line, StdioLine
from clew.mcp.server import MakeLine
from clew.process.spawn import Launcher


def line_maker(*, launcher: Launcher, cwd: str, environ: Mapping[str, str]) -> MakeLine:
    def make(config: ServerConfig, host: ServerHost, group: asyncio.TaskGroup) -> Line:
        reach = config.reach
        assert isinstance(reach, Stdio)
        return StdioLine(reach, host, group, launcher=launcher, cwd=cwd, environ=environ)

    return make
