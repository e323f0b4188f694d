"""Models in clouds, by the real program: what is sent where, and signed with what."""

import json
import re
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from clew.testing.wires import serving_wire
from tests.fronts.headless.test_services import CALL, run, words
from tests.requirements import requirement

AWS = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "aws-secret-0123456789"}
SCOPE = re.compile(r"AWS4-HMAC-SHA256 Credential=AKID/\d{8}/us-east-1/bedrock/aws4_request, ")


def services(**rows: Any) -> list[str]:
    return ["--settings", json.dumps({"services": rows})]


@requirement("R299", "R053", "W3")
def test_claude_on_bedrock_in_frames_signed_for_aws(tmp_path: Path) -> None:
    with serving_wire("frames", CALL, words("It says alpha.")) as service:
        mine = {"like": "bedrock-runtime", "url": service.url, "region": "us-east-1"}
        done = run(tmp_path, AWS, "-p", "read a.txt", "--model", "mine/opus", *services(mine=mine))
        assert done.stdout == "It says alpha.\n", done.stderr
        model = "global.anthropic.claude-opus-5-5"
        assert service.paths == [f"/model/{model}/invoke-with-response-stream"] * 2
        for body, headers in zip(service.requests, service.headers, strict=True):
            assert SCOPE.match(headers["authorization"])
            assert "model" not in body
            assert "stream" not in body
            assert body["anthropic_version"] == "2026-10-21"
            assert isinstance(body["anthropic_beta"], list)
        assert "alpha" in json.dumps(service.requests[1])
        assert AWS["AWS_SECRET_ACCESS_KEY"] not in json.dumps([service.headers, service.requests])


def test_other_models_on_bedrock_by_converse(tmp_path: Path) -> None:
    with serving_wire("converse", CALL, words("It says alpha.")) as service:
        mine = {"like": "converse", "url": service.url, "region": "us-east-1"}
        name = "mine/us.amazon.nova-2-pro-v1:0"
        done = run(tmp_path, AWS, "-p", "read a.txt", "--model", name, *services(mine=mine))
        assert done.stdout == "It says alpha.\n", done.stderr
        assert service.paths == ["/model/us.amazon.nova-2-pro-v1%3A0/converse-stream"] * 2
        assert SCOPE.match(service.headers[0]["authorization"])
        last = service.requests[1]["messages"][-1]["content"][0]["toolResult"]
        assert "alpha" in json.dumps(last)


def test_a_bearer_token_of_bedrock_needs_no_signature(tmp_path: Path) -> None:
    with serving_wire("messages", words("Hi.")) as service:
        mine = {"like": "bedrock", "url": service.url, "region": "r", "key": "env:MINE"}
        environ = {"MINE": "bedrock-token-0123456789"}
        done = run(tmp_path, environ, "-p", "hi", "--model", "mine/opus", *services(mine=mine))
        assert done.stdout == "Hi.\n", done.stderr
        assert service.headers[0]["authorization"] == "Bearer bedrock-token-0123456789"
        assert service.requests[0]["model"] == "anthropic.claude-opus-5-5"


@contextmanager
def token_server(asked: list[dict[str, list[str]]]) -> Iterator[str]:
    """Run a server that gives a token for each grant."""

    class TokenHandler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Print nothing."""

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            asked.append(parse_qs(body))
            data = json.dumps({"access_token": f"token-{len(asked)}", "expires_in": 3600}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), TokenHandler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/token"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("kind", ["service_account", "authorized_user"])
def test_claude_on_vertex_with_an_account_of_google(tmp_path: Path, kind: str) -> None:
    asked: list[dict[str, list[str]]] = []
    refused = (401, {"error": {"message": "expired", "status": "UNAUTHENTICATED"}})
    with (
        token_server(asked) as url,
        serving_wire("messages", CALL, refused, words("It says alpha.")) as service,
    ):
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        pem = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode()
        account = {
            "type": kind, "client_email": "me@p.example", "private_key": pem, "token_uri": url,
            "client_id": "c", "client_secret": "s", "refresh_token": "r",
        }  # fmt: skip
        (tmp_path / "account.json").write_text(json.dumps(account), "utf-8")
        mine = {"like": "vertex", "url": service.url, "region": "eu", "project": "p1"}
        environ = {"GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "account.json")}
        done = run(
            tmp_path, environ, "-p", "read a.txt", "--model", "mine/opus", *services(mine=mine)
        )
        assert done.stdout == "It says alpha.\n", done.stderr
        place = "/v1/projects/p1/locations/eu/publishers/anthropic/models/claude-opus-5-5"
        assert service.paths == [f"{place}:streamRawPredict"] * 3
        bearers = [headers["authorization"] for headers in service.headers]
        assert bearers == ["Bearer token-1", "Bearer token-1", "Bearer token-2"], "renewed once"
        assert "model" not in service.requests[0]
    if kind == "service_account":
        assertion = asked[0]["assertion"][0].split(".")[1]
        claims = json.loads(b64decode(assertion + "=="))
        assert (claims["iss"], claims["aud"]) == ("me@p.example", url)
    else:
        assert asked[0]["refresh_token"] == ["r"]


def test_azure_and_foundry_send_their_keys_in_their_headers(tmp_path: Path) -> None:
    with (
        serving_wire("responses", words("Azure.")) as azure,
        serving_wire("messages", words("Foundry.")) as foundry,
    ):
        rows = {
            "a": {"like": "azure", "url": f"{azure.url}/openai/v1", "resource": "x", "key": "env:A"},
            "f": {"like": "foundry", "url": f"{foundry.url}/anthropic", "resource": "x",
                  "key": "env:F"},
        }  # fmt: skip
        environ = {"A": "azure-0123456789", "F": "foundry-0123456789"}
        done = run(tmp_path, environ, "-p", "hi", "--model", "a/gpt-6-sol", *services(**rows))
        assert done.stdout == "Azure.\n", done.stderr
        done = run(tmp_path, environ, "-p", "hi", "--model", "f/opus", *services(**rows))
        assert done.stdout == "Foundry.\n", done.stderr
        assert azure.headers[0]["api-key"] == "azure-0123456789"
        assert azure.paths == ["/openai/v1/responses"]
        assert foundry.headers[0]["x-api-key"] == "foundry-0123456789"
        assert foundry.paths[0].startswith("/anthropic/v1/messages")
