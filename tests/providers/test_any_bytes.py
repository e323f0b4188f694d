"""Whatever bytes a server sends, however split: an attempt ends and raises nothing."""

import asyncio
import gzip
import json

from hypothesis import given
from hypothesis import strategies as st

from clew.providers.answer import Answering
from clew.providers.answer_events import Answered, CompactionDue, GaveUp, Incomplete
from clew.providers.anthropic import provider_from_environment
from clew.providers.base import Failure, ModelRequest
from clew.providers.retry import RetryPolicy
from tests.providers.fakes import end, hello, start, text, tool
from tests.system.transport.servers import BOUND_S, read_request, serving

WORDS = [
    f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode()
    for e in [*hello(), *tool(1, '{"a":1}'), *text(2, "x", stop=False), *end("tool_use"), start()]
]
PARTS = [
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n",
    b"HTTP/1.1 529 Busy\r\nContent-Length: 3\r\n\r\nabc",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Content-Encoding: gzip\r\n",
    b"Content-Encoding: deflate\r\n",
    b"Content-Length: 7\r\n",
    b"\r\n",
    b"5\r\nhello\r\n0\r\n\r\n",
    b"data: {\n\n",
    b"data: [" * 400,
    b"event: error\ndata: {}\n\n",
    b": comment\n\n",
    b"\xef\xbb\xbf",
    b'{"type":"message","content":[]}',
    b"<html><title>no</title>",
    gzip.compress(b"".join(WORDS), mtime=0),
    *WORDS,
]
GOOD_HEAD = st.just([PARTS[1]])
replies = st.builds(
    lambda head, parts, cut: b"".join([*head, *parts])[: cut or None],
    GOOD_HEAD | st.just([]),
    st.lists(st.sampled_from(PARTS) | st.binary(max_size=40), max_size=12),
    st.integers(0, 400),
)
REQUEST = ModelRequest(model="opus", messages=[])


@given(replies, st.integers(1, 4000), st.booleans())
def test_an_attempt_ends_in_events_and_at_most_one_failure(
    reply: bytes, piece: int, stream: bool
) -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        for i in range(0, len(reply), piece):
            writer.write(reply[i : i + piece])
            await writer.drain()

    async def main() -> None:
        async with serving(handler) as server, asyncio.timeout(BOUND_S):
            provider = provider_from_environment({"ANTHROPIC_BASE_URL": server.url})
            request = ModelRequest(model="opus", messages=[], stream=stream)
            attempt = provider.stream(request)
            events = [event async for event in attempt]
            await attempt.aclose()
            assert not any(isinstance(event, Failure) for event in events[:-1])
            assert all(isinstance(event, dict | Failure) for event in events)

            async def emit(event: object) -> None:
                pass

            answering = Answering(
                provider,
                new_tool_id=lambda: "own",
                policy=RetryPolicy(max_attempts=1, counts_overloads=True),
            )
            ended = await answering.run(request, emit)
            assert isinstance(ended, Answered | Incomplete | GaveUp | CompactionDue)
            assert provider.transport.connections[0] == 0
            await provider.aclose()

    asyncio.run(main())
