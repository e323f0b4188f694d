"""The loopback server over a plain socket: what really goes over the wire."""

import asyncio
import http.client
import json
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from clew.testing.http import mask_headers
from clew.testing.scenario import ScenarioError
from clew.testing.server import LoopbackServer, serving

ASK = {
    "model": "m",
    "max_tokens": 5,
    "stream": True,
    "messages": [{"role": "user", "content": "x"}],
}
HEADERS = {"content-type": "application/json", "anthropic-version": "2023-06-01"}


def request_bytes(body: Any = ASK, path: str = "/v1/messages") -> bytes:
    data = json.dumps(body).encode()
    return b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (
        path.encode(),
        len(data),
        data,
    )


def port_of(server: LoopbackServer) -> int:
    return int(server.url.rsplit(":", 1)[1])


def raw(answer: dict[str, Any], request: bytes | None = None) -> bytes:
    """Everything the server sends until it closes."""
    with (
        serving({"scenario": 1, "answers": [answer]}) as server,
        socket.create_connection(("127.0.0.1", port_of(server)), timeout=20) as connection,
    ):
        connection.sendall(request_bytes() if request is None else request)
        data = b""
        while got := connection.recv(65536):
            data += got
        return data


@contextmanager
def connected(server: LoopbackServer) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection("127.0.0.1", port_of(server), timeout=20)
    try:
        yield connection
    finally:
        connection.close()


def post(
    connection: http.client.HTTPConnection, body: Any = ASK, path: str = "/v1/messages"
) -> tuple[int, bytes]:
    connection.request("POST", path, json.dumps(body), HEADERS)
    response = connection.getresponse()
    return response.status, response.read()


@pytest.mark.parametrize("model", ["\ud83d", "1e999"])
def test_a_request_that_is_no_strict_json_is_refused_and_the_server_continues(model: str) -> None:
    with serving({"scenario": 1, "answers": [{"text": "hello"}]}) as server:
        connection = http.client.HTTPConnection("127.0.0.1", int(server.url.rpartition(":")[2]))
        odd: Any = {**ASK, "model": float(model) if model.isascii() else model}
        assert post(connection, odd)[0] == 400
        assert post(connection)[0] == 200
        connection.close()


def test_a_cut_leaves_the_answer_where_it_is() -> None:
    answer = {"events": ["abc\n\n", "def\n\n"], "faults": [{"after_bytes": 7, "cut": "close"}]}
    assert raw(answer).endswith(b"\r\n\r\n5\r\nabc\n\n\r\n2\r\nde\r\n")


def test_a_cut_that_ends_the_body_looks_whole() -> None:
    answer = {"body": "abcdef", "faults": [{"after_bytes": 2, "cut": "end"}]}
    closing = request_bytes().replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n", 1)
    assert raw(answer, closing).endswith(b"connection: close\r\n\r\n2\r\nab\r\n0\r\n\r\n")


def test_a_cut_before_the_headers_sends_nothing() -> None:
    faults = [{"at": "headers", "stall_s": 0.01}, {"at": "headers", "cut": "close"}]
    assert raw({"text": "x", "faults": faults}) == b""


@pytest.mark.parametrize("place", [{"at": "headers"}, {"after_events": 1}])
def test_a_reset_is_felt_as_one(place: dict[str, Any]) -> None:
    with pytest.raises(ConnectionResetError):
        raw({"text": "x", "faults": [{**place, "cut": "reset"}]})


def test_a_response_may_be_no_http() -> None:
    assert raw({"http": "HTP 200\r\n"}) == b"HTP 200\r\n"


def test_what_is_no_http_is_answered_and_the_connection_closed() -> None:
    data = raw({"text": "x"}, b"GET\r\n\r\n")
    assert data.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"connection: close" in data


def test_a_closed_request_is_no_request() -> None:
    with serving({"scenario": 1, "answers": []}) as server:
        with socket.create_connection(("127.0.0.1", port_of(server))) as connection:
            connection.sendall(request_bytes()[:40])
        with connected(server) as client:
            assert post(client)[0] == 400
        assert len(server.requests) == 1


def test_two_requests_sent_at_once_are_answered_in_order() -> None:
    answers = [{"body": "first"}, {"body": "second"}]
    closing = request_bytes().replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n", 1)
    with (
        serving({"scenario": 1, "answers": answers}) as server,
        socket.create_connection(("127.0.0.1", port_of(server)), timeout=20) as connection,
    ):
        connection.sendall(request_bytes() + closing)
        data = b""
        while got := connection.recv(65536):
            data += got
    assert data.index(b"first") < data.index(b"second")


def test_a_client_that_asks_first_is_told_to_continue() -> None:
    data = json.dumps(ASK).encode()
    head = b"POST /v1/messages HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
    with (
        serving({"scenario": 1, "answers": [{"body": "ok"}]}) as server,
        socket.create_connection(("127.0.0.1", port_of(server)), timeout=20) as connection,
    ):
        connection.sendall(head % len(data))
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(data)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("/v1/other", ASK, 404, "endpoint not found: POST /v1/other"),
        ("/v1/messages", [1], 400, "not valid JSON"),
        ("/v1/messages?beta=true", {**ASK, "uuid": "x"}, 400, "uuid: Extra inputs"),
        ("/v1/messages/count_tokens", {"model": "m", "messages": []}, 400, "at least one message"),
    ],
)
def test_a_strict_server_refuses_like_the_service(
    path: str, body: Any, status: int, said: str
) -> None:
    with (
        serving({"scenario": 1, "answers": []}, strict=True) as server,
        connected(server) as client,
    ):
        got, data = post(client, body, path)
        assert got == status
        assert said in json.loads(data)["error"]["message"]


@pytest.mark.parametrize("missing", list(HEADERS))
def test_a_strict_server_wants_its_headers(missing: str) -> None:
    with (
        serving({"scenario": 1, "answers": []}, strict=True) as server,
        connected(server) as client,
    ):
        headers = {k: v for k, v in HEADERS.items() if k != missing}
        client.request("POST", "/v1/messages", json.dumps(ASK), headers)
        assert missing.encode() in client.getresponse().read()


def test_a_body_that_is_no_json_is_a_400() -> None:
    with serving({"scenario": 1, "answers": []}) as server, connected(server) as client:
        client.request("POST", "/v1/messages", b"{" * 100, HEADERS)
        assert client.getresponse().status == 400


def test_a_client_that_leaves_in_a_stall_is_noticed() -> None:
    async def run() -> None:
        stall = {"text": "x", "faults": [{"after_events": 2, "stall_s": "forever"}]}
        async with (
            asyncio.timeout(20),
            LoopbackServer({"scenario": 1, "answers": [stall]}) as server,
        ):
            _, writer = await asyncio.open_connection("127.0.0.1", port_of(server))
            writer.write(request_bytes())
            await server.wait_for_requests(1)
            assert server.open_connections == 1
            writer.close()
            await server.wait_until_idle()
            assert server.open_connections == 0
            assert not server.requests[0].finished

    asyncio.run(run())


def test_leaving_the_server_ends_its_connections() -> None:
    async def run() -> bytes:
        stall = {"text": "x", "faults": [{"at": "headers", "stall_s": "forever"}]}
        async with asyncio.timeout(20):
            async with LoopbackServer({"scenario": 1, "answers": [stall]}) as server:
                reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server))
                writer.write(request_bytes())
                await server.wait_for_requests(1)
            data = await reader.read()
            writer.close()
            return data

    assert asyncio.run(run()) == b""


def test_many_small_deltas_arrive_whole() -> None:
    text = "0123456789abcdef" * 16_384
    answer = {"text": text, "delta_chars": 16}
    with serving({"scenario": 1, "answers": [answer]}) as server, connected(server) as client:
        _, data = post(client)
    events = [json.loads(line[6:]) for line in data.split(b"\n") if line.startswith(b"data: ")]
    assert "".join(e["delta"]["text"] for e in events if "index" in e and "delta" in e) == text


def start(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "clew.testing.server", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


def test_as_a_program_it_says_its_url_and_serves_until_interrupted(tmp_path: Path) -> None:
    scenario, log = tmp_path / "hello.yaml", tmp_path / "requests.jsonl"
    scenario.write_text("scenario: 1\nanswers: [{text: hello}]\n", "utf-8")
    with start(str(scenario), "--strict", "--requests", str(log)) as program:
        try:
            assert program.stdout is not None
            url = program.stdout.readline().strip()
            client = http.client.HTTPConnection(url.removeprefix("http://"), timeout=20)
            status, data = post(client, {**ASK, "stream": False})
            client.close()
        finally:
            program.send_signal(signal.SIGINT)
        assert program.wait(20) == 0
    assert status == 200
    assert json.loads(data)["content"] == [{"type": "text", "text": "hello"}]
    line = json.loads(log.read_text("utf-8"))
    assert (line["place"], line["status"], line["body"]["model"]) == ("answers[0]", 200, "m")


@pytest.mark.parametrize("text", ["scenario: 1\nanswrs: []\n", None])
def test_as_a_program_it_says_what_is_wrong_with_its_file(tmp_path: Path, text: str | None) -> None:
    scenario = tmp_path / "bad.yaml"
    if text is not None:
        scenario.write_text(text, "utf-8")
    with start(str(scenario)) as program:
        said, complaint = program.communicate(timeout=20)
    assert program.returncode == 2
    assert said == ""
    assert "bad.yaml" in complaint
    assert "Traceback" not in complaint


def test_a_scenario_that_is_none_is_refused_before_anything_is_served() -> None:
    with (
        pytest.raises(ScenarioError, match=r"answers\[0\].txt: unknown key"),
        serving({"scenario": 1, "answers": [{"txt": "x"}]}),
    ):
        pass


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("authorization", "Bearer abcdef", "Bearer ***6"),
        ("X-Api-Key", "abc", "***3"),
        ("x-gateway-token", "abc", "***3"),
        ("cookie", "a=b", "***3"),
        ("idempotency-key", "abc", "abc"),
        ("content-type", "text/plain", "text/plain"),
    ],
)
def test_credentials_are_masked_whatever_their_header_is_called(
    name: str, value: str, kept: str
) -> None:
    assert mask_headers([(name, value)]) == [(name, kept)]


def test_a_client_that_is_killed_within_its_request_ends_nothing_but_itself() -> None:
    with serving({"scenario": 1, "answers": [{"text": "x", "times": "always"}]}) as server:
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", port_of(server))) as connection:
                connection.sendall(request_bytes()[:40])
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with connected(server) as client:
            assert post(client)[0] == 200
