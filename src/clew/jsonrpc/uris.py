"""Files as peers name them: `file:` URIs. Pure."""

import re

FILE = "file://"
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/")
_ESCAPES = re.compile(r"(?:%[0-9A-Fa-f]{2})+")


def uri_of(path: str) -> str:
    data = path.encode("utf-8", "surrogateescape")
    return FILE + "".join(chr(b) if b in _PLAIN else f"%{b:02X}" for b in data)


def path_of(uri: str) -> str:
    """The file that a URI names; empty for what is no file of this machine."""
    if not uri.startswith(FILE):
        return ""
    path = uri[len(FILE) :].partition("#")[0].partition("?")[0]
    if "/" not in path:
        return ""
    return _ESCAPES.sub(
        lambda found: bytes.fromhex(found[0].replace("%", "")).decode("utf-8", "surrogateescape"),
        path[path.find("/") :],
    )
