"""The one spelling of a host by which rules compare it."""

import pytest

from clew.core.hosts import spell_host


@pytest.mark.parametrize(
    ("host", "spelled"),
    [
        ("Example.COM.", "example.com"),
        (" a_b-c.example ", "a_b-c.example"),
        ("*.Example.com", "*.example.com"),
        ("BÜCHER.de", "xn--bcher-kva.de"),
        ("*.bücher.de", "*.xn--bcher-kva.de"),
        ("a。example。com。", "a.example.com"),
        ("93.184.216.34", "93.184.216.34"),
        ("1572395042", "93.184.216.34"),
        ("0x5db8d822", "93.184.216.34"),
        ("0135.0270.0330.0042", "93.184.216.34"),
        ("93.12113954", "93.184.216.34"),
        ("127.1", "127.0.0.1"),
        ("0", "0.0.0.0"),
        ("0x", "0.0.0.0"),
        ("v4.1a", "v4.1a"),
        *((bad, None) for bad in (
            "", ".", "a b", "a/b", "a:80", "https://a", "[::1]", "u@a", "1.2.3.4.5", "256.1.1.1",
            "4294967296", "1.2.3.256", "08", "x.1", "ü" * 70,
        )),
    ],
)  # fmt: skip
def test_a_host_has_one_spelling_or_is_invalid(host: str, spelled: str | None) -> None:
    assert spell_host(host) == spelled
    if spelled is not None:
        assert spell_host(spelled) == spelled
