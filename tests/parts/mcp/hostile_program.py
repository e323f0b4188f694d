"""An MCP server that violates the protocol: in one way per NAME, otherwise correct.

python hostile_program.py NAME
"""

import json
import sys

NAME = sys.argv[1]
DEEP = "[" * 5000 + "]" * 5000
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
ASKED = {"type": "object", "properties": {"name": {"type": "string"}}, "required": [["name"]]}
TOOL = {"name": "do", "description": "Does it.", "inputSchema": SCHEMA}
ODD = {"name": "odd", "description": "Odd.", "inputSchema": {"type": "object", "properties": 7}}
PROMPT = {"name": "review", "description": "Reviews.", "arguments": [{"name": "file"}]}
DONE = '{"content": [{"type": "text", "text": "done"}]}'
CAPABILITIES = {"tools": {}, "prompts": {}, "completions": {}, "logging": {}}


def say(text):
    sys.stdout.write(text + "\n")


def answer(identity, result):
    say(f'{{"jsonrpc": "2.0", "id": {json.dumps(identity)}, "result": {result}}}')


def told(method, params):
    say(f'{{"jsonrpc": "2.0", "method": "{method}", "params": {params}}}')


def called(identity, params):
    token = json.dumps(params["_meta"].get("progressToken"))
    match NAME:
        case "deep":
            answer(identity, f'{{"content": [], "structuredContent": {{"a": {DEEP}}}}}')
        case "deep part":
            part = f'{{"type": "text", "text": "a", "_meta": {{"a": {DEEP}}}}}'
            answer(identity, f'{{"content": [{part}]}}')
        case "deep refusal":
            error = f'{{"code": 1, "message": "no", "data": {DEEP}}}'
            say(f'{{"jsonrpc": "2.0", "id": {identity}, "error": {error}}}')
        case "deep news":
            told("notifications/message", f'{{"level": "info", "data": {DEEP}}}')
            told("notifications/progress", f'{{"progressToken": {token}, "progress": {DEEP}}}')
            say(DEEP)
            answer(identity, DONE)
        case "twice":
            answer(identity, DONE)
            answer(identity, '{"content": [{"type": "text", "text": "again"}]}')
            answer(str(identity), '{"content": [{"type": "text", "text": "as text"}]}')
        case "storm":
            for number in range(100_000):
                told("notifications/tools/list_changed", "{}")
                told("notifications/message", f'{{"level": "info", "data": "news {number}"}}')
                progress = '{"progressToken": %s, "progress": %d, "message": "so far"}'
                told("notifications/progress", progress % (token, number))
            answer(identity, DONE)
        case "odd form":
            form = json.dumps({"message": "Who?", "requestedSchema": ASKED})
            say(
                f'{{"jsonrpc": "2.0", "id": "e", "method": "elicitation/create", "params": {form}}}'
            )
            sys.stdout.flush()
            said = json.loads(sys.stdin.readline())
            words = json.dumps(json.dumps(said.get("result") or said.get("error")))
            answer(identity, f'{{"content": [{{"type": "text", "text": {words}}}]}}')
        case _:
            answer(identity, DONE)


HELD = []


def completed(identity, params):
    typed = params["argument"]["value"]
    match NAME:
        case "huge words":
            words = [f"{typed}{number}" for number in range(200_000)]
            answer(identity, json.dumps({"completion": {"values": ["x" * 5_000_000, *words]}}))
        case "odd words":
            odd = [None, 7, {}, [], "", "\x1b[2Jgone", "two\nlines", f"{typed}fine"]
            answer(identity, json.dumps({"completion": {"values": odd, "total": "many"}}))
        case "no list of words":
            answer(identity, '{"completion": {"values": {"a": "b"}}}')
        case "deep words":
            answer(identity, f'{{"completion": {{"values": {DEEP}}}}}')
        case "late words":
            # Each is answered when the next is asked, after it was given up.
            for late in HELD:
                answer(late, '{"completion": {"values": ["stale"]}}')
                answer(late, '{"completion": {"values": ["staler"]}}')
            HELD.append(identity)
        case "endless words":
            head = '{"jsonrpc": "2.0", "id": ID, "result": {"completion": {"values": ["'
            sys.stdout.write(head.replace("ID", str(identity)))
            while True:
                sys.stdout.write("x" * 65536)
        case _:
            answer(identity, '{"completion": {"values": ["fine"]}}')


for line in sys.stdin:
    message = json.loads(line)
    identity, method = message.get("id"), message.get("method")
    match method:
        case "initialize":
            version = message["params"]["protocolVersion"]
            info = {"name": "hostile", "version": "1"}
            said = {"protocolVersion": version, "capabilities": CAPABILITIES, "serverInfo": info}
            answer(identity, json.dumps(said))
        case "tools/list":
            answer(identity, json.dumps({"tools": [TOOL, ODD] if NAME == "odd schema" else [TOOL]}))
        case "prompts/list":
            answer(identity, json.dumps({"prompts": [PROMPT]}))
        case "prompts/get":
            words = {"role": "user", "content": {"type": "text", "text": "Review it."}}
            answer(identity, json.dumps({"messages": [words]}))
        case "tools/call":
            called(identity, message["params"])
        case "completion/complete":
            completed(identity, message["params"])
        case _ if identity is not None and method is not None:
            answer(identity, "{}")
    sys.stdout.flush()
