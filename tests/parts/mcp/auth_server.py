"""An MCP server that requires a login, with its authorization server, on one loopback port.

It is strict, and can lie. It is its own browser too: `visit` follows a login URL as a user would.
"""

import asyncio
import json
import urllib.parse
import urllib.request
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Json = dict[str, Any]


class Authority:
    """`lies` change the responses; `seen` are the requests, including tokens."""

    def __init__(self, **lies: Any) -> None:
        self.lies = lies
        self.seen: list[tuple[str, Json]] = []
        self.codes: dict[str, Json] = {}
        self.tokens: set[str] = set()
        self.refresh = ""
        self.url = ""
        self.lives_s: float | None = None
        self.count = 0

    # -- what it says of itself

    def metadata(self, path: str) -> Json | None:
        if path.startswith("/.well-known/oauth-protected-resource"):
            return {
                "resource": self.lies.get("resource", f"{self.url}/mcp"),
                "authorization_servers": [self.url],
                "scopes_supported": ["tools"],
            }
        if path == "/.well-known/oauth-authorization-server":
            said = {
                "issuer": self.url,
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "registration_endpoint": f"{self.url}/register",
                "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": True,
            }
            said.update(self.lies.get("metadata", {}))
            return {k: v for k, v in said.items() if v is not None}
        return None

    def register(self, given: Json) -> Json:
        assert given["token_endpoint_auth_method"] == "none"
        return {"client_id": "client-1", "redirect_uris": given["redirect_uris"]}

    def authorize(self, query: Json) -> str:
        """Return where the browser is sent after the user's consent."""
        assert query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        assert query["resource"] == f"{self.url}/mcp"
        code = f"code-{len(self.codes)}"
        self.codes[code] = query
        said = {"code": code, "state": query["state"], "iss": self.url}
        said.update(self.lies.get("callback", {}))
        return query["redirect_uri"] + "?" + urllib.parse.urlencode(said)

    def token(self, form: Json) -> tuple[int, Json]:
        if form["grant_type"] == "authorization_code":
            asked = self.codes.pop(form["code"], None)
            proof = urlsafe_b64encode(sha256(form["code_verifier"].encode()).digest())
            if asked is None or proof.rstrip(b"=").decode() != asked["code_challenge"]:
                return 400, {"error": "invalid_grant", "error_description": "no such code"}
            assert form["redirect_uri"] == asked["redirect_uri"]
        elif form.get("refresh_token") != self.refresh or "refresh" in self.lies:
            return 400, {"error": "invalid_grant"}
        assert form["resource"] == f"{self.url}/mcp"
        self.count += 1
        access = f"access-{self.count}"
        self.tokens = {access}
        self.refresh = f"refresh-{self.count}"
        given = {"access_token": access, "token_type": "Bearer", "refresh_token": self.refresh}
        return 200, given | ({} if self.lives_s is None else {"expires_in": self.lives_s})

    # -- the server itself

    def mcp(self, message: Json) -> Json | None:
        method = message["method"]
        result: Json
        if method == "initialize":
            result = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "locked"},
            }
        elif method == "tools/list":
            result = {"tools": [{"name": "open", "inputSchema": {"type": "object"}}]}
        elif method == "tools/call":
            result = {"content": [{"type": "text", "text": "opened"}]}
        else:
            return None
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def handler(authority: Authority) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            """Tests print nothing."""

        def answer(self, status: int, body: Json | None, **headers: str) -> None:
            data = b"" if body is None else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            if path == "/authorize":
                where = authority.authorize(dict(urllib.parse.parse_qsl(query)))
                self.answer(302, None, Location=where)
                return
            said = authority.metadata(path)
            self.answer(404 if said is None else 200, said)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/token":
                form = dict(urllib.parse.parse_qsl(body.decode()))
                authority.seen.append(("token", form))
                self.answer(*authority.token(form))
            elif self.path == "/register":
                self.answer(201, authority.register(json.loads(body)))
            else:
                self.mcp(body)

        def mcp(self, body: bytes) -> None:
            token = self.headers.get("Authorization", "").removeprefix("Bearer ")
            authority.seen.append(("mcp", {k.lower(): v for k, v in self.headers.items()}))
            if token not in authority.tokens:
                place = f"{authority.url}/.well-known/oauth-protected-resource/mcp"
                challenge = f'Bearer resource_metadata="{place}", scope="tools"'
                self.answer(401, None, WWW_Authenticate=challenge)
                return
            said = authority.mcp(json.loads(body))
            self.answer(202 if said is None else 200, said)

    return Handler


@contextmanager
def authority(**lies: Any) -> Iterator[Authority]:
    made = Authority(**lies)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(made))
    made.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def visit(url: str) -> None:
    """Act as the user's browser: follow the redirects, and read the final page."""
    with urllib.request.urlopen(url, timeout=20) as page:
        page.read()


async def visiting(url: str) -> None:
    await asyncio.to_thread(visit, url)
