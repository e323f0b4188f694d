"""A run through the recording proxy, and the same run again from what was recorded."""

import asyncio
import gzip
import http.client
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anthropic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.providers.anthropic import AnthropicProvider
from clew.providers.base import ModelRequest, Provider
from clew.providers.endpoint import Endpoint
from clew.system.transport.http import HttpTransport
from clew.system.transport.network import Network
from clew.testing.options import read_scenario
from clew.testing.record import RecordingProxy
from clew.testing.recording import Recording
from clew.testing.scenario import from_value
from clew.testing.scripted import ScriptedProvider
from clew.testing.server import LoopbackServer, serving
from tests.system.transport.servers import fetch, nobody, read_request
from tests.system.transport.servers import serving as raw_serving

SECRET = "sk-very-secret"


def ask(text: str, **more: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": text}], **more}


LIVE: dict[str, Any] = {
    "scenario": 1,
    "answers": [
        {"status": 529, "headers": {"retry-after": 1, "set-cookie": "session=secret"}},
        {"content": ["Größe \u2028\r\n", {"tool": "T", "input": {"a": [1]}}], "send": {"chunk_bytes": 11}},
        {"when": {"stream": False}, "text": "at once", "headers": {"request-id": None}},
        {"body_base64": "/wD+", "headers": {"content-type": "x/y", "authorization": "secret"}},
        {"text": "compressed", "send": {"gzip": True}},
        {"text": "cut short", "faults": [{"after_bytes": 300, "cut": "close"}]},
        {"text": "never", "faults": [{"at": "headers", "cut": "close"}]},
    ],
    "count_tokens": [{"input_tokens": 17, "headers": {"x-own": "1"}}],
}  # fmt: skip
REQUESTS = [
    *[("/v1/messages", ask(f"question {i}", stream=True)) for i in range(2)],
    ("/v1/messages", ask("question 2", stream=False)),
    *[("/v1/messages?beta=true", ask(f"question {i}", stream=True)) for i in range(3, 7)],
    ("/v1/messages/count_tokens", ask("question 7")),
]
NOT_THE_ANSWER_S = {"transfer-encoding", "content-length", "content-encoding", "set-cookie", "authorization"}  # fmt: skip


def run_through(url: str) -> list[tuple[Any, ...]]:
    """Status, headers and body bytes of each answer, and whether it was whole."""
    told: list[tuple[Any, ...]] = []
    for path, body in REQUESTS:
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=20)
        headers = {"content-type": "application/json", "x-api-key": SECRET}
        try:
            connection.request("POST", path, json.dumps(body), headers)
            response = connection.getresponse()
            head = sorted((k, v) for k, v in response.getheaders() if k not in NOT_THE_ANSWER_S)
            try:
                data, whole = response.read(), True
            except http.client.IncompleteRead as error:
                data, whole = error.partial, False
            if response.getheader("content-encoding") == "gzip":
                data = gzip.decompress(data)
            told.append((response.status, head, data, whole))
        except http.client.RemoteDisconnected:
            told.append(("nothing",))
        finally:
            connection.close()
    return told


@contextmanager
def recording(upstream: str, recorded: Recording, to: Path | None = None) -> Iterator[str]:
    """The proxy in a thread of its own."""
    urls: list[str] = []
    ready, ends = threading.Event(), []

    async def run() -> None:
        async with RecordingProxy(upstream, recorded, to=to) as proxy:
            end, loop = asyncio.Event(), asyncio.get_running_loop()
            ends.append(lambda: loop.call_soon_threadsafe(end.set))
            urls.append(proxy.url)
            ready.set()
            await end.wait()

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    assert ready.wait(20)
    try:
        yield urls[0]
    finally:
        ends[0]()
        thread.join()


@pytest.mark.parametrize("match", ["order", "body"])
@pytest.mark.parametrize("chunks", [False, True])
def test_a_recorded_run_plays_back_byte_for_byte(tmp_path: Path, match: Any, chunks: bool) -> None:
    to = tmp_path / "run.json"
    recorded = Recording(match=match, chunks=chunks)
    with serving(LIVE) as upstream, recording(upstream.url, recorded, to) as url:
        live = run_through(url)
        assert upstream.unused() == []
    with serving(LIVE) as upstream:
        assert run_through(upstream.url) == live, "the proxy changed something"
    with serving(read_scenario(to)) as again:
        assert run_through(again.url) == live
        assert again.unused() == []
    assert [t[0] for t in live] == [529, 200, 200, 200, 200, 200, "nothing", 200]
    assert not live[5][3]
    text = to.read_text("utf-8")
    assert "secret" not in text
    assert to.stat().st_mode & 0o777 == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["run.json"]
    answers = json.loads(text)["answers"]
    assert answers[1]["note"] == "m, 1 message; user text: 'question 1'"
    assert ("chunk_bytes" in answers[1].get("send", {})) == chunks
    assert ("when" in answers[1]) == (match == "body")


def test_each_request_finds_its_own_answer_again_in_any_order() -> None:
    recorded = Recording(match="body")
    with (
        serving({"scenario": 1, "answers": [{"text": t} for t in "abc"]}) as upstream,
        recording(upstream.url, recorded) as url,
        anthropic.Anthropic(base_url=url, api_key=SECRET, max_retries=0) as client,
    ):
        live = [client.messages.create(**ask(q)).to_dict() for q in "123"]
    with (
        serving(recorded.scenario()) as again,
        anthropic.Anthropic(base_url=again.url, api_key="k", max_retries=0) as client,
    ):
        back = [client.messages.create(**ask(q)).to_dict() for q in "321"]
    assert back == live[::-1]


def test_a_run_of_clew_s_own_client_is_played_back_in_memory() -> None:
    """Recorded over two sockets, played back without any: the same message, the same failure."""
    live = {
        "scenario": 1,
        "answers": [
            {"status": 529, "headers": {"retry-after": 3}},
            {"content": [{"thinking": "hm"}, "Größe", {"tool": "T", "input": {"a": [1]}}]},
        ],
    }
    request = ModelRequest(model="m", messages=ask("x")["messages"], max_tokens=9)

    async def two_attempts(provider: Provider) -> list[list[Any]]:
        return [[event async for event in provider.stream(request)] for _ in range(2)]

    async def run() -> None:
        recorded = Recording()
        async with (
            asyncio.timeout(20),
            LoopbackServer(live, strict=True) as service,
            RecordingProxy(service.url, recorded) as proxy,
        ):
            provider = AnthropicProvider(Endpoint(base_url=proxy.url), HttpTransport(Network()))
            told = await two_attempts(provider)
            await provider.aclose()
        assert told[0][0].retry_after_s == 3
        assert told[1][-1] == {"type": "message_stop"}
        assert await two_attempts(ScriptedProvider(from_value(recorded.scenario()))) == told

    asyncio.run(run())


def test_what_is_no_message_passes_unrecorded(capfd: pytest.CaptureFixture[str]) -> None:
    recorded = Recording()
    with serving(LIVE) as upstream, recording(upstream.url, recorded) as url:
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=20)
        connection.request("GET", "/v1/models")
        assert connection.getresponse().status == 200
        connection.close()
    assert recorded.scenario() == {"scenario": 1}
    assert "forwarded but not recorded: GET /v1/models" in capfd.readouterr().err


def test_a_client_that_leaves_is_recorded_as_far_as_the_answer_came() -> None:
    async def run() -> dict[str, Any]:
        stall = {"text": "abcdef", "faults": [{"after_events": 3, "stall_s": "forever"}]}
        recorded = Recording()
        async with (
            asyncio.timeout(20),
            LoopbackServer({"scenario": 1, "answers": [stall]}) as upstream,
            RecordingProxy(upstream.url, recorded) as proxy,
        ):
            port = int(proxy.url.rsplit(":", 1)[1])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            data = json.dumps(ask("x", stream=True)).encode()
            head = b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n"
            writer.write(head % len(data) + data)
            await reader.readuntil(b"event: ping")
            writer.close()
            await upstream.wait_until_idle()
        answer: dict[str, Any] = recorded.scenario()["answers"][0]
        return answer

    answer = asyncio.run(run())
    assert answer["body"].startswith("event: message_start")
    assert answer["faults"] == [{"after_bytes": len(answer["body"]), "cut": "close"}]


def test_an_upstream_that_is_not_there_ends_the_connection_and_is_said(
    capfd: pytest.CaptureFixture[str],
) -> None:
    recorded = Recording()
    with (
        nobody() as url,
        recording(url, recorded) as proxy,
        anthropic.Anthropic(base_url=proxy, api_key=SECRET, max_retries=0) as client,
        pytest.raises(anthropic.APIConnectionError),
    ):
        client.messages.create(**ask("x"))
    assert recorded.scenario()["answers"][0]["faults"] == [{"at": "headers", "cut": "close"}]
    said = capfd.readouterr().err
    assert "POST /v1/messages: " in said
    assert SECRET not in said


@given(st.lists(st.binary(min_size=1), max_size=4), st.booleans())
def test_any_bytes_are_kept(pieces: list[bytes], chunks: bool) -> None:
    recorded = Recording(chunks=chunks)
    heard = recorded.begin("answers", ask("x"))
    heard.status, heard.pieces = 200, pieces
    from clew.testing.scenario_steps import ScenarioHost, steps

    written = json.dumps(recorded.scenario(), ensure_ascii=False).encode("utf-8")
    _, reply = ScenarioHost(from_value(json.loads(written))).respond("answers", {})
    played = [step for step in steps(reply) if isinstance(step, bytes)]
    assert b"".join(played) == b"".join(pieces)
    if chunks:
        assert played == pieces


def test_as_a_program_it_says_its_url_and_what_it_kept(tmp_path: Path) -> None:
    to = tmp_path / "run.json"
    with serving({"scenario": 1, "answers": [{"text": "hi"}]}) as upstream:
        command = ["-m", "clew.testing.record", "--upstream", upstream.url, "--to", str(to)]
        with subprocess.Popen(
            [sys.executable, *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        ) as program:
            assert program.stdout is not None
            assert program.stderr is not None
            url = program.stdout.readline().strip()
            with anthropic.Anthropic(base_url=url, api_key=SECRET, max_retries=0) as client:
                assert client.messages.create(**ask("x")).content[0].text == "hi"
            program.send_signal(signal.SIGINT)
            assert program.wait(20) == 0
            assert program.stderr.read() == f"recorded 1 answer in {to}\n"
    assert len(read_scenario(to).answers) == 1


def test_as_a_program_it_refuses_a_name_that_is_not_json(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "clew.testing.record", "--upstream", "http://x", "--to", "a.yaml"],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 2
    assert "must end in .json" in done.stderr
    done = subprocess.run(
        [sys.executable, "-m", "clew.testing.record", "--upstream", "http://x", "--to", str(tmp_path / "no" / "a.json")],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "No such file" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_a_service_repeats_of_a_credential_is_not_recorded_and_odd_headers_pass() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, headers, _ = await read_request(reader)
        assert headers["x-note"].encode("latin-1").decode() == "\u2014"
        odd = f"X-Odd: \u2014 {SECRET}\r\n".encode() + b"X-Bad: \xff\r\n"
        said = f'{{"error": {{"message": "no key {SECRET}"}}}}'.encode()
        writer.write(
            b"HTTP/1.1 401 No\r\n" + odd + b"Content-Length: %d\r\n\r\n" % len(said) + said
        )
        await writer.drain()

    async def main() -> None:
        recorded = Recording()
        transport = HttpTransport(Network())
        async with (
            raw_serving(refuse) as upstream,
            RecordingProxy(upstream.url, recorded) as proxy,
        ):
            for _ in range(2):
                secret = {"Authorization": f"Bearer {SECRET}", "X-Note": "\u2014"}
                body = json.dumps(ask("hi")).encode()
                head, said = await fetch(transport, f"{proxy.url}/v1/messages", body, **secret)
                assert (head.status, head.headers["x-odd"]) == (401, f"\u2014 {SECRET}")
                assert SECRET.encode() in said
        text = json.dumps(recorded.scenario())
        assert SECRET not in text
        assert "no key **************" in text

    asyncio.run(main())
