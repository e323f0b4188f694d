"""Images and documents: what the service would refuse in one, and how large an image is."""

import binascii
from typing import Any, Literal, TypeAlias

from clew.normalize import shapes
from clew.normalize.target import Target

Size: TypeAlias = tuple[int, int]
UNKNOWN_SIZE: Size = (0, 0)
MISNAMED = "is an image of another type than it says"


def media_fault(block: dict[str, Any], kind: str, target: Target) -> tuple[str, Size]:
    """Why the service would refuse this image or document by itself, empty if it would not; and
    the image's size in pixels where it can be seen."""
    source = block.get("source")
    sources = shapes.IMAGE_SOURCES if kind == "image" else shapes.DOCUMENT_SOURCES
    held = source.get("type") if type(source) is dict else None
    fields = sources.get(held) if type(held) is str else None
    if type(source) is not dict or fields is None or held not in target.sources:
        return "has a source of a form the service does not take", UNKNOWN_SIZE
    if source.keys() != {"type", *fields}:
        return "has a source of a form the service does not take", UNKNOWN_SIZE
    if held == "content":
        is_said = type(source["content"]) in (str, list) and source["content"]
        return "" if is_said else "has a source with something missing", UNKNOWN_SIZE
    if any(type(source[name]) is not str or not source[name] for name in fields):
        return "has a source with something missing", UNKNOWN_SIZE
    if held != "base64":
        return "", UNKNOWN_SIZE
    if kind == "image":
        return _image_fault(source["media_type"], source["data"], target)
    return _document_fault(source["media_type"], source["data"], target), UNKNOWN_SIZE


def _document_fault(media_type: str, data: str, target: Target) -> str:
    if media_type != "application/pdf":
        return "is a document of a type the service does not take"
    if len(data) > target.max_document_bytes:
        return "is too large a document"
    return "" if _decoded(data).startswith(b"%PDF") else "is not the document it says it is"


def _image_fault(media_type: str, data: str, target: Target) -> tuple[str, Size]:
    if media_type not in shapes.IMAGE_TYPES:
        return "is an image of a type the service does not take", UNKNOWN_SIZE
    if len(data) > target.max_image_bytes:
        return "is too large an image", UNKNOWN_SIZE
    picture = _decoded(data)
    size = picture_size(picture)
    if not min(size):
        return "is not an image", UNKNOWN_SIZE
    if picture_type(picture) != media_type:
        return MISNAMED, size
    return ("has too many pixels" if max(size) > target.max_image_px else ""), size


def _decoded(data: str) -> bytes:
    """The bytes behind base64 text; none if one character of it is wrong."""
    try:
        return binascii.a2b_base64(data, strict_mode=True)
    except ValueError:
        return b""


def picture_type(data: bytes) -> str:
    """The media type that the first bytes of a picture show; empty if it is none of the four."""
    if data[:8] == b"\x89PNG\r\n\x1a\n":
        return "image/png"
    if data[:6] in (b"GIF87a", b"GIF89a"):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return "image/jpeg" if data[:3] == b"\xff\xd8\xff" else ""


def with_true_type(block: dict[str, Any]) -> dict[str, Any]:
    """An image whose source says another type than its bytes show, with the type put right."""
    source = block["source"]
    return block | {"source": source | {"media_type": picture_type(_decoded(source["data"]))}}


def picture_size(data: bytes) -> Size:
    """Width and height in pixels of a PNG, GIF, WebP or JPEG; `UNKNOWN_SIZE` if it is none."""
    kind = picture_type(data)
    if kind == "image/png" and len(data) >= 24:
        return _pair(data, 16, 4, "big")
    if kind == "image/gif" and len(data) >= 10:
        return _pair(data, 6, 2, "little")
    if kind == "image/webp" and len(data) >= 30:
        return _webp(data)
    return _jpeg(data) if kind == "image/jpeg" else UNKNOWN_SIZE


def _pair(data: bytes, start: int, width: int, order: Literal["big", "little"]) -> Size:
    middle = start + width
    first = int.from_bytes(data[start:middle], order)
    return first, int.from_bytes(data[middle : middle + width], order)


def _webp(data: bytes) -> Size:
    form = data[12:16]
    if form == b"VP8X":
        across = int.from_bytes(data[24:27], "little")
        return across + 1, int.from_bytes(data[27:30], "little") + 1
    if form == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if form == b"VP8 ":
        across, down = _pair(data, 26, 2, "little")
        return across & 0x3FFF, down & 0x3FFF
    return UNKNOWN_SIZE


def _jpeg(data: bytes) -> Size:
    """Walks the segments before the one that holds the size: a profile, a thumbnail, tables."""
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            down, across = _pair(data, at + 5, 2, "big")
            return across, down
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return UNKNOWN_SIZE
