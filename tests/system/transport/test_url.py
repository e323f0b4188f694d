"""URLs are read as far as a client needs them, and refused without repeating a secret."""

import pytest

from clew.system.transport.network import BadUrlError, split_url, unquote


@pytest.mark.parametrize(
    ("text", "host", "port", "target"),
    [
        ("https://api.example", "api.example", 443, "/"),
        ("https://api.example/v1/messages?beta=true", "api.example", 443, "/v1/messages?beta=true"),
        ("HTTP://API.Example:8080/x#part", "api.example", 8080, "/x"),
        ("http://[::1]:99/x", "::1", 99, "/x"),
        ("http://[::1]", "::1", 80, "/"),
        ("http://host?q=1", "host", 80, "/?q=1"),
        ("http://host/p\u00e4th\u20ac", "host", 80, "/p%C3%A4th%E2%82%AC"),
        ("https://b\u00fccher.example/", "xn--bcher-kva.example", 443, "/"),
    ],
)
def test_a_url_is_split_into_where_and_what(text: str, host: str, port: int, target: str) -> None:
    url = split_url(text)
    assert (url.host, url.port, url.target) == (host, port, target)


def test_the_host_header_names_the_port_only_where_it_is_unusual() -> None:
    assert split_url("https://a.example/").authority == "a.example"
    assert split_url("https://a.example:8443/").authority == "a.example:8443"
    assert split_url("http://[::1]:80/").authority == "[::1]"
    assert split_url("http://[::1]/").host_and_port == "[::1]:80"


def test_credentials_are_kept_apart_from_the_host() -> None:
    url = split_url("http://me:p%40ss@proxy:3128")
    assert (url.host, url.port, url.credentials) == ("proxy", 3128, "me:p%40ss")


@pytest.mark.parametrize(
    "text",
    [
        "api.example",
        "https://",
        "https://user:secret@",
        "https://host:port/",
        "https://host:0",
        "https://host:70000",
        "https://ho st/",
        "https://host/a b",
        "https://host/a\r\nx: y",
        "https://" + "\u00fc" * 70 + ".example",
        "https://" + "a" * 64 + ".example",
        "https://a..example",
        "https://me\udcff:secret@host",
    ],
)
def test_what_is_no_url_is_refused_without_its_secrets(text: str) -> None:
    with pytest.raises(BadUrlError) as refused:
        split_url(text)
    assert "secret" not in str(refused.value)


def test_percent_encoding_is_undone_and_broken_encoding_left_alone() -> None:
    assert unquote("p%40s%zz%2") == "p@s%zz%2"
    assert unquote("%C3%BC") == "\u00fc"
