"""Which addresses a page may be fetched from."""

import pytest

from clew.system.transport.addresses import is_admitted, is_literal, is_public


@pytest.mark.parametrize(
    "address",
    ["93.184.216.34", "1.1.1.1", "2606:4700:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101", "2002:101:101::1"],
)  # fmt: skip
def test_addresses_of_the_internet_are_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "192.168.1.1", "172.16.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0",
     "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1%eth0", "fc00::1", "::ffff:127.0.0.1",
     "::ffff:169.254.169.254", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:7f00:1::", "ff02::1",
     "not an address", "", "0x7f.1", "2130706433"],
)  # fmt: skip
def test_addresses_inside_are_not_however_they_are_written(address: str) -> None:
    assert not is_public(address)


def test_a_host_that_a_user_named_is_admitted_alone_or_with_its_port() -> None:
    assert is_admitted("wiki.inside", 80, "10.0.0.1", ["WIKI.inside"])
    assert is_admitted("localhost.", 3000, "127.0.0.1", ["localhost:3000"])
    assert not is_admitted("localhost", 3001, "127.0.0.1", ["localhost:3000"])
    assert not is_admitted("evil.example", 80, "127.0.0.1", ["localhost"])
    assert is_admitted("example.com", 443, "93.184.216.34", [])


def test_a_host_may_be_written_as_an_address() -> None:
    assert is_literal("127.0.0.1")
    assert is_literal("::1")
    assert not is_literal("localhost")
