"""HTTP/2 over real sockets, behind the same three methods."""

import asyncio
import contextlib
import gzip
import os
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import h2.config
import h2.connection
import h2.events
import pytest

from clew.system.transport.body import PIECE_BYTES
from clew.system.transport.choose import choose_transport
from clew.system.transport.http import HttpTransport
from clew.system.transport.seam import HttpRequest
from clew.system.transport.wide import WideTransport
from tests.requirements import requirement
from tests.system.transport.servers import (
    BOUND_S,
    Authority,
    Handler,
    answer,
    answering,
    fault,
    fetch,
    network,
    read_request,
    serving,
)
from tests.system.transport.test_proxy import tunnel
from tests.system.transport.test_socks import Socks


def test_only_http2_takes_the_larger_transport() -> None:
    assert isinstance(choose_transport(network()), HttpTransport)
    assert isinstance(choose_transport(network({"HTTPS_PROXY": "socks5h://p:1"})), HttpTransport)
    assert isinstance(choose_transport(network({"CLEW_HTTP2": "1"})), WideTransport)
    assert isinstance(choose_transport(network({"CLEW_HTTP2": "0"})), HttpTransport)


async def test_a_packed_body_comes_in_pieces_within_bounds_by_either_transport() -> None:
    body = b"word " * 100_000
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n"
    for variables in ({"CLEW_HTTP2": "1"}, {}):
        transport = choose_transport(network(variables))
        async with serving(answering(head + gzip.compress(body, mtime=0))) as server:
            exchange = transport.exchange(HttpRequest(method="GET", url=server.url))
            await exchange.open()
            pieces = []
            while piece := await exchange.read():
                pieces.append(piece)
            await exchange.close()
            assert b"".join(pieces) == body
            assert max(map(len, pieces)) <= PIECE_BYTES
        async with serving(answering(head + gzip.compress(bytes(8 << 20), mtime=0))) as server:
            error = await fault(transport, server.url)
            assert "times what came" in error.message
        await transport.aclose()


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (b"", "reset"),
        (b"SSH-2.0-nothing\r\n\r\n", "protocol"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "truncated"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nhalf", "content"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 4\r\n\r\nhalf", "content"),
    ],
)
async def test_broken_answers_have_the_kinds_of_the_smaller_transport(
    reply: bytes, kind: str
) -> None:
    async with serving(answering(reply)) as server:
        for variables in ({"CLEW_HTTP2": "1"}, {}):
            transport = choose_transport(network(variables))
            error = await fault(transport, server.url)
            assert error.kind == kind
            await transport.aclose()


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("http://127.0.0.1:1/", "connect"),
        ("ftp://host/", "configuration"),
        ("http://ho st/", "configuration"),
        ("https://127.0.0.1:{plain}/", "tls"),
        ("https://127.0.0.1:{secure}/", "tls"),
    ],
)
async def test_no_connection_has_the_kind_of_the_smaller_transport(
    tmp_path: Path, url: str, kind: str
) -> None:
    async def garbled(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-nothing\r\n")
        await reader.read()

    authority = Authority(tmp_path)
    async with (
        serving(garbled) as plain,
        serving(answering(b""), authority.context) as secure,
    ):
        url = url.replace("{plain}", str(plain.port)).replace("{secure}", str(secure.port))
        for variables in ({"CLEW_HTTP2": "1"}, {}):
            transport = choose_transport(network(variables))
            assert (await fault(transport, url)).kind == kind
            await transport.aclose()


async def test_a_header_that_cannot_be_sent_is_a_fault_without_its_value() -> None:
    async with serving(answering(answer(b"x"))) as server:
        transport = choose_transport(network({"CLEW_HTTP2": "1"}))
        error = await fault(transport, server.url, **{"x-key": "secret\r\nx: y"})
        assert error.kind == "configuration"
        assert "secret" not in error.message
        await transport.aclose()


def two(context: ssl.SSLContext, *, resets: bool = False) -> Handler:
    """Answers every stream of an HTTP/2 connection with its own path, or resets it half-way."""
    context.set_alpn_protocols(["h2", "http/1.1"])

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        secured = writer.get_extra_info("ssl_object")
        assert secured.selected_alpn_protocol() == "h2"
        http = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        http.initiate_connection()
        writer.write(http.data_to_send())
        paths: dict[int, bytes] = {}
        while data := await reader.read(65536):
            for event in http.receive_data(data):
                if isinstance(event, h2.events.RequestReceived):
                    paths[event.stream_id] = dict(event.headers)[b":path"]
                elif isinstance(event, h2.events.StreamEnded):
                    http.send_headers(event.stream_id, [(":status", "200"), ("x-kind", "two")])
                    http.send_data(event.stream_id, paths[event.stream_id], end_stream=not resets)
                    if resets:
                        http.reset_stream(event.stream_id)
            writer.write(http.data_to_send())

    return handler


@asynccontextmanager
async def speaking_two(
    folder: Path, *, resets: bool = False
) -> AsyncIterator[tuple[str, WideTransport]]:
    authority = Authority(folder)
    async with serving(two(authority.context, resets=resets), authority.context) as server:
        transport = choose_transport(
            network({"CLEW_HTTP2": "1", "CLEW_CA_FILE": str(authority.file)})
        )
        assert isinstance(transport, WideTransport)
        yield f"https://127.0.0.1:{server.port}", transport
        await transport.aclose()
        async with asyncio.timeout(BOUND_S):
            await server.until_open_now(0)


async def cancelled_after(steps: int, work: Coroutine[None, None, object]) -> None:
    """Lets `work` go on for so many turns of the loop, and cancels it."""
    task = asyncio.create_task(work)
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_the_certificates_are_loaded_by_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library would load the system's again, inside the loop, for each connection."""
    loaded: list[ssl.SSLContext] = []
    load = ssl.SSLContext.load_verify_locations

    def counted(context: ssl.SSLContext, *places: Any, **named: Any) -> None:
        loaded.append(context)
        load(context, *places, **named)

    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", counted)
    async with speaking_two(tmp_path) as (url, transport):
        await transport.trust.context()
        assert loaded
        loaded.clear()
        assert (await fetch(transport, url))[1] == b"/"
    assert loaded == []


async def test_http2_is_spoken_and_its_streams_share_a_connection(tmp_path: Path) -> None:
    async with speaking_two(tmp_path) as (url, transport):
        head, body = await fetch(transport, f"{url}/warm")
        assert (head.status, head.headers["x-kind"], body) == (200, "two", b"/warm")
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(fetch(transport, f"{url}/{n}")) for n in range(10)]
        assert [task.result()[1] for task in asked] == [f"/{n}".encode() for n in range(10)]


async def test_a_reset_stream_is_a_fault_and_the_connection_lives_on(tmp_path: Path) -> None:
    async with speaking_two(tmp_path, resets=True) as (url, transport):
        for _ in range(3):
            assert (await fault(transport, url)).kind in ("reset", "truncated")


async def test_bytes_are_counted_and_closing_twice_is_nothing(tmp_path: Path) -> None:
    async with speaking_two(tmp_path) as (url, transport):
        exchange = transport.exchange(HttpRequest(method="POST", url=f"{url}/x", body=b"{}"))
        assert exchange.bytes_received == 0
        assert await exchange.read() == b""
        await exchange.open()
        before = exchange.bytes_received
        assert before > 0
        assert await exchange.read() == b"/x"
        assert exchange.bytes_received > before
        assert await exchange.read() == b""
        await exchange.close(answered=True)
        await exchange.close()


@requirement("R069", "R072")
async def test_a_cancel_leaves_nothing_open_and_the_next_request_is_answered(
    tmp_path: Path,
) -> None:
    async with speaking_two(tmp_path) as (url, transport):
        for turns in range(80):
            await cancelled_after(turns, fetch(transport, f"{url}/{turns}"))
        assert (await fetch(transport, f"{url}/last"))[1] == b"/last"


@requirement("R072")
async def test_whatever_moment_a_request_is_cancelled_in_the_next_one_is_answered(
    tmp_path: Path,
) -> None:
    async with speaking_two(tmp_path) as (url, transport):
        await fetch(transport, f"{url}/first")
        for turns in range(40):
            await cancelled_after(turns % 20, fetch(transport, f"{url}/{turns}"))
            assert (await fetch(transport, f"{url}/next"))[1] == b"/next"


async def test_a_plain_request_goes_through_its_proxy_by_http_1() -> None:
    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first, headers, _ = await read_request(reader)
        said = f"{first} {headers['proxy-authorization']}"
        writer.write(answer(said.encode()))
        await reader.read()

    async with serving(proxy) as server:
        variables = {"CLEW_HTTP2": "1", "HTTP_PROXY": f"http://me:p%40ss@127.0.0.1:{server.port}"}
        transport = choose_transport(network(variables))
        _, body = await fetch(transport, "http://api.invalid/v1")
        assert body == b"POST http://api.invalid/v1 HTTP/1.1 Basic bWU6cEBzcw=="
        await transport.aclose()


@pytest.mark.parametrize("kind", ["http", "socks5"])
async def test_http2_is_spoken_through_a_proxy(tmp_path: Path, kind: str) -> None:
    authority, asked = Authority(tmp_path), list[dict[str, str]]()
    async with serving(two(authority.context), authority.context) as server:
        proxy = Socks().handler if kind == "socks5" else tunnel(server.port, asked)
        async with serving(proxy) as between:
            transport = choose_transport(
                network(
                    {
                        "CLEW_HTTP2": "1",
                        "CLEW_CA_FILE": str(authority.file),
                        "HTTPS_PROXY": f"{kind}://me:p%40ss@127.0.0.1:{between.port}",
                    }
                )
            )
            head, body = await fetch(transport, f"https://127.0.0.1:{server.port}/through")
            assert (head.headers["x-kind"], body) == ("two", b"/through")
            await transport.aclose()


@pytest.mark.parametrize("open_steps", [3, 30])
async def test_a_cancel_while_a_connection_is_made_leaves_none(
    tmp_path: Path, open_steps: int
) -> None:
    """The server takes the connection and never says a word of TLS."""

    async def silent(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.read(-1)

    async with serving(silent) as server:
        transport = choose_transport(network({"CLEW_HTTP2": "1"}))
        for _ in range(20):
            await cancelled_after(open_steps, fetch(transport, f"https://127.0.0.1:{server.port}/"))
        async with asyncio.timeout(BOUND_S):
            await server.until_open_now(0)
        await transport.aclose()


def test_without_the_extra_it_is_said_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "h2.py").write_text("raise ImportError('not here')", "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "clew", "-p", "hi"],
        capture_output=True,
        text=True,
        check=False,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(tmp_path),
            "HOME": str(tmp_path),
            "CLEW_HTTP2": "1",
            "ANTHROPIC_API_KEY": "sk-ant-" + "x" * 90,
        },
    )
    assert done.returncode == 1
    assert "clew[http2]" in done.stderr
    assert "Traceback" not in done.stderr
