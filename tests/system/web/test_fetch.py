"""Pages over real sockets: redirects, limits, and addresses that are not to be reached."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from clew.system import web_fetch
from clew.system.transport.http import HttpTransport
from clew.system.transport.network import Network
from clew.system.transport.seam import HttpRequest, TransportError
from clew.system.web_fetch import Fetched, OtherHost, Web, WebError
from tests.system.web.site import Site, site

HTML = {"Content-Type": "text/html; charset=utf-8"}


@pytest.fixture
def here() -> Iterator[Site]:
    with site({"/": (200, HTML, b"<p>hello")}) as running:
        yield running


async def test_a_page_comes_with_what_it_says_of_itself(here: Site) -> None:
    web = Web(Network(), lambda: ["127.0.0.1"])
    found = await web.fetch(here.url())
    await web.aclose()
    assert found == Fetched(
        url=here.url(), status=200, media_type="text/html", charset="utf-8", body=b"<p>hello"
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "127.1"])
async def test_an_address_inside_is_not_reached(here: Site, host: str) -> None:
    web = Web(Network(), tuple)
    with pytest.raises(WebError):
        await web.fetch(here.url(host=host))
    await web.aclose()
    assert here.asked == []


async def test_a_redirect_inside_is_not_reached_either(here: Site) -> None:
    web = Web(Network(), lambda: [f"127.0.0.1:{here.port}"])
    here.pages["/away"] = (302, {"Location": f"http://www.127.0.0.1:{here.port}/"}, b"")
    here.pages["/in"] = (302, {"Location": "http://127.0.0.1:1/"}, b"")
    with pytest.raises(WebError, match=r"127\.0\.0\.1 is a private address"):
        await web.fetch(here.url("/in"))
    with pytest.raises(WebError):
        await web.fetch(here.url("/away"))
    await web.aclose()


async def test_redirects_on_the_same_host_are_followed_and_others_are_reported(here: Site) -> None:
    web = Web(Network(), lambda: ["127.0.0.1"])
    here.pages["/old"] = (301, {"Location": "/"}, b"")
    here.pages["/far"] = (302, {"Location": "https://example.com/x"}, b"")
    here.pages["/round"] = (307, {"Location": "/round"}, b"")
    here.pages["/bad"] = (302, {"Location": "ftp://example.com/"}, b"")
    found = await web.fetch(here.url("/old"))
    assert isinstance(found, Fetched)
    assert found.url == here.url("/")
    assert await web.fetch(here.url("/far")) == OtherHost(url="https://example.com/x", status=302)
    with pytest.raises(WebError, match="10 redirects"):
        await web.fetch(here.url("/round"))
    with pytest.raises(WebError, match="ftp"):
        await web.fetch(here.url("/bad"))
    await web.aclose()


@pytest.mark.parametrize(
    "url",
    ["ftp://example.com/", "file:///etc/passwd", "example.com", "http://u:p@example.com/",
     "http://", "http://exa mple.com/", "https://x:99999/", "http://127.0.0.1\\@example.com/"],
)  # fmt: skip
async def test_what_is_no_address_of_a_page_is_refused_before_anything_is_sent(url: str) -> None:
    web = Web(Network(), tuple)
    with pytest.raises(WebError):
        await web.fetch(url)
    await web.aclose()


async def test_a_page_that_is_too_large_is_left(
    here: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = Web(Network(), lambda: ["127.0.0.1"])
    monkeypatch.setattr(web_fetch, "MAX_BYTES", 1 << 20)
    here.pages["/big"] = (200, HTML, b"x" * (1 << 21))
    with pytest.raises(WebError, match="larger than 1 MiB"):
        await web.fetch(here.url("/big"))
    await web.aclose()


async def test_a_server_that_says_nothing_is_left(
    here: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_fetch, "TIMEOUT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        web = Web(Network(), lambda: ["127.0.0.1"])
        with pytest.raises(WebError, match="did not respond within"):
            await web.fetch(f"http://127.0.0.1:{silent.getsockname()[1]}/")
        await web.aclose()


async def test_a_name_is_resolved_once_and_the_judged_address_is_the_one_that_is_reached(
    here: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that leads elsewhere when it is asked again leads nowhere."""
    asked: list[Any] = []
    judged: list[tuple[str, str]] = []
    real = socket.getaddrinfo

    def once(host: Any, port: Any, *more: Any, **named: Any) -> Any:
        asked.append(host)
        assert len(asked) == 1, "asked again"
        return real("127.0.0.1", port, *more, **named)

    def admits(host: str, port: int, address: str) -> bool:
        judged.append((host, address))
        return True

    monkeypatch.setattr(socket, "getaddrinfo", once)
    transport = HttpTransport(Network(), admits=admits)
    exchange = transport.exchange(
        HttpRequest(method="GET", url=f"http://rebound.example:{here.port}/")
    )
    assert (await exchange.open()).status == 200
    await exchange.close()
    await transport.aclose()
    assert asked == ["rebound.example"]
    assert judged == [("rebound.example", "127.0.0.1")]


async def test_of_several_answers_only_those_are_reached_that_are_admitted(
    here: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name with a public address and a private one leads to the public one alone."""
    judged: list[str] = []

    def both(host: Any, port: Any, *_: Any, **__: Any) -> Any:
        """The private one first, and once more at the end."""
        stream = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
        return [(*stream, (where, port)) for where in ("127.0.0.2", "127.0.0.1", "127.0.0.3")]

    def admits(host: str, port: int, address: str) -> bool:
        judged.append(address)
        return address == "127.0.0.1"

    monkeypatch.setattr(socket, "getaddrinfo", both)
    transport = HttpTransport(Network(), admits=admits)
    exchange = transport.exchange(
        HttpRequest(method="GET", url=f"http://both.example:{here.port}/")
    )
    assert (await exchange.open()).status == 200
    await exchange.close()
    await transport.aclose()
    assert judged == ["127.0.0.2", "127.0.0.1", "127.0.0.3"]
    assert here.asked == ["/"]


async def test_an_address_that_is_not_admitted_is_not_connected_to(here: Site) -> None:
    transport = HttpTransport(Network(), admits=lambda *_: False)
    exchange = transport.exchange(HttpRequest(method="GET", url=here.url()))
    with pytest.raises(TransportError, match="are not allowed"):
        await exchange.open()
    await transport.aclose()
    assert here.asked == []
