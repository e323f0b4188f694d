"""The transport in memory and the transport over a socket behave the same, including faults."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.system.transport.http import HttpTransport
from clew.system.transport.network import Network
from clew.system.transport.seam import HttpRequest, Transport, TransportError
from clew.testing.scenario import from_value
from clew.testing.scripted import ScriptedTransport
from clew.testing.server import LoopbackServer

ASK = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "x"}]}
FRAMING = {"transfer-encoding", "content-length", "connection"}


async def story(transport: Transport, base: str, path: str = "/v1/messages") -> tuple[Any, ...]:
    """The head, the body as far as it came, and how it ended."""
    request = HttpRequest(method="POST", url=base + path, body=json.dumps(ASK).encode())
    exchange = transport.exchange(request)
    head: Any = None
    body = b""
    try:
        opened = await exchange.open()
        kept = {k: v for k, v in opened.headers.items() if k not in FRAMING}
        head = (opened.status, kept)
        while data := await exchange.read():
            body += data
    except TransportError as error:
        return head, body, error.kind
    finally:
        await exchange.close()
    return head, body, "end"


def both(answer: dict[str, Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    scenario = from_value({"scenario": 1, "answers": [answer]})

    async def run() -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        in_memory = await story(ScriptedTransport(scenario), "http://scripted")
        transport = HttpTransport(Network())
        async with asyncio.timeout(20), LoopbackServer(scenario) as server:
            try:
                return in_memory, await story(transport, server.url)
            finally:
                await transport.aclose()

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("answer", "ending"),
    [
        ({"text": "hello"}, "end"),
        ({"status": 529, "headers": {"retry-after": 3}}, "end"),
        ({"body": "<html>", "headers": {"content-type": "text/html"}}, "end"),
        ({"text": "hello", "send": {"gzip": True, "chunk_bytes": 3}}, "end"),
        ({"text": "hello", "send": {"events_per_s": 10_000}}, "end"),
        ({"text": "hello", "faults": [{"at": "headers", "cut": "close"}]}, "reset"),
        ({"text": "hello", "faults": [{"at": "headers", "stall_s": 0.001}]}, "end"),
        ({"text": "hello", "faults": [{"after_events": 3, "cut": "close"}]}, "truncated"),
        ({"text": "hello", "faults": [{"after_events": 3, "cut": "end"}]}, "end"),
        ({"text": "hello", "faults": [{"after_events": 3, "cut": "end"}], "send": {"gzip": True}}, "truncated"),
        ({"text": "hello", "faults": [{"after_bytes": 9, "insert_base64": "/wA="}]}, "end"),
        ({"text": "hello", "faults": [{"after_events": 3, "error": {}}]}, "end"),
        ({"body_base64": "H4sIAAAA", "headers": {"content-encoding": "gzip"}}, "truncated"),
        ({"body": "no gzip", "headers": {"content-encoding": "gzip"}}, "content"),
        ({"body": "x", "headers": {"content-encoding": "br"}}, "content"),
        ({"http": "HTP/1.1 200 OK\r\n\r\n"}, "protocol"),
        ({"when": {"user": "never"}, "text": "x"}, "end"),
    ],
)  # fmt: skip
def test_a_fault_is_the_same_in_memory_and_over_a_socket(
    answer: dict[str, Any], ending: str
) -> None:
    in_memory, over_a_socket = both(answer)
    assert in_memory == over_a_socket
    assert in_memory[2] == ending


def test_a_reset_breaks_both() -> None:
    """How much arrives before a RST is the kernel's choice, so only the ending is compared."""
    in_memory, over_a_socket = both({"text": "x", "faults": [{"after_events": 1, "cut": "reset"}]})
    assert in_memory[2] == over_a_socket[2] == "reset"


@settings(max_examples=25)
@given(
    place=st.integers(0, 1200),
    how=st.sampled_from(["close", "end"]),
    gzip=st.booleans(),
    chunk_bytes=st.none() | st.integers(1, 400),
)
def test_a_cut_anywhere_is_the_same_in_memory_and_over_a_socket(
    place: int, how: str, gzip: bool, chunk_bytes: int | None
) -> None:
    answer = {
        "content": ["Größe", {"tool": "T", "input": {"a": 1}}],
        "faults": [{"after_bytes": place, "cut": how}],
        "send": {"gzip": gzip, "chunk_bytes": chunk_bytes},
    }
    in_memory, over_a_socket = both(answer)
    assert in_memory == over_a_socket


def test_what_was_heard_is_kept_and_what_was_not_asked_for_is_known() -> None:
    scenario = from_value({"scenario": 1, "answers": [{"text": "a"}, {"text": "b"}]})
    transport = ScriptedTransport(scenario)
    transport.warm("https://nowhere")
    asyncio.run(story(transport, "http://scripted"))
    asyncio.run(story(transport, "http://scripted", "/v1/messages/count_tokens"))
    asyncio.run(transport.aclose())
    assert [(h.place, h.status) for h in transport.heard] == [("answers[0]", 200), ("count_tokens[0]", 200)]  # fmt: skip
    assert transport.heard[0].body == ASK
    assert transport.unused() == ["answers[1]"]


def test_another_path_is_a_mistake_of_the_caller_s_configuration() -> None:
    transport = ScriptedTransport(from_value({"scenario": 1, "answers": [{"text": "a"}]}))
    assert asyncio.run(story(transport, "http://scripted", "/v2"))[2] == "configuration"


def test_the_sleep_is_the_caller_s() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    answer = {"body": "abc", "faults": [{"at": "headers", "stall_s": 60}, {"after_bytes": 1, "stall_s": 3600}]}  # fmt: skip
    transport = ScriptedTransport(from_value({"scenario": 1, "answers": [answer]}), sleep=sleep)
    assert asyncio.run(story(transport, "http://scripted"))[1:] == (b"abc", "end")
    assert slept == [60, 3600]


@pytest.mark.parametrize("place", [{"at": "headers"}, {"after_events": 1}])
def test_a_stall_for_ever_ends_with_the_caller_s_patience(place: dict[str, Any]) -> None:
    answer = {"text": "abc", "faults": [{**place, "stall_s": "forever"}]}
    transport = ScriptedTransport(from_value({"scenario": 1, "answers": [answer]}))

    async def run() -> None:
        async with asyncio.timeout(0.01):
            await story(transport, "http://scripted")

    with pytest.raises(TimeoutError):
        asyncio.run(run())
