"""MCP servers from an editor: programs, and servers in the editor itself."""

import json
import sys
from pathlib import Path
from typing import Any

from clew.testing.server import serving
from tests.fronts.editor.editor import Editor, chosen

Json = dict[str, Any]
PROGRAM = str(Path(__file__).parents[2] / "parts" / "mcp" / "server_program.py")
IN_EDITOR = {"type": "acp", "name": "buffers", "serverId": "11"}
TOOL = {
    "name": "open_buffers",
    "description": "Lists the open buffers",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
}


def calling(tool: str) -> Json:
    return {
        "scenario": 1,
        "answers": [{"content": [{"tool": tool, "input": {"text": "hey"}}]}, {"text": "done"}],
    }


def test_a_program_is_started_as_the_editor_describes_it(tmp_path: Path) -> None:
    server_program = {
        "name": "mine",
        "command": sys.executable,
        "args": ["-I", "-S", PROGRAM],
        "env": [{"name": "SECRET", "value": "${HOME} is no variable"}],
    }
    with (
        serving(calling("mcp__mine__environment"), strict=True) as server,
        Editor(tmp_path, server.url) as editor,
    ):
        session = editor.new(mcpServers=[server_program])
        editor.answers["session/request_permission"] = chosen("allow_once")
        editor.prompt(session, "call it")
        assert editor.of("tool_call_update")[-1]["status"] == "completed"
        assert "${HOME} is no variable" in json.dumps(server.requests[-1].body["messages"])


class Buffers:
    """A server in the editor. In the middle of a call, it sends `before` to clew."""

    def __init__(self, editor: Editor) -> None:
        self.editor = editor
        self.heard: list[str] = []
        self.roots = 0
        for name in ("connect", "message", "disconnect"):
            editor.answers[f"mcp/{name}"] = getattr(self, name)

    def connect(self, params: Json) -> Json:
        self.heard.append(f"connect {params['serverId']}")
        return {"connectionId": "c-1"}

    def disconnect(self, params: Json) -> Json:
        self.heard.append(f"disconnect {params['connectionId']}")
        return {}

    def message(self, params: Json) -> Json:
        self.heard.append(params["method"])
        match params["method"]:
            case "initialize":
                wanted = params["params"]["protocolVersion"]
                info = {"name": "buffers", "version": "1"}
                return {
                    "protocolVersion": wanted,
                    "capabilities": {"tools": {}},
                    "serverInfo": info,
                }
            case "tools/list":
                return {"tools": [TOOL]}
            case "tools/call":
                inner = {"connectionId": "c-1", "method": "roots/list"}
                self.roots = self.editor.begin("mcp/message", **inner)
                text = f"buffers for {params['params']['arguments']['text']}"
                return {"content": [{"type": "text", "text": text}]}
        return {"error": {"code": -32601, "message": "not here"}}


def test_a_server_in_the_editor_is_spoken_to_over_its_own_connection(tmp_path: Path) -> None:
    with (
        serving(calling("mcp__buffers__open_buffers"), strict=True) as server,
        Editor(tmp_path, server.url) as editor,
    ):
        buffers = Buffers(editor)
        session = editor.new(mcpServers=[IN_EDITOR])
        editor.answers["session/request_permission"] = chosen("allow_once")
        editor.prompt(session, "what is open?")
        assert buffers.heard[0] == "connect 11"
        assert buffers.heard[-1] == "tools/call"
        assert "buffers for hey" in json.dumps(server.requests[-1].body["messages"])
        # The server may ask clew, too.
        (root,) = editor.answer(buffers.roots)["result"]["roots"]
        assert root["uri"] == editor.work.as_uri()
        editor.ask("session/close", sessionId=session)
        assert buffers.heard[-1] == "disconnect c-1"
        gone = editor.error("mcp/message", connectionId="c-1", method="ping")
        assert gone["code"] == -32601


def test_an_editor_that_does_not_connect_its_server_has_a_session_all_the_same(
    tmp_path: Path,
) -> None:
    scenario = {"scenario": 1, "answers": [{"text": "hello"}]}
    with (
        serving(scenario, strict=True) as server,
        Editor(tmp_path, server.url, CLEW_MCP_WAIT_MS="50") as editor,
    ):
        editor.answers["mcp/connect"] = lambda _: {"error": {"code": 1, "message": "no"}}
        session = editor.new(mcpServers=[IN_EDITOR, {"type": "http", "name": "far"}, {}])
        assert editor.prompt(session, "hi") == {"stopReason": "end_turn"}
        assert editor.error("mcp/message", connectionId="none", method="ping")["code"] == -32601
        assert editor.end() == 0
