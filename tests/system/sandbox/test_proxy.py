"""The proxy of the sandbox: which requests pass, and that malicious ones do not."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from clew.system.sandbox import proxy as module
from clew.system.sandbox.policy import SandboxPolicy
from clew.system.sandbox.proxy import SandboxProxy


@asynccontextmanager
async def echo() -> AsyncIterator[int]:
    """A host that gives back what it is sent, as it is."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1000):
            writer.write(data)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def ask(policy: SandboxPolicy, sent: bytes, *, then: bytes = b"") -> tuple[bytes, list[str]]:
    """What a client gets that sends some bytes and, once it is answered, some more."""
    refused: list[str] = []
    server = await SandboxProxy(policy, refused.append).listen()
    async with server, asyncio.timeout(20):
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(sent)
        got = b""
        if then:
            got = await reader.readuntil(b"\r\n\r\n")
            writer.write(then)
        writer.write_eof()
        got += await reader.read(-1)
        writer.close()
    return got, refused


NEAR = SandboxPolicy(write=(), domains=("127.0.0.1", "localhost"))


async def test_a_tunnel_passes_bytes_both_ways() -> None:
    async with echo() as port:
        got, refused = await ask(
            NEAR, f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode(), then=b"hello"
        )
    assert got == b"HTTP/1.1 200 Connection established\r\n\r\nhello"
    assert refused == []


async def test_a_plain_request_goes_to_its_host_without_what_was_for_the_proxy() -> None:
    async with echo() as port:
        head = (
            f"GET http://localhost:{port}/a/b?c HTTP/1.1\r\nHost: localhost\r\n"
            "Proxy-Authorization: x\r\nConnection: keep-alive\r\n\r\n"
        )
        got, _ = await ask(NEAR, head.encode())
    assert got == b"GET /a/b?c HTTP/1.1\r\nConnection: close\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ("CONNECT other.test:443 HTTP/1.1", b"403"),
        ("GET http://other.test/ HTTP/1.1", b"403"),
        ("CONNECT 127.0.0.1@other.test:443 HTTP/1.1", b"400"),
        ("GET http://127.0.0.1@other.test/ HTTP/1.1", b"400"),
        ("GET /local HTTP/1.1", b"400"),
        ("GET https://127.0.0.1/ HTTP/1.1", b"400"),
        ("CONNECT 127.0.0.1 HTTP/1.1", b"400"),
    ],
)
async def test_what_may_not_pass_is_answered(sent: str, status: bytes) -> None:
    got, _ = await ask(NEAR, f"{sent}\r\n\r\n".encode())
    assert got.startswith(b"HTTP/1.1 " + status)


@pytest.mark.parametrize(
    "sent", [b"", b"\r\n\r\n", b"a b\r\n\r\n", b"CONNECT x:y HTTP/1.1\r\n\r\n", b"\xff" * 90_000]
)
async def test_what_is_no_request_is_let_go(sent: bytes) -> None:
    got, refused = await ask(NEAR, sent)
    assert (got, refused) == (b"", [])


async def test_a_host_that_is_not_there_is_told_as_such() -> None:
    closed = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = closed.sockets[0].getsockname()[1]
    closed.close()
    await closed.wait_closed()
    got, _ = await ask(NEAR, f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode())
    assert got.startswith(b"HTTP/1.1 502")


@pytest.mark.parametrize(
    "home", ["127.0.0.1", "10.1.2.3", "::ffff:127.0.0.1", "fec0::1", "168.63.129.16"]
)
async def test_a_name_that_leads_into_this_machine_is_refused(
    monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    async def leads_home(_: Any, host: str, port: int, **__: Any) -> list[Any]:
        return [(2, 1, 6, "", (home, port))]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", leads_home)
    policy = SandboxPolicy(write=(), domains=("*.example.com",))
    got, refused = await ask(policy, b"CONNECT a.example.com:80 HTTP/1.1\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 403 ")
    assert refused == ["a.example.com"]


def test_an_address_in_brackets_is_one() -> None:
    assert module.split_target(b"[::1]:443", is_tunnel=True) == ("::1", 443, b"/")
    assert module.split_target(b"http://[::1]/x", is_tunnel=False) == ("::1", 80, b"/x")
    assert module.split_target(b"http://a", is_tunnel=False) == ("a", 80, b"/")
