"""Which addresses anybody's page may be fetched from: those of the public internet. Pure.

An address inside a machine or a network must not be reached because a model, or a page it read, named a
host that leads there: what answers are routers, databases, and the keys of the machine itself.
"""

from collections.abc import Collection
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

# Ranges that carry an IPv4 address inside: what counts is that one.
NAT64 = IPv6Network("64:ff9b::/96")


def is_public(address: str) -> bool:
    """Whether an address, written as numbers, is one of the public internet."""
    try:
        return _is_public(ip_address(address.partition("%")[0]))
    except ValueError:
        return False


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address in NAT64:
            inner = IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return _is_public(inner)
        if address.teredo is not None:
            return False
    return address.is_global and not (address.is_multicast or address.is_reserved)


def is_literal(host: str) -> bool:
    """Whether a host is written as an address."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def admitted(host: str, port: int, address: str, allowed: Collection[str]) -> bool:
    """Whether `host` may be reached at `address`; `allowed` are hosts, or `host:port`, that a person named."""
    names = {host.lower().rstrip("."), f"{host.lower().rstrip('.')}:{port}"}
    return bool(names & {name.lower() for name in allowed}) or is_public(address)
