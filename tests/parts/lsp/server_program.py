"""A small language server for tests: well-behaved by default, or misbehaving as requested.

python server_program.py [MODE] [LOG]

Every word BAD in a file is an error, every ODD a warning. Must run in a bare interpreter.
"""

import json
import os
import sys
from pathlib import Path

MODE = sys.argv[1] if len(sys.argv) > 1 else "honest"
LOG = sys.argv[2] if len(sys.argv) > 2 else os.devnull
TEXTS = {}


def log(words):
    with Path(LOG).open("a", encoding="utf-8") as file:
        file.write(words + "\n")


def read():
    length = 0
    while (line := sys.stdin.buffer.readline().strip()) or not length:
        if not line:
            sys.exit(0)
        name, _, value = line.partition(b":")
        length = int(value) if name.lower() == b"content-length" else length
    return json.loads(sys.stdin.buffer.read(length))


def send(message):
    data = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%b" % (len(data), data))
    sys.stdout.buffer.flush()


def span(line, begin, end):
    return {"start": {"line": line, "character": begin}, "end": {"line": line, "character": end}}


def found(text, word):
    for number, line in enumerate(text.split("\n")):
        if word in line:
            begin = len(line[: line.index(word)].encode("utf-16-le")) // 2
            yield number, begin


def diagnostics(text):
    return [
        {"range": span(line, at, at + 3), "severity": severity, "message": f"{word} is wrong"}
        for word, severity in (("BAD", 1), ("ODD", 2))
        for line, at in found(text, word)
    ]


def spoken(uri):
    TEXTS.setdefault(uri, "")
    if MODE != "pull":
        params = {"uri": uri, "diagnostics": diagnostics(TEXTS[uri])}
        send({"method": "textDocument/publishDiagnostics", "params": params})


def places(word):
    return [
        {"uri": uri, "range": span(line, at, at + len(word))}
        for uri, text in TEXTS.items()
        for line, at in found(text, word)
    ]


def answer(method, params):
    match method:
        case "initialize":
            offered = {
                f"{name}Provider": {}
                for name in (
                    "definition",
                    "implementation",
                    "references",
                    "hover",
                    "documentSymbol",
                    "workspaceSymbol",
                    "callHierarchy",
                )
            }
            return {
                "capabilities": offered | ({"diagnosticProvider": {}} if MODE == "pull" else {})
            }
        case "shutdown":
            log("shutdown")
            return None
        case "textDocument/definition":
            at = params["position"]
            text = TEXTS[params["textDocument"]["uri"]].split("\n")[at["line"]]
            log(f"definition at {at['line']}:{at['character']}")
            word = text.encode("utf-16-le")[at["character"] * 2 :].decode("utf-16-le").split()[0]
            return places(word)[:1]
        case "textDocument/references":
            outside = {"uri": "file:///elsewhere/x.py", "range": span(6, 0, 1)}
            return [*places("paint"), outside]
        case "textDocument/hover":
            return {"contents": {"kind": "markdown", "value": "**paint** a thing"}}
        case "textDocument/documentSymbol":
            inner = {
                "name": "inner",
                "kind": 6,
                "range": span(1, 0, 1),
                "selectionRange": span(1, 0, 1),
            }
            return [{"name": "Outer", "kind": 5, "range": span(0, 0, 1), "children": [inner]}]
        case "workspace/symbol":
            return [
                {"name": params["query"], "kind": 12, "location": one} for one in places("paint")
            ]
        case "textDocument/prepareCallHierarchy":
            return [{"name": "paint", "kind": 12, **places("paint")[0]}]
        case "callHierarchy/incomingCalls":
            return [{"from": {"name": "caller", "kind": 12, **params["item"]}}]
        case "textDocument/diagnostic":
            items = diagnostics(TEXTS[params["textDocument"]["uri"]])
            return {"kind": "full", "items": items}
    return None


def main():
    log(f"started {os.environ.get('SEEN', '')}")
    while True:
        message = read()
        method, params = message.get("method"), message.get("params") or {}
        if method == "exit":
            log("exit")
            return
        if method is None:
            log(json.dumps(message["result"]))
        if MODE == "silent" or method is None:
            continue
        if "id" in message:
            send({"id": message["id"], "result": answer(method, params)})
        if MODE == "dies" and method == "initialized":
            sys.exit("no more")
        if MODE == "asks" and method == "initialized":
            items = [{"section": "paint.color"}, {}]
            send({"id": "q", "method": "workspace/configuration", "params": {"items": items}})
        document = params.get("textDocument", {})
        if method == "textDocument/didOpen":
            TEXTS[document["uri"]] = document["text"]
            log(f"open {document['languageId']}")
            spoken(document["uri"])
        elif method == "textDocument/didChange":
            TEXTS[document["uri"]] = params["contentChanges"][0]["text"]
            spoken(document["uri"])
        elif method == "textDocument/didClose":
            log("close")


main()
