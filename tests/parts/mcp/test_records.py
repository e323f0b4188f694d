"""Requirements about MCP servers, checked in the messages and records of a run."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import serving
from tests.fronts.headless.clew_process import transcripts
from tests.fronts.headless.host_process import Hosted
from tests.parts.mcp.yard import entry
from tests.requirements import requirement

Json = dict[str, Any]
ASKS = ("structured", "progress", "stranger", "lie", "die", "echo")


class Told:
    """What one session sent to a server and to its host, and wrote to its file."""

    def __init__(self, home: Path, host: Hosted, bodies: list[Json]) -> None:
        said = (home / "said").read_text("utf-8").splitlines()
        self.said: list[Json] = [json.loads(line) for line in said]
        (path,) = transcripts(home)
        self.lines: list[Json] = [json.loads(x) for x in path.read_text("utf-8").splitlines()]
        self.frames, self.bodies = host.frames, bodies

    def of(self, method: str) -> list[Json]:
        return [message for message in self.said if message.get("method") == method]

    def results(self) -> dict[str, Json]:
        """The lines of the results, by the tool."""
        answers = [line for line in self.lines if line["type"] == "assistant"]
        blocks = [b for line in answers for b in line["message"]["content"]]
        names = {b["id"]: b["name"] for b in blocks if b["type"] == "tool_use"}
        found = {}
        for line in self.lines:
            if "toolUseResult" in line:
                (block,) = line["message"]["content"]
                found[names[block["tool_use_id"]].removeprefix("mcp__rude__")] = line
        return found


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    home = tmp_path_factory.mktemp("told")
    servers = {"rude": entry("rude", str(home / "said"))}
    config = json.dumps({"mcpServers": servers})
    calls = [{"content": [{"tool": f"mcp__rude__{n}", "input": {"text": "hey"}}]} for n in ASKS]
    plan = {"scenario": 1, "answers": [*calls, {"text": "Done.", "times": "always"}]}
    options = ("--include-partial-messages", "--mcp-config", config, "--allowedTools", "mcp__rude")
    with serving(plan, strict=True) as server, Hosted(home, server.url, *options) as host:
        host.ask("initialize")
        host.say("go")
        assert host.result()["result"] == "Done."
        assert host.end() == 0
        yield Told(home, host, [request.body for request in server.requests])


@requirement("R148")
def test_what_is_said_to_a_server_is_json_rpc(told: Told) -> None:
    assert all(message["jsonrpc"] == "2.0" for message in told.said)
    for message in told.said:
        if message["method"].startswith("notifications/"):
            assert "id" not in message
        else:
            assert isinstance(message["id"], str | int)
    calls = told.of("tools/call")
    assert [message["params"]["name"] for message in calls] == list(ASKS)
    # A new process counts anew.
    ids = [message["id"] for message in told.said if "id" in message]
    begins = ids.index(told.of("initialize")[1]["id"], 1)
    assert all(len(set(part)) == len(part) for part in (ids[:begins], ids[begins:]))
    # The answer to another request is none of this one; what is no result is an error.
    results = told.results()
    assert "after all" in json.dumps(results["stranger"]["message"])
    assert results["lie"]["message"]["content"][0]["is_error"] is True


@requirement("R149")
def test_both_sides_say_what_they_can_do_and_no_more_is_asked(told: Told) -> None:
    first = told.of("initialize")[0]["params"]
    assert all(type(value) is dict for value in first["capabilities"].values())
    assert "roots" in first["capabilities"]
    assert {"name", "version"} <= set(first["clientInfo"])
    assert [m["method"] for m in told.said[:2]] == ["initialize", "notifications/initialized"]
    assert told.of("tools/list")
    assert told.of("prompts/list")


@requirement("R150")
def test_tools_of_a_server_have_a_name_a_description_and_a_schema(told: Told) -> None:
    tools = [tool for tool in told.bodies[0]["tools"] if tool["name"].startswith("mcp__rude__")]
    assert {"mcp__rude__echo", "mcp__rude__die"} <= {tool["name"] for tool in tools}
    for tool in tools:
        assert tool["description"].startswith("Does ")
        assert tool["input_schema"]["type"] == "object"


@requirement("R151", "W26")
def test_a_server_that_died_in_a_call_is_begun_again_for_the_next(told: Told) -> None:
    results = told.results()
    assert results["die"]["message"]["content"][0]["is_error"] is True
    assert "you said hey" in json.dumps(results["echo"]["message"])
    assert len(told.of("initialize")) == 2


@requirement("R011")
def test_a_result_with_structure_is_recorded_with_it(told: Told) -> None:
    structured = {"structuredContent": {"degrees": 21}}
    assert told.results()["structured"]["mcpMeta"] == structured
    sent = [f["tool_use_result"] for f in told.frames if "tool_use_result" in f]
    assert {"content": '{"degrees":21}'} | structured in sent


@requirement("R083")
def test_progress_has_what_its_tool_reports(told: Told) -> None:
    progress = {f["tool_name"]: f["data"] for f in told.frames if f["type"] == "tool_progress"}
    data = progress["mcp__rude__progress"]
    assert data.pop("progress") in range(3)
    assert data == {"type": "mcp_progress", "total": 3, "message": "on it"}
