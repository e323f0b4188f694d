"""A small MCP server for tests: well-behaved by default, or misbehaving as requested.

python server_program.py MODE [FILE]

Must run in a bare interpreter: the time that it needs to start is part of what tests measure.
"""

import json
import os
import signal
import sys
from pathlib import Path

MODE = sys.argv[1] if len(sys.argv) > 1 else "honest"
NOTE = sys.argv[2] if len(sys.argv) > 2 else ""


def send(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def answer(identity, result):
    send({"jsonrpc": "2.0", "id": identity, "result": result})


def refuse(identity, code, message, data=None):
    error = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    send({"jsonrpc": "2.0", "id": identity, "error": error})


def tool(name, **more):
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    return {"name": name, "description": f"Does {name}.", "inputSchema": schema, **more}


TOOLS = {
    "honest": [
        tool("echo", annotations={"readOnlyHint": True}),
        tool("fail"),
        tool("environment"),
        tool("ask_roots"),
    ],
    "many": [tool(f"tool_{n:03}") for n in range(int(os.environ.get("MANY", "100")))],
    "bad_schemas": [
        {"name": "no_schema"},
        {"name": "listed", "inputSchema": []},
        {"name": "text", "inputSchema": {"type": "string"}},
        {
            "name": "unknown_type",
            "inputSchema": {"type": "object", "properties": {"a": {"type": "any"}}},
        },
        {
            "name": "odd_names",
            "inputSchema": {"type": "object", "properties": {"a b$": {"type": "string"}}},
        },
        {"name": "any_of", "inputSchema": {"anyOf": [{"type": "object"}]}},
        {"name": "deep", "inputSchema": {"type": "object", "properties": {"a": None}}},
        {"name": ""},
        {"name": 7},
        "no object",
        tool("sound"),
    ],
}


def call(identity, params):
    name, given = params["name"], params.get("arguments", {})
    if MODE == "many":
        answer(identity, {"content": [{"type": "text", "text": "done"}]})
    elif name == "echo":
        answer(identity, {"content": [{"type": "text", "text": f"you said {given.get('text')}"}]})
    elif name == "fail":
        answer(identity, {"content": [{"type": "text", "text": "it broke"}], "isError": True})
    elif name == "environment":
        answer(identity, {"content": [{"type": "text", "text": os.environ.get("SECRET", "none")}]})
    elif name == "ask_roots":
        send({"jsonrpc": "2.0", "id": "roots-1", "method": "roots/list"})
        roots = json.loads(sys.stdin.readline())
        answer(identity, {"content": [{"type": "text", "text": json.dumps(roots["result"])}]})
    elif name == "die":
        os._exit(3)
    elif name == "hang":
        if NOTE:
            Path(NOTE).write_text("hangs", encoding="utf-8")
        signal.pause()
    elif name == "wait":
        for line in sys.stdin:
            with Path(NOTE).open("a", encoding="utf-8") as note:
                note.write(line)
    elif name == "flood":
        head = '{"jsonrpc": "2.0", "id": ID, "result": {"content": [{"type": "text", "text": "'
        sys.stdout.write(head.replace("ID", str(identity)))
        piece = "x" * (1 << 20)
        for _ in range(int(given.get("text") or 40)):
            sys.stdout.write(piece)
        sys.stdout.write('"}]}}\n')
        sys.stdout.flush()
    elif name == "change":
        TOOLS[MODE] = [tool("echo"), tool("new_one")]
        send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        answer(identity, {"content": [{"type": "text", "text": "changed"}]})
    elif name == "lie":
        answer(identity, ["not", "an", "object"])
    elif name == "stranger":
        answer(987654, {"content": []})
        answer(identity, {"content": [{"type": "text", "text": "after all"}]})
    elif name == "structured":
        answer(identity, {"content": [], "structuredContent": {"degrees": 21}})
    elif name == "picture":
        data = (
            given.get("text")
            or "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
        )
        answer(identity, {"content": [{"type": "image", "data": data, "mimeType": "image/png"}]})
    elif name == "long":
        answer(identity, {"content": [{"type": "text", "text": "line\n" * 100_000}]})
    elif name == "progress":
        token = params["_meta"]["progressToken"]
        for done in range(3):
            send(
                {
                    "jsonrpc": "2.0",
                    "method": "notifications/progress",
                    "params": {
                        "progressToken": token,
                        "progress": done,
                        "total": 3,
                        "message": "on it",
                    },
                }
            )
        answer(identity, {"content": [{"type": "text", "text": "done"}]})
    elif name == "elicit":
        send(
            {
                "jsonrpc": "2.0",
                "id": "ask-1",
                "method": "elicitation/create",
                "params": {
                    "message": given.get("text") or "Which color?",
                    "requestedSchema": {
                        "type": "object",
                        "required": ["color"],
                        "properties": {"color": {"type": "string", "enum": ["red", "blue"]}},
                    },
                },
            }
        )
        said = json.loads(sys.stdin.readline())
        if given.get("text") == "Go to a page?":
            method = "notifications/elicitation/complete"
            send({"jsonrpc": "2.0", "method": method, "params": {"elicitationId": "e"}})
        answer(
            identity,
            {
                "content": [
                    {"type": "text", "text": json.dumps(said.get("result") or said.get("error"))}
                ]
            },
        )
    elif name == "sample":
        send(
            {
                "jsonrpc": "2.0",
                "id": "sample-1",
                "method": "sampling/createMessage",
                "params": {
                    "messages": [
                        {"role": "user", "content": {"type": "text", "text": "Say a word."}}
                    ],
                    "maxTokens": 50,
                },
            }
        )
        said = json.loads(sys.stdin.readline())
        answer(
            identity,
            {
                "content": [
                    {"type": "text", "text": json.dumps(said.get("result") or said.get("error"))}
                ]
            },
        )
    else:
        refuse(identity, -32602, f"no tool {name}")


TOOLS["rude"] = [
    tool(n)
    for n in (
        "die",
        "hang",
        "flood",
        "change",
        "lie",
        "stranger",
        "structured",
        "picture",
        "long",
        "progress",
        "elicit",
        "wait",
        "sample",
        "echo",
    )
]


def serve():
    if MODE == "garbage":
        sys.stdout.write("Starting up...\n\x1b[31mWARNING\x1b[0m: no json\n")
        sys.stdout.write('{"half": \n[1, 2, 3]\n')
        sys.stdout.flush()
        TOOLS[MODE] = TOOLS["honest"]
    if MODE == "dies_at_once":
        sys.stderr.write("no configuration found\n")
        sys.exit(2)
    if MODE == "silent":
        signal.pause()
    for line in sys.stdin:
        message = json.loads(line)
        identity, method = message.get("id"), message.get("method")
        if NOTE:
            with Path(NOTE).open("a", encoding="utf-8") as note:
                note.write(line)
        if method == "initialize":
            answer(
                identity,
                {
                    "protocolVersion": "1999-01-01"
                    if MODE == "old"
                    else message["params"]["protocolVersion"],
                    "capabilities": {
                        "tools": {"listChanged": True},
                        "resources": {"subscribe": True},
                        "prompts": {},
                        "completions": {},
                        "logging": {},
                    },
                    "serverInfo": {"name": "test", "version": "1"},
                    "instructions": "Use echo to be heard.",
                },
            )
        elif method == "tools/list":
            if MODE == "endless_pages":
                answer(identity, {"tools": [tool(f"t{identity}")], "nextCursor": str(identity)})
            else:
                answer(identity, {"tools": TOOLS.get(MODE, TOOLS["honest"])})
        elif method == "tools/call":
            call(identity, message["params"])
        elif method == "prompts/list":
            answer(
                identity,
                {
                    "prompts": [
                        {
                            "name": "review",
                            "description": "Reviews a file.",
                            "arguments": [{"name": "file", "required": True}, {"name": "tone"}],
                        }
                    ]
                },
            )
        elif method == "prompts/get":
            given = message["params"].get("arguments", {})
            answer(
                identity,
                {
                    "messages": [
                        {"role": "user", "content": {"type": "text", "text": f"Review {given}."}}
                    ]
                },
            )
        elif method == "resources/list":
            answer(
                identity,
                {"resources": [{"uri": "memo://one", "name": "One", "mimeType": "text/plain"}]},
            )
        elif method == "resources/templates/list":
            answer(
                identity, {"resourceTemplates": [{"uriTemplate": "memo://{name}", "name": "Any"}]}
            )
        elif method == "resources/read":
            answer(identity, {"contents": [{"uri": message["params"]["uri"], "text": "the memo"}]})
        elif method == "resources/subscribe":
            answer(identity, {})
            send(
                {
                    "jsonrpc": "2.0",
                    "method": "notifications/resources/updated",
                    "params": message["params"],
                }
            )
        elif method == "logging/setLevel":
            answer(identity, {})
            data = f"level {message['params']['level']}"
            params = {"level": "info", "data": data}
            send({"jsonrpc": "2.0", "method": "notifications/message", "params": params})
        elif method == "completion/complete" and MODE == "no_words":
            pass
        elif method == "completion/complete":
            typed, ref = message["params"]["argument"]["value"], message["params"]["ref"]
            values = ["main.py", "map.py"]
            if ref["type"] == "ref/resource":
                values = ["one", "two"]
            elif message["params"].get("context"):
                values = [f"kind to {message['params']['context']['arguments']['file']}", "kind"]
            fitting = [one for one in values if one.startswith(typed)]
            answer(identity, {"completion": {"values": fitting}})
        elif method == "ping":
            answer(identity, {})
        elif identity is not None and method is not None:
            refuse(identity, -32601, f"no method {method}")


if __name__ == "__main__":
    serve()
