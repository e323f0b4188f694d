"""Distinguish public internet addresses from those of this machine or a private network.

Owns the table, which follows IANA's registries of special-purpose addresses (RFC 6890) and not
Python's, whose answers differ between versions. An address is public only if the table says so.
Does no I/O.

Decision: docs/decisions/122-web-pages.md
"""

from collections.abc import Collection
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

# In Azure, 168.63.129.16 serves the machine itself, with its settings and certificates.
SPECIAL_IPV4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32", "169.254.0.0/16",
            "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16",
            "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
        ),
    )
)  # fmt: skip
# All addresses assigned for public use. fc00::/7, fe80::/10, fec0::/10 and 5f00::/16 are outside.
UNICAST = IPv6Network("2000::/3")
# Protocol ranges inside `UNICAST` (Teredo, benchmarks, ORCHID and others) and documentation.
SPECIAL_IPV6 = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "3fff::/20")))
# Ranges whose addresses end with an IPv4 address, which is either the translated target or only a
# notation.
CARRIES_IPV4 = tuple(map(IPv6Network, ("64:ff9b::/96", "::ffff:0:0/96")))
# Interface IDs of ISATAP tunnels, which lead to an IPv4 address, local or not.
ISATAP = frozenset({0x00005EFE, 0x02005EFE})


def is_public(address: str) -> bool:
    """Return whether a numeric address is on the public internet."""
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    return is_public_ipv4(ip) if isinstance(ip, IPv4Address) else is_public_ipv6(ip)


def is_public_ipv4(address: IPv4Address) -> bool:
    return not any(address in network for network in SPECIAL_IPV4)


def is_public_ipv6(address: IPv6Address) -> bool:
    """Return whether an IPv6 address is public. An embedded IPv4 address must be public too."""
    last = IPv4Address(int(address) & 0xFFFFFFFF)
    if any(address in network for network in CARRIES_IPV4):
        return is_public_ipv4(last)
    if address not in UNICAST or any(address in network for network in SPECIAL_IPV6):
        return False
    if address.sixtofour is not None and not is_public_ipv4(address.sixtofour):
        return False
    return (int(address) >> 32) & 0xFFFFFFFF not in ISATAP or is_public_ipv4(last)


# Addresses from which any page may be fetched: those of the public internet. No I/O.


def is_literal(host: str) -> bool:
    """Return whether a host is a numeric address."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_admitted(host: str, port: int, address: str, allowed: Collection[str]) -> bool:
    """Return whether `host` may be reached at `address`.

    `allowed` lists the hosts, or `host:port` pairs, that the user named.
    """
    names = {host.lower().rstrip("."), f"{host.lower().rstrip('.')}:{port}"}
    return bool(names & {name.lower() for name in allowed}) or is_public(address)
