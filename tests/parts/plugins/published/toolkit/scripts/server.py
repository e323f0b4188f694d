"""An MCP server with one tool, in as few lines as it takes."""

import json
import sys

TOOL = {"name": "recall", "description": "Recalls", "inputSchema": {"type": "object"}}
for line in sys.stdin:
    asked = json.loads(line)
    results = {
        "initialize": {
            "protocolVersion": asked.get("params", {}).get("protocolVersion", "2025-06-18"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "memo", "version": "1"},
        },
        "tools/list": {"tools": [TOOL]},
        "tools/call": {"content": [{"type": "text", "text": "the combination is 1234"}]},
    }
    if "id" in asked:
        known = results.get(asked["method"])
        error = {"code": -32601, "message": "no"}
        said = {"error": error} if known is None else {"result": known}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}) + "\n")
        sys.stdout.flush()
