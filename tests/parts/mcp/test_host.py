"""Servers in the program that started clew, over that program's channel."""

import json
import socket
from pathlib import Path
from typing import Any

from clew.testing.server import serving
from tests.fronts.headless.clew_process import transcripts
from tests.fronts.headless.host_process import Hosted
from tests.parts.mcp.test_sessions import calls, results
from tests.parts.mcp.yard import entry

CONFIG = json.dumps({"mcpServers": {"calc": {"type": "sdk", "name": "calc"}}})


def answered(host: Hosted, message: dict[str, Any]) -> dict[str, Any]:
    """What a host's own server says."""
    method = message["method"]
    result: Any = {}
    if method == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {}}
    elif method == "tools/list":
        result = {"tools": [{"name": "add", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        assert message["params"]["_meta"]["claudecode/toolUseId"]
        numbers = message["params"]["arguments"]
        result = {"content": [{"type": "text", "text": str(numbers["a"] + numbers["b"])}]}
    if "id" not in message:
        return {"jsonrpc": "2.0", "result": {}}
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def serve(host: Hosted, until: str) -> dict[str, Any]:
    """Answers for the server until a frame of the type `until` comes."""
    while True:
        frame = host.until(lambda f: f["type"] in ("control_request", until))
        if frame["type"] == until:
            return frame
        request = frame["request"]
        if request["subtype"] == "mcp_message":
            assert request["server_name"] == "calc"
            host.answer(frame, mcp_response=answered(host, request["message"]))


def test_a_hosts_own_server_is_used_over_its_channel(tmp_path: Path) -> None:
    plan = calls(("mcp__calc__add", {"a": 2, "b": 3}))
    with (
        serving(plan, strict=True) as server,
        Hosted(tmp_path, server.url, "--mcp-config", CONFIG, "--allowedTools", "mcp__calc") as host,
    ):
        host.send(type="control_request", request_id="r", request={"subtype": "initialize"})
        serve(host, "control_response")
        host.say("go")
        init = host.until(lambda f: f.get("subtype") == "init")
        assert init["mcp_servers"] == [{"name": "calc", "status": "connected", "source": "cli"}]
        assert "mcp__calc__add" in init["tools"]
        assert serve(host, "result")["result"] == "Done."
        assert results(server) == [[{"type": "text", "text": "5"}]]
        (one,) = host.ask("mcp_status")["response"]["mcpServers"]
        assert (one["name"], one["status"], one["tools"][0]["name"]) == ("calc", "connected", "add")


def test_a_hosts_server_without_any_tools_is_connected(tmp_path: Path) -> None:
    """It announces tools, but knows no method to list them."""
    with (
        serving({"scenario": 1, "answers": [{"text": "Hi."}]}, strict=True) as server,
        Hosted(tmp_path, server.url, "--mcp-config", CONFIG) as host,
    ):
        host.send(type="control_request", request_id="r", request={"subtype": "initialize"})
        while True:
            frame = host.until(lambda f: f["type"] in ("control_request", "control_response"))
            if frame["type"] == "control_response":
                break
            message = frame["request"]["message"]
            reply = answered(host, message)
            if message.get("method") == "tools/list":
                error = {"code": -32601, "message": "Method not found"}
                reply = {"jsonrpc": "2.0", "id": message["id"], "error": error}
            host.answer(frame, mcp_response=reply)
        host.say("go")
        init = host.until(lambda f: f.get("subtype") == "init")
        assert [one["status"] for one in init["mcp_servers"]] == ["connected"]
        assert host.result()["result"] == "Hi."
        assert not [f for f in host.frames if f.get("subtype") == "informational"]
        assert host.end() == 0


def test_a_host_manages_servers(tmp_path: Path) -> None:
    config = json.dumps({"mcpServers": {"memo": entry("honest")}})
    plan = {"scenario": 1, "answers": [{"text": "Hi.", "times": "always"}]}
    with (
        serving(plan, strict=True) as server,
        Hosted(tmp_path, server.url, "--mcp-config", config) as host,
    ):
        host.ask("initialize")
        host.say("go")
        host.until(lambda f: f["type"] == "result")
        assert any("mcp__memo" in tool["name"] for tool in server.requests[-1].body["tools"])
        assert "Server not found: x" in host.ask("mcp_reconnect", serverName="x")["error"]
        for enabled, status in ((False, "disabled"), (True, "connected"), (None, "connected")):
            if enabled is None:
                answer = host.ask("mcp_reconnect", serverName="memo")
            else:
                answer = host.ask("mcp_toggle", serverName="memo", enabled=enabled)
            assert answer["subtype"] == "success"
            (one,) = host.ask("mcp_status")["response"]["mcpServers"]
            assert one["status"] == status
            host.say("go")
            init = host.until(lambda f: f.get("subtype") == "init")
            host.until(lambda f: f["type"] == "result")
            assert [s["status"] for s in init["mcp_servers"]] == [status]
            is_there = any(name.startswith("mcp__memo") for name in init["tools"])
            assert is_there is (status == "connected")


def test_an_administrators_list_of_servers_that_is_none_allows_no_server(tmp_path: Path) -> None:
    config = json.dumps({"mcpServers": {"memo": entry("honest")}})
    forbids = json.dumps({"allowManagedMcpServersOnly": True, "allowedMcpServers": "memo"})
    words = ("--mcp-config", config, "--managed-settings", forbids)
    plan = {"scenario": 1, "answers": [{"text": "Hi.", "times": "always"}]}
    with serving(plan) as server, Hosted(tmp_path, server.url, *words) as host:
        host.say("go")
        assert host.result()["result"] == "Hi."
        assert not [t for t in server.requests[-1].body["tools"] if "memo" in t["name"]]
        assert host.end() == 0


def test_a_host_learns_why_a_server_did_not_come_back(tmp_path: Path) -> None:
    config = json.dumps({"mcpServers": {"gone": {"command": "/nowhere/to/be/found"}}})
    with (
        serving({"scenario": 1, "answers": []}) as server,
        Hosted(tmp_path, server.url, "--mcp-config", config) as host,
    ):
        host.ask("initialize")
        answer = host.ask("mcp_reconnect", serverName="gone")
        assert answer["subtype"] == "error"
        assert "gone" in answer["error"]


def test_a_host_that_does_not_know_its_server_ends_nothing(tmp_path: Path) -> None:
    plan = {"scenario": 1, "answers": [{"text": "Hi.", "times": "always"}]}
    with (
        serving(plan, strict=True) as server,
        Hosted(tmp_path, server.url, "--mcp-config", CONFIG) as host,
    ):
        host.send(type="control_request", request_id="r", request={"subtype": "initialize"})
        asked = host.until(lambda f: f["type"] == "control_request")
        refusal = {"subtype": "error", "request_id": asked["request_id"], "error": "no such server"}
        host.send(type="control_response", response=refusal)
        host.until(lambda f: f["type"] == "control_response")
        host.say("go")
        assert host.until(lambda f: f["type"] == "result")["result"] == "Hi."


def test_a_host_that_knows_no_forms_of_servers_is_asked_as_about_a_call(tmp_path: Path) -> None:
    config = json.dumps({"mcpServers": {"memo": entry("rude")}})
    with (
        serving(calls(("mcp__memo__elicit", {})), strict=True) as server,
        Hosted(
            tmp_path, server.url, "--mcp-config", config, "--allowedTools", "mcp__memo",
            "--permission-prompt-tool", "stdio",
        ) as host,
    ):  # fmt: skip
        host.ask("initialize")
        host.say("go")
        form = host.request("elicitation")
        no = {"subtype": "error", "request_id": form["request_id"], "error": "unsupported"}
        host.send(type="control_response", response=no)
        asked = host.request("can_use_tool")
        assert asked["request"]["tool_name"] == "AskUserQuestion"
        given = asked["request"]["input"]
        (question,) = given["questions"]
        assert question["question"].startswith("[MCP server memo] Which color?")
        answers = {question["question"]: "red"}
        host.answer(asked, behavior="allow", updatedInput=given | {"answers": answers})
        host.result()
        (said,) = results(server)
    assert json.loads(said) == {"action": "accept", "content": {"color": "red"}}
    (log,) = transcripts(tmp_path)
    assert "updatedInput" not in log.read_text("utf-8")


def test_a_host_reads_what_a_server_offers(tmp_path: Path) -> None:
    config = json.dumps({"mcpServers": {"memo": entry("honest")}})
    with (
        serving({"scenario": 1, "answers": []}) as server,
        Hosted(tmp_path, server.url, "--mcp-config", config) as host,
    ):
        host.ask("initialize")
        said = host.ask("mcp_read_resource", serverName="memo", uri="memo://one")
        assert said["response"] == {"contents": [{"uri": "memo://one", "text": "the memo"}]}
        assert (
            "Server not found: x" in host.ask("mcp_read_resource", serverName="x", uri="a")["error"]
        )
        assert "uri: expected" in host.ask("mcp_read_resource", serverName="memo")["error"]


def test_a_hosts_own_server_says_that_its_tools_are_others_now(tmp_path: Path) -> None:
    plan = {"scenario": 1, "answers": [{"text": "Hi.", "times": "always"}]}
    with (
        serving(plan, strict=True) as server,
        Hosted(tmp_path, server.url, "--mcp-config", CONFIG) as host,
    ):
        host.send(type="control_request", request_id="r", request={"subtype": "initialize"})
        serve(host, "control_response")
        changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        said = {"subtype": "mcp_message", "server_name": "calc", "message": changed}
        host.send(type="control_request", request_id="m", request=said)
        again = host.until(
            lambda f: (
                f["type"] == "control_request" and f["request"]["message"]["method"] == "tools/list"
            )
        )
        host.answer(again, mcp_response=answered(host, again["request"]["message"]))
        for fields in ({"server_name": "x", "message": changed}, {"server_name": "calc"}):
            assert host.ask("mcp_message", **fields)["subtype"] == "error"
        host.say("go")
        assert serve(host, "result")["result"] == "Hi."


def test_a_host_hears_at_once_of_a_server_that_clew_tries_again(tmp_path: Path) -> None:
    """Nothing listens at the URL, so clew keeps trying; the host does not wait for that."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/mcp"
        config = json.dumps({"mcpServers": {"far": {"type": "http", "url": url}}})
        with (
            serving({"scenario": 1, "answers": []}) as server,
            Hosted(tmp_path, server.url, "--mcp-config", config) as host,
        ):
            host.ask("initialize")
            answer = host.ask("mcp_reconnect", serverName="far")
            assert (answer["subtype"], "far" in answer["error"]) == ("error", True)
