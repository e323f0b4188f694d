"""`clew mcp serve` to the official client: clew's tools under the folder's rules, and its sessions."""

import json
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, command, environment

pytestmark = pytest.mark.e2e


async def test_the_official_client_uses_tools_and_searches_sessions(tmp_path: Path) -> None:
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    work, config = tmp_path / "work", tmp_path / "config"
    work.mkdir()
    config.mkdir()
    (work / "a.txt").write_text("words in a file\n", encoding="utf-8")
    rules = {"permissions": {"allow": ["Bash(echo:*)"]}}
    (config / "settings.json").write_text(json.dumps(rules), encoding="utf-8")
    with serving({"scenario": 1, "answers": [{"text": "of zebras"}]}, strict=True) as server:
        clew(tmp_path, server.url, "-p", "tell me something")
    program, *args = command("mcp", "serve")
    parameters = StdioServerParameters(
        command=program, args=args, env=environment(tmp_path, "http://127.0.0.1:1"), cwd=str(work)
    )

    def words(result: Any) -> str:
        return "".join(part.text for part in result.content)

    async with Client(stdio_client(parameters)) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert {"Read", "Bash", "Grep", "SessionsSearch"} <= names
        read = await client.call_tool("Read", {"file_path": str(work / "a.txt")})
        assert "words in a file" in words(read)
        assert words(await client.call_tool("Bash", {"command": "echo hi"})) == "hi"
        refused = await client.call_tool("Bash", {"command": "touch made"})
        assert refused.is_error
        assert not (work / "made").exists()
        assert "zebras" in words(await client.call_tool("SessionsSearch", {"query": "zebras"}))
        everywhere = {"query": "zebras", "everywhere": True}
        assert (await client.call_tool("SessionsSearch", everywhere)).is_error
