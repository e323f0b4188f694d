"""Which addresses anybody's page may be fetched from: those of the public internet. Pure.

An address inside a machine or a network must not be reached because a model, or a page it read, named a
host that leads there: what answers are routers, databases, and the keys of the machine itself.

Decision: docs/decisions/122-web-pages.md
"""

from collections.abc import Collection
from ipaddress import ip_address

from clew.transport.addresses import is_public


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
