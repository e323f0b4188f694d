"""The client against servers by others.

The official SDK in both variants, and published servers.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from clew.testing.server import serving
from tests.compat.sdk_plugin import executable
from tests.fronts.headless.clew_process import environment
from tests.fronts.headless.clew_process import until as seen
from tests.parts.mcp.test_asking import Person, answering
from tests.parts.mcp.test_sessions import calls, results
from tests.parts.mcp.yard import Yard, yard

pytestmark = pytest.mark.e2e

SDK = str(Path(__file__).with_name("sdk_server.py"))
PACKAGES = (
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
)


@contextmanager
def over_http(folder: Path, kind: str) -> Iterator[str]:
    """A server of the SDK on a loopback port, until left."""
    port_file = folder / "port"
    with subprocess.Popen([sys.executable, SDK, kind, str(port_file)]) as process:
        try:
            seen(port_file.exists, within_s=60)
            place = "sse" if kind == "sse" else "mcp"
            yield f"http://127.0.0.1:{port_file.read_text('utf-8')}/{place}"
        finally:
            process.kill()


@contextmanager
def entry_of(folder: Path, kind: str) -> Iterator[dict[str, Any]]:
    stateless = {"protocol": "2026-07-28"} if kind.startswith("stateless") else {}
    if kind.endswith("stdio"):
        yield {"command": sys.executable, "args": [SDK, "stdio"], **stateless}
        return
    with over_http(folder, "sse" if kind == "sse" else "http") as url:
        yield {"type": "sse" if kind == "sse" else "http", "url": url, **stateless}


KINDS = ("stdio", "http", "sse", "stateless stdio", "stateless http")


async def everything_works(here: Yard) -> None:
    server = here.server()
    assert server.state == "ready", server.problem
    assert server.instructions == "Judges clients."
    assert (await here.use("mcp__one__add", a=2, b=3)).content == "5"
    weather = await here.use("mcp__one__weather", city="Rome")
    assert weather.mcp_meta == {"structuredContent": {"degrees": 4}}
    (picture,) = (await here.use("mcp__one__picture")).content
    assert isinstance(picture, dict)
    assert picture["source"]["media_type"] == "image/png"
    assert (await here.use("mcp__one__broken")).is_error
    assert (await here.use("mcp__one__add", a="no")).is_error
    assert (await here.use("mcp__one__count", to=3)).content == "counted"
    assert here.progress[-1].text == "3 of 3 at 3"
    memo = await here.use("ReadMcpResourceTool", server="one", uri="memo://me")
    assert "memo of me" in str(memo.content)
    assert [prompt.prompt for prompt in server.offers.prompts] == ["review"]
    assert {one.uri for one in server.offers.resources} == {"memo://fixed", "memo://{name}"}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_of_the_official_sdk(tmp_path: Path, kind: str) -> None:
    with entry_of(tmp_path, kind) as entry:
        async with yard(tmp_path, {"one": entry}) as here:
            await everything_works(here)
            agreement = here.server().agreement
            assert agreement is not None
            assert agreement.era == ("stateless" if "stateless" in kind else "handshake")


@pytest.mark.parametrize("kind", ["stdio", "http", "sse"])
async def test_the_sdk_asks_a_user(tmp_path: Path, kind: str) -> None:
    with entry_of(tmp_path, kind) as entry:
        helpers = answering(Person("blue")).helpers(tuple, lambda *_: None)
        async with yard(tmp_path, {"one": entry}, helpers=helpers) as here:
            assert (await here.use("mcp__one__favourite")).content == "accept blue"


@pytest.mark.parametrize("kind", ["stateless stdio", "stateless http"])
async def test_the_sdk_says_what_changes_in_the_stateless_era(tmp_path: Path, kind: str) -> None:
    with entry_of(tmp_path, kind) as entry:
        async with yard(tmp_path, {"one": entry}) as here:
            await here.use("mcp__one__grow")
            server = here.server()
            await here.changed(lambda: any(t.tool == "grown" for t in server.offers.tools))
            assert (await here.use("mcp__one__grown")).content == "grown"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_call_that_takes_too_long_is_given_up_and_the_next_one_works(
    tmp_path: Path, kind: str
) -> None:
    with entry_of(tmp_path, kind) as entry:
        async with yard(tmp_path, {"one": entry | {"timeout": 2000}}) as here:
            assert "silent for 2 s" in str((await here.use("mcp__one__slow")).content)
            assert (await here.use("mcp__one__add", a=1, b=1)).content == "2"


# -- published servers


def module(name: str, *args: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-m", name, *args]}


async def test_the_published_time_server(tmp_path: Path) -> None:
    entry = module("mcp_server_time", "--local-timezone", "UTC")
    async with yard(tmp_path, {"time": entry}) as here:
        result = await here.use("mcp__time__get_current_time", timezone="Europe/Rome")
        assert "Europe/Rome" in str(result.content)
        wrong = await here.use("mcp__time__get_current_time", timezone="Nowhere/None")
        assert wrong.is_error


def make_repository(folder: Path) -> None:
    subprocess.run(["git", "init", "-q", str(folder)], check=True)


async def test_the_published_git_server(tmp_path: Path) -> None:
    repository = tmp_path / "r"
    make_repository(repository)
    (repository / "a.txt").write_text("a", "utf-8")
    async with yard(tmp_path, {"git": module("mcp_server_git", "-r", str(repository))}) as here:
        result = await here.use("mcp__git__git_status", repo_path=str(repository))
        assert "a.txt" in str(result.content)


async def test_the_published_fetch_server(tmp_path: Path) -> None:
    class Page(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Tests print nothing."""

        def do_GET(self) -> None:
            body = b"<html><body><p>A page of ours.</p></body></html>"
            self.send_response(200 if self.path == "/" else 404)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    pages = HTTPServer(("127.0.0.1", 0), Page)
    thread = Thread(target=pages.serve_forever, daemon=True)
    thread.start()
    entry = module("mcp_server_fetch", "--ignore-robots-txt", "--allow-private-ips") | {
        "env": {"NO_PROXY": "127.0.0.1"}
    }
    try:
        async with yard(tmp_path, {"fetch": entry}) as here:
            url = f"http://127.0.0.1:{pages.server_port}/"
            result = await here.use("mcp__fetch__fetch", url=url, raw=True)
            assert "A page of ours." in str(result.content), result.content
            assert [prompt.prompt for prompt in here.server("fetch").offers.prompts] == ["fetch"]
    finally:
        pages.shutdown()
        pages.server_close()
        thread.join()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The published servers of npm, installed once; without npm this fails, it is not passed over."""
    npm = shutil.which("npm")
    assert npm is not None, "npm is needed to hold the client against the servers published there"
    folder = tmp_path_factory.mktemp("node")
    words = [npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder)]
    subprocess.run([*words, *PACKAGES], check=True, timeout=300)
    return folder / "node_modules" / "@modelcontextprotocol"


def script(node: Path, name: str, *args: str) -> dict[str, Any]:
    return {"command": "node", "args": [str(node / name / "dist" / "index.js"), *args]}


async def test_the_published_filesystem_server(tmp_path: Path, node: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("words in a file", "utf-8")
    entry = script(node, "server-filesystem", str(tmp_path / "in"))
    async with yard(tmp_path, {"fs": entry}) as here:
        assert here.server("fs").state == "ready", here.server("fs").problem
        result = await here.use("mcp__fs__read_text_file", path=str(tmp_path / "in" / "a.txt"))
        assert "words in a file" in str(result.content)
        outside = await here.use("mcp__fs__read_text_file", path="/etc/hostname")
        assert outside.is_error


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@pytest.mark.parametrize("kind", ["stdio", "streamableHttp", "sse"])
async def test_the_published_everything_server(tmp_path: Path, node: Path, kind: str) -> None:
    program = script(node, "server-everything", kind)
    if kind == "stdio":
        async with yard(tmp_path, {"all": program}) as here:
            await echoes(here)
        return
    with listening(program) as port:
        place = "sse" if kind == "sse" else "mcp"
        url = {
            "type": "sse" if kind == "sse" else "http",
            "url": f"http://127.0.0.1:{port}/{place}",
        }
        async with yard(tmp_path, {"all": url}, settle=False) as here:
            await here.until("ready", "all")
            await echoes(here)


@contextmanager
def listening(program: dict[str, Any]) -> Iterator[int]:
    """A program that serves on the port it is told; it may take its time to begin."""
    port = free_port()
    with subprocess.Popen(
        [program["command"], *program["args"]],
        env={**os.environ, "PORT": str(port)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield port
        finally:
            process.kill()


async def echoes(here: Yard) -> None:
    assert here.server("all").state == "ready", here.server("all").problem
    result = await here.use("mcp__all__echo", message="hey")
    assert "hey" in json.dumps(result.content)
    total = await here.use("mcp__all__get-sum", a=2, b=3)
    assert "5" in str(total.content)
    picture = await here.use("mcp__all__get-tiny-image")
    assert any(isinstance(b, dict) and b.get("type") == "image" for b in picture.content)
    assert here.server("all").offers.prompts
    assert here.server("all").offers.resources


# -- servers inside a host of the published Agent SDK


async def test_a_server_inside_a_host_of_the_agent_sdk(tmp_path: Path) -> None:
    from claude_agent_sdk import (
        ClaudeAgentOptions,
        ClaudeSDKClient,
        create_sdk_mcp_server,
        tool,
    )

    seen_by_tool: list[dict[str, Any]] = []

    @tool("greet", "Greets", {"name": str})
    async def greet(given: dict[str, Any]) -> dict[str, Any]:
        seen_by_tool.append(given)
        return {"content": [{"type": "text", "text": f"Hello, {given['name']}!"}]}

    @tool("fail", "Fails", {})
    async def fail(_: dict[str, Any]) -> dict[str, Any]:
        raise RuntimeError("it broke")

    plan = calls(("mcp__host__greet", {"name": "Ada"}), ("mcp__host__fail", {}))
    work = tmp_path / "work"
    with serving(plan, strict=True) as server:
        options = ClaudeAgentOptions(
            cli_path=executable(),
            cwd=made(work),
            env=environment(tmp_path, server.url),
            mcp_servers={"host": create_sdk_mcp_server("host", tools=[greet, fail])},
            allowed_tools=["mcp__host__greet", "mcp__host__fail"],
        )
        async with ClaudeSDKClient(options) as client:
            await client.query("go")
            told = [message async for message in client.receive_response()]
        said = results(server)
    assert seen_by_tool == [{"name": "Ada"}]
    assert said[0] == [{"type": "text", "text": "Hello, Ada!"}]
    assert "it broke" in str(said[1])
    assert told[-1].result == "Done."


def made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder
