"""clew as an MCP server: its tools for another agent, under the rules of the folder."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, command, environment
from tests.parts.mcp.yard import yard


def entry(home: Path, **settings: Any) -> dict[str, Any]:
    work = home / "work"
    work.mkdir(exist_ok=True)
    (work / "a.txt").write_text("words in a file\n", "utf-8")
    config = home / "config"
    config.mkdir(exist_ok=True)
    (config / "settings.json").write_text(json.dumps(settings), "utf-8")
    program, *args = command("mcp", "serve")
    env = environment(home, "http://127.0.0.1:1")
    return {"command": program, "args": args, "cwd": str(work), "env": env}


@pytest.mark.parametrize("protocol", ["2025-11-25", "2026-07-28"])
async def test_another_agent_uses_clews_tools_under_the_folders_rules(
    tmp_path: Path, protocol: str
) -> None:
    value = entry(tmp_path, permissions={"allow": ["Bash(echo:*)"]}) | {"protocol": protocol}
    async with yard(tmp_path, {"clew": value}) as here:
        assert here.server("clew").state == "ready", here.server("clew").problem
        path = str(tmp_path / "work" / "a.txt")
        read = await here.use("mcp__clew__Read", file_path=path)
        assert "words in a file" in str(read.content)
        assert (await here.use("mcp__clew__Bash", command="echo hi")).content == "hi"
        refused = await here.use("mcp__clew__Bash", command="touch made")
        assert refused.is_error
        assert "Permission denied" in str(refused.content)
        assert not (tmp_path / "work" / "made").exists()
        odd = await here.use("mcp__clew__Read", nonsense=1)
        assert odd.is_error


async def test_another_agent_searches_the_sessions_of_the_folder(tmp_path: Path) -> None:
    value = entry(tmp_path, permissions={"allow": ["SessionsSearch"]})
    with serving({"scenario": 1, "answers": [{"text": "of zebras"}]}, strict=True) as server:
        clew(tmp_path, server.url, "-p", "tell me")
    async with yard(tmp_path, {"clew": value}) as here:

        async def told(**given: Any) -> str:
            return str((await here.use("mcp__clew__SessionsSearch", **given)).content)

        assert "of zebras" in await told(query="zebras")
        assert "of zebras" in await told(query="zebras", everywhere=True, limit=3)
        assert "no matches" in await told(query="giraffes")
        assert "no word" in await told(query="  ")


async def test_what_a_rule_denies_is_not_offered(tmp_path: Path) -> None:
    value = entry(tmp_path, permissions={"deny": ["SessionsSearch"]})
    async with yard(tmp_path, {"clew": value}) as here:
        assert "SessionsSearch" not in {offer.tool for offer in here.server("clew").offers.tools}


def test_bad_input_is_answered_and_the_end_of_input_is_the_end(tmp_path: Path) -> None:
    value = entry(tmp_path)
    lines = [
        "nonsense",
        '{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "x"}}',
        '{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "Nope"}}',
        '{"jsonrpc": "2.0", "id": 3, "method": "prompts/list"}',
        '{"jsonrpc": "2.0", "id": 4, "method": 5}',
        '{"jsonrpc": "2.0", "id": 5, "method": "ping"}',
        '{"jsonrpc": "2.0", "id": 6, "method": "tools/call", "params": {"name": "Read", "arguments": []}}',
    ]
    done = subprocess.run(
        [value["command"], *value["args"]],
        input="\n".join(lines) + "\n",
        cwd=value["cwd"],
        env=value["env"],
        text=True,
        encoding="utf-8",
        capture_output=True,
        timeout=60,
        check=False,
    )
    answers = {m["id"]: m for m in map(json.loads, done.stdout.splitlines())}
    assert done.returncode == 0
    assert answers[1]["result"]["protocolVersion"] == "2025-11-25"
    assert answers[2]["error"] == {"code": -32602, "message": "unknown tool 'Nope'"}
    assert answers[3]["error"]["code"] == -32601
    assert answers[4]["error"]["code"] == -32600
    assert answers[5]["result"] == {}
    assert answers[6]["error"]["message"] == "arguments: expected an object"


@pytest.mark.e2e
async def test_the_official_client_uses_clew(tmp_path: Path) -> None:
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    value = entry(tmp_path)
    parameters = StdioServerParameters(
        command=sys.executable, args=value["args"], env=value["env"], cwd=value["cwd"]
    )
    async with Client(stdio_client(parameters)) as client:
        assert "Read" in [tool.name for tool in (await client.list_tools()).tools]
        path = str(tmp_path / "work" / "a.txt")
        result = await client.call_tool("Read", {"file_path": path})
        assert "words in a file" in result.content[0].text
