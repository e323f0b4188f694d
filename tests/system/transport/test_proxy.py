"""Which proxy a URL takes: the usual variables, their exceptions, and an explicit choice above them."""

import asyncio
import ssl

import pytest

from clew.system.config.environment import freeze
from clew.system.transport.http import HttpTransport
from clew.system.transport.network import read_network, read_proxy, rules_of, split_url
from clew.system.transport.seam import TransportError
from tests.system.transport.servers import (
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

API = split_url("https://api.example/v1")


def chosen(url: str, **environment: str) -> str | None:
    proxy = rules_of(network(environment)).choose(split_url(url))
    return None if proxy is None else proxy.place


def test_each_scheme_has_its_variable_and_all_proxy_stands_in() -> None:
    assert chosen("https://a.example", HTTPS_PROXY="http://p:1") == "p:1"
    assert chosen("https://a.example", HTTP_PROXY="http://p:1") is None
    assert chosen("http://a.example", http_proxy="p:1") == "p:1"
    assert chosen("http://a.example", ALL_PROXY="http://p:1") == "p:1"
    assert chosen("https://a.example", all_proxy="http://all:1", https_proxy="http://p:2") == "p:2"
    assert chosen("https://a.example", HTTPS_PROXY="") is None


def test_an_explicit_proxy_stands_above_the_variables_and_keeps_the_exceptions() -> None:
    environment = {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "inside.example"}
    rules = rules_of(read_network(freeze(environment), proxy="http://mine:2"))
    proxy = rules.choose(API)
    assert proxy is not None
    assert proxy.place == "mine:2"
    assert rules.choose(split_url("https://inside.example")) is None


@pytest.mark.parametrize(
    ("exception", "url", "covered"),
    [
        ("*", "https://api.example", True),
        ("api.example", "https://api.example", True),
        ("example", "https://api.example", True),
        (".example", "https://api.example", True),
        ("*.example", "https://api.example", True),
        ("API.EXAMPLE", "https://api.example", True),
        ("pi.example", "https://api.example", False),
        ("other, api.example", "https://api.example", True),
        ("other api.example", "https://api.example", True),
        ("api.example:443", "https://api.example", True),
        ("api.example:8443", "https://api.example", False),
        ("127.0.0.1", "http://127.0.0.1:9", True),
        ("[::1]:9", "http://[::1]:9", True),
        ("[::1]:8", "http://[::1]:9", False),
        ("::1", "http://[::1]:9", True),
        ("10.0.0.0/8", "http://10.1.2.3", True),
        ("10.0.0.0/8", "http://11.1.2.3", False),
        ("10.0.0.0/8", "http://ten.example", False),
        ("10.0.0.0/99", "http://10.1.2.3", False),
        (".", "https://api.example", False),
        ("", "https://api.example", False),
    ],
)
def test_no_proxy_names_hosts_suffixes_ports_and_networks(
    exception: str, url: str, *, covered: bool
) -> None:
    proxies = {"ALL_PROXY": "http://p:1", "NO_PROXY": exception}
    assert (chosen(url, **proxies) is None) is covered


@pytest.mark.parametrize("url", ["socks4://me:secret@p:1080", "ftp://me:secret@p:1080"])
def test_a_proxy_clew_cannot_speak_is_refused_by_name_and_never_ignored(url: str) -> None:
    with pytest.raises(TransportError) as refused:
        read_proxy(url)
    assert refused.value.kind == "configuration"
    assert url.partition(":")[0] in refused.value.message
    assert "p:1080" in refused.value.message
    assert "secret" not in refused.value.message


def test_a_proxy_that_is_no_url_is_refused() -> None:
    with pytest.raises(TransportError) as refused:
        read_proxy("http://me:secret@:x")
    assert refused.value.kind == "configuration"
    assert "secret" not in refused.value.message


def test_a_plain_request_goes_through_the_proxy_with_its_whole_url() -> None:
    seen: list[tuple[str, str | None]] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first, headers, _ = await read_request(reader)
        seen.append((first, headers.get("proxy-authorization")))
        writer.write(answer(b"by proxy"))
        await reader.read()

    async def main() -> None:
        async with serving(proxy) as server:
            url = f"http://me:p%40ss@127.0.0.1:{server.port}"
            transport = HttpTransport(network({"HTTP_PROXY": url}))
            _, body = await fetch(transport, "http://api.invalid/v1?x=1")
            await transport.aclose()
            assert body == b"by proxy"

    asyncio.run(main())
    assert seen == [("POST http://api.invalid/v1?x=1 HTTP/1.1", "Basic bWU6cEBzcw==")]


def tunnel(target_port: int, seen: list[dict[str, str]]) -> Handler:
    """A proxy that opens tunnels, wherever they are said to go, to one port."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first, headers, _ = await read_request(reader)
        seen.append({"first": first, **headers})
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", target_port)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(copy(reader, up_writer))
                group.create_task(copy(up_reader, writer))
        finally:
            up_writer.transport.abort()

    return handler


@pytest.mark.parametrize("tls_to_the_proxy", [False, True])
def test_a_secure_request_goes_through_a_tunnel_with_authorization(
    tmp_path, *, tls_to_the_proxy: bool
) -> None:
    authority = Authority(tmp_path)
    seen: list[dict[str, str]] = []
    scheme = "https" if tls_to_the_proxy else "http"
    context: ssl.SSLContext | None = authority.context if tls_to_the_proxy else None

    async def main() -> None:
        target = answering(answer(b"one"), answer(b"two"))
        async with (
            serving(target, authority.context) as server,
            serving(tunnel(server.port, seen), context) as proxy,
        ):
            environment = {
                "HTTPS_PROXY": f"{scheme}://me:secret@127.0.0.1:{proxy.port}",
                "SSL_CERT_FILE": str(authority.file),
            }
            transport = HttpTransport(network(environment))
            url = f"https://127.0.0.1:{server.port}/v1"
            for expected in (b"one", b"two"):
                _, body = await fetch(transport, url)
                assert body == expected
            assert (proxy.connections, server.connections) == (1, 1)
            assert seen[0]["first"] == f"CONNECT 127.0.0.1:{server.port} HTTP/1.1"
            assert seen[0]["proxy-authorization"] == "Basic bWU6c2VjcmV0"
            await transport.aclose()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n", "407"),
        (b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n", "502"),
        (b"SSH-2.0-nothing\r\n\r\n", "sent an invalid response"),
        (b"", "sent an invalid response"),
        (b"HTTP/1.1 200 OK\r\n\r\nwelcome", "closed the tunnel"),
    ],
)
def test_a_proxy_that_gives_no_tunnel_is_a_fault_of_the_proxy(reply: bytes, said: str) -> None:
    async def main() -> None:
        async with serving(answering(reply)) as proxy:
            environment = {"HTTPS_PROXY": f"http://me:secret@127.0.0.1:{proxy.port}"}
            transport = HttpTransport(network(environment))
            error = await fault(transport, "https://api.invalid/v1")
            assert error.kind == "proxy"
            assert said in error.message
            assert "secret" not in error.message
            assert transport.connections == (0, 0)

    asyncio.run(main())
