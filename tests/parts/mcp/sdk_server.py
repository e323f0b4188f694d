"""A server made with the official SDK, for conformance: stdio, SSE, streamable HTTP, both eras.

python sdk_server.py stdio
python sdk_server.py {http,sse,modern} PORT_FILE
"""

import asyncio
import logging
import socket
import sys
from pathlib import Path

import uvicorn
from mcp.server.mcpserver import Context, Image, MCPServer
from pydantic import BaseModel

logging.disable(logging.CRITICAL)
server = MCPServer("judge", instructions="Judges clients.")

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c636460f8cf"
    "500f0003860180 5a34 7d6b0000000049454e44ae426082".replace(" ", "")
)


class Color(BaseModel):
    color: str


class Weather(BaseModel):
    degrees: int


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
def weather(city: str) -> Weather:
    """Weather, structured."""
    return Weather(degrees=len(city))


@server.tool()
def picture() -> Image:
    """A picture."""
    return Image(data=PNG, format="png")


@server.tool()
def broken() -> str:
    """Always fails."""
    raise ValueError("it broke")


@server.tool()
async def count(ctx: Context, to: int) -> str:
    """Counts, and says so."""
    for n in range(to):
        await ctx.report_progress(n + 1, to, f"at {n + 1}")
    return "counted"


@server.tool()
async def favourite(ctx: Context) -> str:
    """Asks for a color."""
    result = await ctx.elicit("Which color?", Color)
    return f"{result.action} {getattr(getattr(result, 'data', None), 'color', None)}"


@server.tool()
async def grow(ctx: Context) -> str:
    """Adds a tool."""

    def grown() -> str:
        """A new one."""
        return "grown"

    server.add_tool(grown)
    await ctx.notify_tools_changed()
    return "grew"


@server.tool()
async def slow() -> str:
    """Takes for ever."""
    await asyncio.sleep(600)
    return "never"


@server.resource("memo://{name}")
def memo(name: str) -> str:
    """A memo."""
    return f"memo of {name}"


@server.resource("memo://fixed")
def fixed() -> str:
    """A memo that is always there."""
    return "always there"


@server.prompt()
def review(code: str) -> str:
    """Reviews code."""
    return f"Please review: {code}"


async def over_http(kind: str, port_file: str) -> None:
    app = server.sse_app() if kind == "sse" else server.streamable_http_app()
    listening = socket.create_server(("127.0.0.1", 0))
    # It listens already: whoever connects now is served as soon as the program is ready.
    write_port(port_file, listening.getsockname()[1])
    config = uvicorn.Config(app, log_level="critical", lifespan="on")
    await uvicorn.Server(config).serve([listening])


def write_port(port_file: str, port: int) -> None:
    draft = Path(f"{port_file}.draft")
    draft.write_text(str(port), "utf-8")
    draft.replace(port_file)


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        asyncio.run(over_http(sys.argv[1], sys.argv[2]))
