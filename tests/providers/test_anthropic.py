"""The Messages API over real sockets: requests, responses, and every way that they can fail."""

import asyncio
import gzip
import json
import time
from collections.abc import Sequence
from typing import Any

import pytest

from clew.core.json_object import Json
from clew.core.stream.events import TextDelta
from clew.providers.answer import Answering
from clew.providers.answer_events import Answered, Asking, Ended, GaveUp, Incomplete
from clew.providers.anthropic import AnthropicProvider, provider_from_environment
from clew.providers.base import Attempt, Failure, ModelRequest, Provider
from clew.providers.retry import RetryPolicy
from clew.providers.watchdog import SilenceLimits
from clew.testing.server import LoopbackServer
from tests.providers.fakes import end, hello, start, text
from tests.requirements import requirement
from tests.system.transport.servers import (
    BOUND_S,
    Handler,
    answer,
    answering,
    read_request,
    serving,
)

REQUEST = ModelRequest(model="opus", messages=[{"role": "user", "content": "hi"}])
KEY = "sk-ant-secret"
SSE = "Content-Type: text/event-stream\r\n"


def provider_of(url: str, **environment: str) -> AnthropicProvider:
    environment.setdefault("ANTHROPIC_API_KEY", KEY)
    return provider_from_environment({"ANTHROPIC_BASE_URL": url, **environment})


def sse(*events: Json) -> bytes:
    return b"".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in events)


def streamed(body: bytes, headers: str = SSE) -> bytes:
    """A response whose body ends with the connection."""
    return f"HTTP/1.1 200 OK\r\n{headers}\r\n".encode() + body


async def collected(attempt: Attempt) -> list[Json | Failure]:
    try:
        async with asyncio.timeout(BOUND_S):
            return [event async for event in attempt]
    finally:
        await attempt.aclose()


def attempted(
    reply: bytes, request: ModelRequest = REQUEST, **environment: str
) -> list[Json | Failure]:
    """The events of one attempt against a server that gives this reply."""

    async def main() -> list[Json | Failure]:
        async with serving(answering(reply)) as server:
            provider = provider_of(server.url, **environment)
            events = await collected(provider.stream(request))
            await provider.aclose()
            return events

    return asyncio.run(main())


def failure_of(reply: bytes, request: ModelRequest = REQUEST, **environment: str) -> Failure:
    *_, last = attempted(reply, request, **environment)
    assert isinstance(last, Failure)
    return last


def test_it_is_a_provider() -> None:
    provider: Provider = provider_of("http://127.0.0.1:1")
    described = provider.describe()
    assert described.endpoint == "http://127.0.0.1:1"
    assert described.credentials == "API key"
    assert "secret" not in repr(described)


def test_the_events_of_a_stream_come_as_they_are() -> None:
    assert attempted(streamed(sse(*hello()))) == hello()


def test_what_goes_out_is_the_messages_api() -> None:
    async def main() -> None:
        async with LoopbackServer(
            {"scenario": 1, "answers": [{"text": "hi"}]}, strict=True
        ) as server:
            provider = provider_of(
                server.url,
                ANTHROPIC_AUTH_TOKEN="token-secret",
                ANTHROPIC_CUSTOM_HEADERS="X-Team: blue\nUser-Agent: theirs",
            )
            request = ModelRequest(
                model="claude-opus-4-5",
                messages=REQUEST.messages,
                system="be kind",
                session_id="sess",
                agent_id="agent",
                retry_count=3,
                betas=("mine",),
            )
            events = await collected(provider.stream(request))
            assert events[-1] == {"type": "message_stop"}
            await provider.aclose()
            [got] = server.requests
            assert got.target == "/v1/messages?beta=true"
            headers = {name.lower(): value for name, value in got.headers}
            assert headers["anthropic-version"] == "2026-10-21"
            assert headers["anthropic-beta"] == (
                "interleaved-thinking-2025-05-14,context-management-2025-06-27,mine"
            )
            assert headers["user-agent"] == "theirs"
            assert headers["x-team"] == "blue"
            assert headers["x-claude-code-session-id"] == "sess"
            assert headers["x-claude-code-agent-id"] == "agent"
            assert headers["x-stainless-retry-count"] == "3"
            assert {"x-api-key", "authorization"} <= set(headers)
            assert got.body["stream"] is True
            assert got.body["system"][0]["text"] == "be kind"

    asyncio.run(main())


def test_turns_reuse_the_connection() -> None:
    async def main() -> None:
        answers = [{"text": f"turn {i}"} for i in range(4)]
        async with LoopbackServer({"scenario": 1, "answers": answers}) as server:
            provider = provider_of(server.url)
            for _ in range(4):
                _, ended = await answered(provider)
                assert isinstance(ended, Answered)
            assert server.accepted == 1
            await provider.aclose()

    asyncio.run(main())


async def answered(
    provider: Provider, request: ModelRequest = REQUEST, **options: Any
) -> tuple[list[Any], Ended]:
    events: list[Any] = []

    async def emit(event: Any) -> None:
        events.append(event)

    options.setdefault("policy", RetryPolicy(max_attempts=1, counts_overloads=True))
    answering = Answering(provider, new_tool_id=lambda: "own", **options)
    async with asyncio.timeout(BOUND_S):
        return events, await answering.run(request, emit)


MESSAGE: Json = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "whole"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 2},
}
JSON = "Content-Type: application/json\r\n"


@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_in_one_piece_is_an_answer_whether_asked_for_or_not(*, stream: bool) -> None:
    async def main() -> None:
        reply = answer(json.dumps(MESSAGE).encode(), headers=JSON)
        async with serving(answering(reply)) as server:
            provider = provider_of(server.url)
            _, ended = await answered(provider, ModelRequest(model="m", messages=[], stream=stream))
            assert isinstance(ended, Answered)
            assert ended.message["content"] == [{"type": "text", "text": "whole"}]
            await provider.aclose()

    asyncio.run(main())


GOOD = sse(start(), *text(0, "kept"))
PAGE = b"<html><head><title>Please log in</title></head></html>"


@pytest.mark.parametrize(
    ("reply", "kind", "said"),
    [
        (answer(PAGE, headers="Content-Type: text/html\r\n"), "content", "Please log in"),
        (answer(PAGE, headers=SSE), "content", "Please log in"),
        (answer(b"all good", headers="Content-Type: text/plain\r\n"), "content", "all good"),
        (answer(b'{"ok":true}', headers=JSON), "content", '{"ok":true}'),
        (answer(b"{", headers=JSON), "content", "{"),
        (answer(b'["list"]', headers=JSON), "content", "list"),
        (streamed(b"data: {not json\n\n"), "event", "not json"),
        (streamed(GOOD + b"event: x\ndata: [1]\n\n"), "event", "not an object"),
        (streamed(GOOD + b"data: {\"type\":\"\xff\"}\n\n"), "event", "UTF-8"),
        (streamed(GOOD + b"event: content_block_start\ndata: {\"ty"), "truncated", "into an event"),
        (streamed(gzip.compress(GOOD * 50)[:-20], SSE + "Content-Encoding: gzip\r\n"), "truncated", "gzip"),
        (streamed(b"plain", SSE + "Content-Encoding: gzip\r\n"), "content", "gzip"),
        (answer(GOOD, headers=SSE)[:-5], "truncated", "too early"),
        (streamed(b"zz\r\n" + GOOD, SSE + "Transfer-Encoding: chunked\r\n"), "protocol", "not HTTP/1.1"),
        (b"HTTP/1.1 banana\r\n\r\n", "protocol", "not HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\n" + b"X-Pad: " + b"p" * 300_000, "protocol", "not HTTP/1.1"),
        (b"", "reset", "before a response arrived"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "status", "204"),
        (answer(b"moved", status="302 Found", headers="Location: http://x/\r\n"), "status", "302"),
        (answer(b"\x00\x01\x02" * 99, status="500 Oops"), "status", "500"),
        (answer(b"x" * 500_000, status="502 Bad Gateway"), "status", "502"),
        (answer(b"", status="529 Overloaded"), "status", "529"),
    ],
)  # fmt: skip
def test_whatever_a_server_does_ends_in_a_typed_failure(reply: bytes, kind: str, said: str) -> None:
    failure = failure_of(reply)
    assert failure.kind == kind
    assert said in failure.message
    assert len(failure.message) < 700


def test_what_came_before_the_failure_was_told_first() -> None:
    events = attempted(streamed(GOOD + b"data: nonsense\n\n"))
    assert events[:-1] == [start(), *text(0, "kept")]


def test_nothing_is_told_after_the_failure() -> None:
    events = attempted(streamed(sse(start()) + b"data: nonsense\n\n" + sse(*hello())))
    assert events[0] == start()
    assert [type(event) for event in events] == [dict, Failure]


def test_an_error_event_is_passed_on_as_it_came() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    assert attempted(streamed(sse(start(), error))) == [start(), error]


def test_an_error_event_that_is_no_json_is_a_failure_with_its_words() -> None:
    failure = failure_of(streamed(b"event: error\ndata: Internal Error\n\n"))
    assert failure.kind == "error_event"
    assert "Internal Error" in failure.message


@pytest.mark.parametrize(
    "where", ["status", "page", "header", "event", "fields", "request id", "cut"]
)
def test_a_credential_that_is_echoed_is_hidden(where: str) -> None:
    echo = b"invalid x-api-key sk-ant-secret"
    reply = {
        "status": answer(echo, status="401 Unauthorized"),
        "page": answer(echo, headers="Content-Type: text/html\r\n"),
        "header": b"HTTP/1.1 " + echo + b"\r\n\r\n",
        "event": streamed(b"data: " + echo + b"\n\n"),
        "fields": answer(
            json.dumps(
                {
                    "error": {"type": "sk-ant-secret", "message": "no", "details": {"k": [KEY]}},
                    "request_id": "sk-ant-secret",
                }
            ).encode(),
            status="403 Forbidden",
        ),
        "request id": answer(b"no", status="403 Forbidden", headers=f"Request-Id: {KEY}\r\n"),
        "cut": answer(b"x" * 288 + echo[18:] + b"y" * 40, status="403 Forbidden"),
    }[where]
    assert "secret" not in repr(failure_of(reply))


def test_a_credential_that_an_error_event_echoes_is_hidden() -> None:
    said = {"type": "error", "error": {"type": "api_error", "message": f"no {KEY}", "n": 1}}
    [event] = attempted(streamed(sse(said)))
    assert event == {"type": "error", "error": said["error"] | {"message": "no [masked]"}}


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ("Content-Length: 500\r\n", b"the key is not"),
        ("Content-Encoding: br\r\nContent-Length: 3\r\n", b"abc"),
        ("Content-Encoding: gzip\r\nContent-Length: 3\r\n", b"abc"),
        ("Transfer-Encoding: chunked\r\n", b"zz\r\n"),
    ],
)
def test_a_refusal_is_one_whatever_became_of_its_body(headers: str, body: bytes) -> None:
    head = f"HTTP/1.1 429 No\r\nRetry-After: 7\r\nRequest-Id: r1\r\n{headers}\r\n"
    failure = failure_of(head.encode() + body)
    assert (failure.kind, failure.status, failure.request_id) == ("status", 429, "r1")
    assert failure.retry_after_s == 7


def test_a_refusal_whose_body_is_held_back_is_reported_without_it() -> None:
    async def held(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 401 No\r\nContent-Length: 500\r\n\r\nthe key is not")
        assert await reader.read() == b""

    async def main() -> None:
        async with serving(held) as server:
            provider = provider_of(server.url)
            provider.refusal_timeout_s = 0.01
            [failure] = await collected(provider.stream(REQUEST))
            assert isinstance(failure, Failure)
            assert failure.status == 401
            await server.until_open_now(0)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("headers", "begin", "kind"),
    [("Content-Type: application/json\r\n", b'{"x":"', "content"), (SSE, b'data: {"x":"', "event")],
)
def test_an_answer_without_an_end_is_not_read_for_ever(
    headers: str, begin: bytes, kind: str
) -> None:
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(f"HTTP/1.1 200 OK\r\n{headers}\r\n".encode() + begin)
        while True:
            writer.write(b"x" * 1000)
            await writer.drain()

    async def main() -> None:
        async with serving(endless) as server:
            provider = provider_of(server.url)
            provider.max_answer_bytes = 5000
            [failure] = await collected(provider.stream(REQUEST))
            assert isinstance(failure, Failure)
            assert failure.kind == kind
            assert "than 5000 bytes" in failure.message

    asyncio.run(main())


def test_an_answer_of_small_events_without_an_end_is_given_up_and_what_was_complete_is_kept() -> (
    None
):
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(f"HTTP/1.1 200 OK\r\n{SSE}\r\n".encode() + sse(start(), *text(0, "kept")))
        while True:
            writer.write(sse({"type": "ping"}, {"type": "newer_than_us"}) * 100)
            await writer.drain()

    async def main() -> None:
        async with serving(endless) as server:
            provider = provider_of(server.url)
            provider.max_stream_bytes = 50_000
            events = await collected(provider.stream(REQUEST))
            assert isinstance(events[-1], Failure)
            assert events[-1].kind == "content"
            assert "larger than 50000 bytes" in events[-1].message
            ended = await answered_once(provider)
            assert isinstance(ended, Incomplete)
            assert ended.message["content"] == [{"type": "text", "text": "kept"}]

    asyncio.run(main())


def test_a_refusal_whose_words_never_come_is_told_by_its_head() -> None:
    async def held(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 529 No\r\nretry-after: 7\r\nContent-Length: 500\r\n\r\n")
        await reader.read()

    async def main() -> None:
        async with serving(held) as server:
            ended = await answered_once(
                provider_of(server.url), SilenceLimits(bytes_s=0.05, tick_s=0.01)
            )
            assert isinstance(ended, GaveUp)
            assert (ended.failure.kind, ended.failure.status) == ("status", 529)
            assert ended.failure.retry_after_s == 7

    asyncio.run(main())


async def answered_once(provider: Provider, limits: SilenceLimits | None = None) -> Ended:
    """One attempt at an answer, bounded."""

    async def ignore(_: object) -> None:
        pass

    async with asyncio.timeout(BOUND_S):
        once = RetryPolicy(max_attempts=1, counts_overloads=True)
        answering = Answering(provider, new_tool_id=lambda: "t", policy=once, limits=limits)
        return await answering.run(REQUEST, ignore)


def test_half_characters_and_depth_in_a_request_do_not_keep_it_from_being_sent() -> None:
    content: Any = "half a character: \udcff"
    for _ in range(3000):
        content = [content]
    odd = ModelRequest(model="opus", messages=[{"role": "user", "content": content}], cache=None)
    assert attempted(streamed(sse(*hello())), odd) == hello()


def test_no_credentials_is_said_before_anything_is_sent() -> None:
    async def main() -> None:
        provider = provider_from_environment({})
        [failure] = await collected(provider.stream(REQUEST))
        assert isinstance(failure, Failure)
        assert failure.kind == "configuration"
        assert "ANTHROPIC_API_KEY" in failure.message
        assert await provider.count_tokens(REQUEST) == failure
        own = provider_from_environment({"ANTHROPIC_CUSTOM_HEADERS": "X-Api-Key: k"})
        assert own.missing_credentials() is None
        local = provider_from_environment({"ANTHROPIC_BASE_URL": "http://127.0.0.1:1"})
        assert local.missing_credentials() is None
        assert local.describe().credentials == "none"

    asyncio.run(main())


def test_a_proxy_of_a_kind_nobody_speaks_is_refused_by_name() -> None:
    failure = failure_of(b"", HTTP_PROXY="socks4://me:hidden@127.0.0.1:1")
    assert failure.kind == "configuration"
    assert "socks4" in failure.message
    assert "hidden" not in failure.message


def test_what_cannot_be_sent_as_asked_can_be_read() -> None:
    from clew.providers.base import Off

    provider = provider_of("http://127.0.0.1:1")
    asked = ModelRequest(model="opus", messages=[], thinking=Off())
    assert provider.adjustments(asked) == ("Opus 5.5 always uses thinking",)


@pytest.mark.parametrize(
    ("reply", "counted"),
    [
        (answer(b'{"input_tokens":42}', headers=JSON), 42),
        (answer(b'{"input_tokens":"many"}', headers=JSON), "content"),
        (answer(b"<html>", headers=JSON), "content"),
        (answer(b'{"error":{"type":"x","message":"no"}}', status="404 Not Found"), "status"),
        (b"", "reset"),
    ],
)
def test_tokens_are_counted_or_a_failure_says_why_not(reply: bytes, counted: int | str) -> None:
    async def main() -> None:
        async with serving(answering(reply)) as server:
            provider = provider_of(server.url)
            got = await provider.count_tokens(REQUEST)
            assert (got.kind if isinstance(got, Failure) else got) == counted
            await provider.aclose()

    asyncio.run(main())


@requirement("R072")
def test_over_the_wire_a_cut_after_a_block_keeps_the_block() -> None:
    async def main() -> None:
        async with serving(answering(streamed(GOOD))) as server:
            provider = provider_of(server.url)
            _, ended = await answered(provider, policy=RetryPolicy())
            assert isinstance(ended, Incomplete)
            assert ended.message["content"] == [{"type": "text", "text": "kept"}]
            assert ended.failure.kind == "truncated"
            assert server.connections == 1

    asyncio.run(main())


async def cut_at(point: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A server that stops at one point and then waits for the client to go."""
    if point != "connecting":
        await read_request(reader)
    if point in ("between events", "within an event"):
        writer.write(streamed(sse(start(), *text(0, "so far", stop=False))))
    if point == "within an event":
        writer.write(b'event: content_block_delta\ndata: {"type":"content_blo')
    await writer.drain()
    while await reader.read(65536):
        pass


POINTS = ("connecting", "waiting for the head", "between events", "within an event")


def server_at(points: Sequence[str]) -> Handler:
    """Each connection stops at the next of these points, around and around."""
    turn = iter(points * 1000)

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await cut_at(next(turn), reader, writer)

    return handler


@requirement("R069", "R072")
@pytest.mark.parametrize("point", POINTS)
def test_a_cancel_is_felt_at_once_wherever_it_strikes(point: str) -> None:
    """CPU time and turns of the loop are bounded, so nothing waits for the other side."""

    async def main() -> None:
        async with serving(server_at([point])) as server, asyncio.timeout(BOUND_S):
            scheme = "https" if point == "connecting" else "http"
            provider = provider_of(f"{scheme}://127.0.0.1:{server.port}")
            asked: list[Any] = []
            shown = asyncio.Event()

            async def emit(event: Any) -> None:
                asked.append(event)
                if isinstance(event, TextDelta):
                    shown.set()

            answering_ = Answering(provider, new_tool_id=lambda: "own")
            task = asyncio.create_task(answering_.run(REQUEST, emit))
            await server.until_open_now(1)
            if point in ("between events", "within an event"):
                await shown.wait()
            turns = 0
            task.cancel()
            while not task.done():
                await asyncio.sleep(0)
                turns += 1
            assert task.cancelled()
            assert turns < 20
            assert provider.transport.connections == (0, 0)
            await server.until_open_now(0)

    asyncio.run(main())


@pytest.mark.no_cover
@requirement("R069")
def test_the_pool_is_clean_after_a_thousand_cancels_and_the_next_answer_comes() -> None:
    async def main() -> None:
        points = POINTS[1:]
        async with serving(server_at(points)) as server:
            provider = provider_of(server.url)

            async def once(turns: int) -> None:
                task = asyncio.create_task(answered(provider))
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                if turns % 3 == 0:
                    await asyncio.sleep(0)
                    task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task

            async with asyncio.timeout(BOUND_S * 3):
                for i in range(0, 1000, 10):
                    async with asyncio.TaskGroup() as group:
                        for j in range(10):
                            group.create_task(once((i + j) % 40))
                assert provider.transport.connections == (0, 0)
                await server.until_open_now(0)
        async with LoopbackServer({"scenario": 1, "answers": [{"text": "still here"}]}) as server:
            provider.endpoint = provider_of(server.url).endpoint
            _, ended = await answered(provider)
            assert isinstance(ended, Answered)
            await provider.aclose()

    asyncio.run(main())


def test_a_request_that_cannot_be_sent_is_given_up_without_a_second_try() -> None:
    async def main() -> None:
        provider = provider_of("ftp://nowhere")
        asked, ended = await answered(provider, policy=RetryPolicy())
        assert isinstance(ended, GaveUp)
        assert ended.failure.kind == "configuration"
        assert len([e for e in asked if isinstance(e, Asking)]) == 1

    asyncio.run(main())


def test_the_end_mark_of_the_stream_is_the_end_even_if_the_server_holds_the_line() -> None:
    async def holding(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(streamed(sse(start(), *text(0, "x"), *end())))
        await reader.read()

    async def main() -> None:
        async with serving(holding) as server:
            provider = provider_of(server.url)
            before = time.process_time()
            _, ended = await answered(provider)
            assert isinstance(ended, Answered)
            assert time.process_time() - before < BOUND_S
            await provider.aclose()

    asyncio.run(main())
