"""Which addresses are public: by range, at both ends of each, and however an IPv4 address is wrapped."""

from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.system.transport.addresses import is_public

# IANA's special-purpose registries: what is not "globally reachable", and what is obsolete.
SPECIAL = (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
    "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
    "224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32",
    "::/128", "::1/128", "::/96", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64", "2001::/32", "2001:2::/48",
    "2001:10::/28", "2001:20::/28", "2001:30::/28", "2001:db8::/32", "3fff::/20", "5f00::/16", "fc00::/7",
    "fe80::/10", "fec0::/10", "ff00::/8", "4000::/2", "::ffff:0:0:0/96",
)  # fmt: skip
PUBLIC = (
    "1.1.1.1", "93.184.216.34", "100.63.255.255", "100.128.0.0", "172.32.0.0", "192.0.1.0", "192.88.98.255",
    "168.63.129.15", "168.63.129.17", "198.20.0.0", "223.255.255.255",
    "2606:4700:4700::1111", "2400::", "2001:200::1", "2001:4860:4860::8888", "2620:4f:8000::1", "3ffe::1",
)  # fmt: skip


@pytest.mark.parametrize("network", SPECIAL)
def test_no_address_of_a_special_range_is_public(network: str) -> None:
    found = ip_network(network)
    for address in (found[0], found[-1], found[found.num_addresses // 2]):
        assert not is_public(str(address)), address


@pytest.mark.parametrize("address", PUBLIC)
def test_addresses_beside_these_ranges_are(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address", ["not an address", "", "0x7f.1", "2130706433", "1.1.1.1/8", "[::1]"]
)
def test_what_is_no_address_is_not_public(address: str) -> None:
    assert not is_public(address)


def test_a_zone_changes_nothing() -> None:
    assert not is_public("fe80::1%eth0")
    assert is_public("2606:4700:4700::1111%eth0")


WRAPPED = {
    "mapped": lambda inner: IPv6Address(0xFFFF << 32 | inner),
    "NAT64": lambda inner: IPv6Address(0x64FF9B << 96 | inner),
    "6to4": lambda inner: IPv6Address(0x2002 << 112 | inner << 80 | 1),
    "ISATAP": lambda inner: IPv6Address(0x26064700 << 96 | 0x5EFE << 32 | inner),
    "ISATAP, not local": lambda inner: IPv6Address(0x26064700 << 96 | 0x02005EFE << 32 | inner),
}


@pytest.mark.parametrize("way", WRAPPED)
@given(inner=st.one_of(st.ip_addresses(v=4), st.ip_addresses(network="10.0.0.0/8")))
def test_an_address_that_carries_another_is_as_public_as_that_one(
    way: str, inner: IPv4Address
) -> None:
    assert is_public(str(WRAPPED[way](int(inner)))) is is_public(str(inner))


@pytest.mark.parametrize("inner", ["1.1.1.1", "10.0.0.1"])
def test_teredo_and_private_translation_are_never_public(inner: str) -> None:
    """Who hears them is decided by a relay, or by the network at hand."""
    number = int(IPv4Address(inner))
    assert not is_public(str(IPv6Address(0x20010000 << 96 | number ^ 0xFFFFFFFF)))
    assert not is_public(str(IPv6Address(0x64FF9B0001 << 80 | number)))
