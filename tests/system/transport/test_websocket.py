"""The WebSocket client, against the `websockets` library as the server."""

import asyncio
import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.server import ServerConnection, serve
from websockets.frames import Frame, Opcode
from websockets.http11 import Request, Response

from clew.system.transport.seam import TransportError
from clew.system.transport.websocket import (
    TEXT,
    WebSocket,
    WebSocketClosed,
    WebSocketFrames,
    WebSocketMessage,
    WebSocketPing,
    encode_frame,
)

MAX_BYTES = 1 << 20


def frame(opcode: Opcode, payload: bytes, *, fin: bool = True) -> bytes:
    return Frame(opcode, payload, fin).serialize(mask=False)


STREAM = b"".join(
    (
        frame(Opcode.TEXT, b"one"),
        frame(Opcode.TEXT, b"tw", fin=False),
        frame(Opcode.PING, b"?"),
        frame(Opcode.CONT, b"o"),
        frame(Opcode.PONG, b""),
        frame(Opcode.TEXT, b"x" * 70_000),
        frame(Opcode.TEXT, b"y" * 200),
        frame(Opcode.CLOSE, (1001).to_bytes(2, "big") + b"going"),
        frame(Opcode.TEXT, b"ignored"),
    )
)
EVENTS = [
    WebSocketMessage(payload=b"one"),
    WebSocketPing(payload=b"?"),
    WebSocketMessage(payload=b"two"),
    WebSocketMessage(payload=b"x" * 70_000),
    WebSocketMessage(payload=b"y" * 200),
    WebSocketClosed(code=1001, why="going"),
]


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_frames_split_anywhere_give_the_same_events(cuts: list[int]) -> None:
    frames, events = WebSocketFrames(max_bytes=MAX_BYTES), list[Any]()
    places = [0, *sorted(cuts), len(STREAM)]
    for begin, end in itertools.pairwise(places):
        events += frames.feed(STREAM[begin:end])
    assert events == EVENTS
    assert frames.close() == []


@pytest.mark.parametrize(
    "bad",
    [
        b"\xf1\x00",  # reserved bits
        b"\x81\x80abcd",  # masked by a server
        b"\x09\x00",  # a ping in parts
        b"\x80\x00",  # the rest of a message that never began
        b"\x83\x00",  # an unknown kind
        frame(Opcode.TEXT, b"a", fin=False) + frame(Opcode.TEXT, b"b"),
        frame(Opcode.TEXT, b"x" * (MAX_BYTES + 1)),
        b"\x89\x7e\x00\x80",  # a ping of 128 bytes
    ],
)
def test_a_broken_frame_ends_the_connection(bad: bytes) -> None:
    frames = WebSocketFrames(max_bytes=MAX_BYTES)
    (event,) = frames.feed(bad)
    assert isinstance(event, WebSocketClosed)
    assert event.code in (1002, 1009)
    assert frames.feed(STREAM) == []


def test_the_end_of_the_stream_is_an_event() -> None:
    (event,) = WebSocketFrames(max_bytes=MAX_BYTES).close()
    assert event == WebSocketClosed(code=1000, why="the connection was closed")


@given(st.binary(max_size=300) | st.just(b"z" * 70_000), st.binary(min_size=4, max_size=4))
def test_a_server_reads_what_the_client_masked(payload: bytes, mask: bytes) -> None:
    reader = Frame.parse(stream_of(encode_frame(TEXT, payload, mask)), mask=True)
    with pytest.raises(StopIteration) as done:
        next(reader)
    assert done.value.value.data == payload


def stream_of(data: bytes) -> Any:
    rest = bytearray(data)

    def read(size: int) -> Any:
        part = bytes(rest[:size])
        del rest[:size]
        return part
        yield

    return read


def test_messages_go_both_ways_and_headers_arrive() -> None:
    seen: list[Any] = []

    async def echo(server: ServerConnection) -> None:
        request = server.request
        assert request is not None
        seen.append((request.headers["X-Token"], server.subprotocol))
        async for message in server:
            await server.ping()
            await server.send(message)
        seen.append(server.close_code)

    async def run() -> None:
        async with serve(echo, "127.0.0.1", 0, subprotocols=["mcp"]) as server:  # type: ignore[list-item]
            port = next(iter(server.sockets)).getsockname()[1]
            client = await WebSocket.open(
                port, [("X-Token", "abc")], protocol="mcp", max_bytes=MAX_BYTES
            )
            for text in ("é", "x" * 100_000):
                client.send(text.encode())
                assert await client.receive() == text.encode()
            await client.aclose()

    asyncio.run(run())
    assert seen == [("abc", "mcp"), 1000]


def test_a_server_that_refuses_or_is_not_there_is_reported() -> None:
    def refuse(connection: ServerConnection, request: Request) -> Response:
        return connection.respond(401, "no\n")

    async def nothing(_: ServerConnection) -> None:
        raise AssertionError

    async def run() -> tuple[int | None, str]:
        async with serve(nothing, "127.0.0.1", 0, process_request=refuse) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            with pytest.raises(TransportError) as refused:
                await WebSocket.open(port, [], protocol="mcp", max_bytes=MAX_BYTES)
        with pytest.raises(TransportError) as gone:
            await WebSocket.open(port, [], protocol="mcp", max_bytes=MAX_BYTES)
        return refused.value.status, gone.value.kind

    assert asyncio.run(run()) == (401, "no_server")


def test_a_close_from_the_server_is_returned() -> None:
    async def leave(server: ServerConnection) -> None:
        await server.close(4000, "bye")

    async def run() -> object:
        async with serve(leave, "127.0.0.1", 0) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            client = await WebSocket.open(port, [], protocol="mcp", max_bytes=MAX_BYTES)
            try:
                return await client.receive()
            finally:
                await client.aclose()

    assert asyncio.run(run()) == WebSocketClosed(code=4000, why="bye")
