"""An MCP server with one tool, which appends its number to a file. Run as a program: FILE."""

import json
import os
import sys

TOOL = {
    "name": "count",
    "description": "Count a number",
    "inputSchema": {
        "type": "object",
        "properties": {"number": {"type": "integer"}},
        "required": ["number"],
    },
}


def answer(request: dict, fd: int) -> dict:
    match request["method"]:
        case "initialize":
            return {
                "protocolVersion": request["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "counter", "version": "1"},
            }
        case "tools/list":
            return {"tools": [TOOL]}
        case "tools/call":
            os.write(fd, b"%d\n" % request["params"]["arguments"]["number"])
            return {"content": [{"type": "text", "text": "counted"}]}
    return {}


def main() -> None:
    fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            reply = {"jsonrpc": "2.0", "id": request["id"], "result": answer(request, fd)}
            sys.stdout.write(json.dumps(reply) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
