"""SOCKS proxies, over real sockets: what is said to them, and every way they say no."""

import asyncio
from pathlib import Path

import pytest

from clew.providers.answer import Answering
from clew.providers.answer_events import Answered
from clew.providers.anthropic import provider_from_environment
from clew.providers.base import ModelRequest
from clew.system.transport.http import HttpTransport
from clew.testing.server import LoopbackServer
from tests.requirements import requirement
from tests.system.transport.servers import (
    BOUND_S,
    Authority,
    answer,
    answering,
    fault,
    fetch,
    network,
    read_request,
    serving,
)

USER, PASSWORD = b"me", b"p@ss"


class Socks:
    """A SOCKS5 server that asks for a password; `asked` holds where it was asked to go."""

    def __init__(self, *, target: int | None = None, refuses: bool = False) -> None:
        self.asked: list[tuple[str, int]] = []
        self._target = target
        self._refuses = refuses

    async def handler(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, count = await reader.readexactly(2)
        assert 2 in await reader.readexactly(count)
        writer.write(b"\x05\x02")
        await reader.readexactly(1)
        user = await reader.readexactly((await reader.readexactly(1))[0])
        password = await reader.readexactly((await reader.readexactly(1))[0])
        if (user, password) != (USER, PASSWORD):
            writer.write(b"\x01\x01")
            return
        writer.write(b"\x01\x00")
        kind = (await reader.readexactly(4))[3]
        if kind == 1:
            host = ".".join(map(str, await reader.readexactly(4)))
        else:
            host = (await reader.readexactly((await reader.readexactly(1))[0])).decode()
        port = int.from_bytes(await reader.readexactly(2), "big")
        self.asked.append((host, port))
        if self._refuses:
            writer.write(b"\x05\x05\x00\x01" + bytes(6))
            return
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._target or port)
        writer.write(b"\x05\x00\x00\x01" + bytes(6))
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_copy(reader, up_writer))
                group.create_task(_copy(up_reader, writer))
        finally:
            up_writer.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
    writer.close()


def by_socks(port: int, password: str = "p%40ss", **more: str) -> HttpTransport:
    return HttpTransport(network({"ALL_PROXY": f"socks5://me:{password}@127.0.0.1:{port}", **more}))


@pytest.mark.parametrize("secure", [False, True])
async def test_a_request_goes_through_a_socks_proxy_which_resolves_the_name(
    tmp_path: Path, *, secure: bool
) -> None:
    authority = Authority(tmp_path)
    target = answering(answer(b"one"), answer(b"two"))
    async with serving(target, authority.context if secure else None) as server:
        socks = Socks(target=server.port)
        async with serving(socks.handler) as proxy:
            host = "127.0.0.1" if secure else "api.invalid"
            transport = by_socks(proxy.port, SSL_CERT_FILE=str(authority.file))
            url = f"{'https' if secure else 'http'}://{host}:{server.port}/v1"
            for expected in (b"one", b"two"):
                assert (await fetch(transport, url))[1] == expected
            assert (proxy.connections, server.connections) == (1, 1)
            assert socks.asked == [(host, server.port)]
            await transport.aclose()


async def test_a_host_of_no_proxy_is_reached_without_it() -> None:
    async with serving(answering(answer(b"direct"))) as server:
        transport = by_socks(1, NO_PROXY="127.0.0.1")
        assert (await fetch(transport, server.url))[1] == b"direct"
        await transport.aclose()


@pytest.mark.parametrize(
    ("password", "refuses", "kind"), [("wrong", False, "proxy"), ("p%40ss", True, "proxy")]
)
async def test_a_socks_proxy_that_says_no_is_reported_without_the_password(
    password: str, refuses: bool, kind: str
) -> None:
    async with serving(Socks(refuses=refuses).handler) as proxy:
        transport = by_socks(proxy.port, password)
        error = await fault(transport, "http://api.invalid/v1")
        assert error.kind == kind
        assert f"127.0.0.1:{proxy.port}" in error.message
        assert password not in error.message
        await transport.aclose()


@requirement("R069", "R072")
@pytest.mark.parametrize("where", ["waiting for the head", "in the body"])
async def test_a_cancel_leaves_nothing_open(where: str) -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        if where == "in the body":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
        await reader.read()

    async with serving(handler) as server, serving(Socks().handler) as proxy:
        transport = by_socks(proxy.port)
        for round_ in range(60):
            task = asyncio.create_task(fetch(transport, server.url))
            for _ in range(round_ * 3):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        async with asyncio.timeout(BOUND_S):
            await proxy.until_open_now(0)
            await server.until_open_now(0)
        assert transport.connections == (0, 0)


@requirement("R049")
async def test_a_whole_answer_streams_through_socks() -> None:
    scenario = {"scenario": 1, "answers": [{"text": "Hello by way of SOCKS."}]}
    async with LoopbackServer(scenario, strict=True) as server:
        socks = Socks()
        async with serving(socks.handler) as proxy:
            provider = provider_from_environment(
                {
                    "ANTHROPIC_BASE_URL": server.url,
                    "ANTHROPIC_API_KEY": "key",
                    "all_proxy": f"socks5h://me:p%40ss@127.0.0.1:{proxy.port}",
                }
            )
            request = ModelRequest(model="opus", messages=[{"role": "user", "content": "hi"}])

            async def ignore(_: object) -> None:
                pass

            ended = await Answering(provider, new_tool_id=lambda: "t").run(request, ignore)
            assert isinstance(ended, Answered)
            assert ended.message["content"][0]["text"] == "Hello by way of SOCKS."
            assert len(socks.asked) == 1
            await provider.aclose()


@pytest.mark.parametrize(
    ("replies", "said"),
    [
        ([b""], "closed the connection"),
        ([b"HTTP/1.1 400 Bad Request\r\n\r\n"], "sent an invalid response"),
        ([b"\x05\xff"], "requires another login method"),
        ([b"\x05\x00", b"\x04\x00\x00\x01"], "sent an invalid response"),
        ([b"\x05\x00", b"\x05\x02\x00\x01"], "not allowed by its rules"),
        ([b"\x05\x00", b"\x05\x63\x00\x01"], "error 99"),
        ([b"\x05\x00", b"\x05\x00\x00\x01\x7f"], "closed the connection"),
        ([b"\x05\x00", b"\x05\x00\x00\x03\x01x\x00\x01welcome"], "closed the tunnel"),
        ([b"\x05\x02", b"\x01\x01"], "rejected the user"),
    ],
)
async def test_whatever_a_proxy_says_is_a_fault_of_the_proxy(
    replies: list[bytes], said: str
) -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for reply in replies:
            await reader.read(600)
            writer.write(reply)
            await writer.drain()

    async with serving(handler) as proxy:
        transport = by_socks(proxy.port)
        error = await fault(transport, "http://api.invalid/v1")
        assert error.kind == "proxy"
        assert said in error.message
        assert "p@ss" not in error.message
        assert transport.connections == (0, 0)


async def test_a_proxy_without_a_password_is_asked_without_one_byte_by_byte() -> None:
    said = bytearray()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def reply(data: bytes) -> None:
            for byte in data:
                writer.write(bytes((byte,)))
                await writer.drain()

        said.extend(await reader.readexactly(3))
        await reply(b"\x05\x00")
        said.extend(await reader.readexactly(22))
        await reply(b"\x05\x00\x00\x04" + bytes(18))
        await read_request(reader)
        writer.write(answer(b"there"))
        await reader.read()

    async with serving(handler) as proxy:
        transport = HttpTransport(network({"http_proxy": f"socks5h://127.0.0.1:{proxy.port}"}))
        assert (await fetch(transport, "http://[2001:db8::1]:8080/v1"))[1] == b"there"
        address = bytes.fromhex("20010db8000000000000000000000001")
        assert bytes(said) == b"\x05\x01\x00" + b"\x05\x01\x00\x04" + address + b"\x1f\x90"
        await transport.aclose()


async def test_a_login_that_no_byte_can_count_is_said_before_it_is_sent() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(600)
        writer.write(b"\x05\x02")
        await reader.read()

    async with serving(handler) as proxy:
        error = await fault(by_socks(proxy.port, "x" * 256), "http://api.invalid/v1")
        assert error.kind == "configuration"
        assert "xxx" not in error.message
