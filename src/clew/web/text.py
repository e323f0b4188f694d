"""A response's body as text, whatever it says of itself. Pure."""

import codecs
import re

MARKUP = frozenset({"text/html", "application/xhtml+xml"})
TEXTUAL = re.compile(
    r"text/|application/(?:[\w.+-]*\+)?(?:json|xml|yaml|toml|javascript|x-sh)|image/svg"
)
CHARSET = re.compile(rb"""<meta[^>]{0,200}charset\s*=\s*["']?\s*([\w-]{1,40})""", re.I)
MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))  # fmt: skip
LOOKED_AT_BYTES = 2_048


def is_markup(media_type: str, body: bytes) -> bool:
    begin = body[:LOOKED_AT_BYTES].lstrip()[:100].lower()
    looks = begin.startswith((b"<!doctype html", b"<html"))
    return media_type in MARKUP or (not media_type and looks)


def is_textual(media_type: str, body: bytes) -> bool:
    """Whether a person could read it; a body that names no kind is judged by its bytes."""
    if media_type and media_type != "application/octet-stream":
        return TEXTUAL.match(media_type) is not None
    return b"\0" not in body[:LOOKED_AT_BYTES]


def decoded(body: bytes, charset: str) -> str:
    """The text by its mark, its header, its own word, as UTF-8; what fits none of them is replaced."""
    for mark, name in MARKS:
        if body.startswith(mark):
            return body.decode(name, "replace")
    found = CHARSET.search(body[:LOOKED_AT_BYTES])
    said = charset or (found[1].decode("ascii", "replace") if found else "")
    for name in (said, "utf-8"):
        try:
            return body.decode(name) if name and is_text_codec(name) else body.decode("utf-8")
        except (UnicodeDecodeError, LookupError):
            continue
    return body.decode("cp1252" if not said else "utf-8", "replace")


def is_text_codec(name: str) -> bool:
    """Python's codecs hold some that are no character sets: `zip`, `hex`, `rot13`."""
    return codecs.lookup(name)._is_text_encoding
