"""The spelling by which host names are compared.

A host has many spellings: with upper case, a trailing dot or non-ASCII letters, and, for an IPv4
address, with numbers in other bases and of other lengths. The resolver accepts them all. This
module does no I/O.
"""

import re

_PLAIN = re.compile(r"[\w*.-]+", re.ASCII)
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")


def spell_host(host: str) -> str | None:
    """Return a host name or IPv4 address as the resolver understands it; None if it is invalid.

    `*` stays as it is, for patterns. IPv6 addresses are not supported.
    """
    name = host.strip().lower()
    if not name.isascii():
        try:
            name = name.encode("idna").decode("ascii").lower()
        except UnicodeError:
            return None
    name = name.rstrip(".")
    if not _PLAIN.fullmatch(name):
        return None
    return _spell_address(name) if _NUMBER.fullmatch(name.rpartition(".")[2]) else name


def _spell_address(name: str) -> str | None:
    """Return an IPv4 address as four decimal numbers, or None if the name is no such address.

    The last number may cover several bytes.
    """
    parts = name.split(".")
    try:
        *numbers, last = map(_read_number, parts)
    except ValueError:
        return None
    if len(parts) > 4 or any(number > 255 for number in numbers):
        return None
    rest = 4 - len(numbers)
    if last >= 256**rest:
        return None
    return ".".join(map(str, (*numbers, *last.to_bytes(rest, "big"))))


def _read_number(text: str) -> int:
    if text.startswith("0x"):
        return int(text[2:] or "0", 16)
    return int(text, 8 if len(text) > 1 and text.startswith("0") else 10)
