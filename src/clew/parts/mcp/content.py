"""What a server gives back, as blocks for the model: bounded, and never trusted to be what it says.

Owns the way from the content of MCP to the service's blocks. What the service would refuse (an image
of another kind, bytes that are no base64) becomes a line of text that says what was there.
"""

import binascii
from base64 import b64decode
from typing import Any

import msgspec
from msgspec import Struct

from clew.core.json_object import Json
from clew.core.messages.factories import text

# The service's own limit for the bytes of one image.
MAX_IMAGE_BYTES = 5 << 20
MAX_BLOCKS = 200


class ServerReply(Struct, frozen=True, kw_only=True):
    """A result as blocks; `structured` is for programs."""

    blocks: list[Json]
    is_error: bool = False
    structured: Json | None = None

    @property
    def words(self) -> str:
        return "\n".join(b["text"] for b in self.blocks if b["type"] == "text")


def reply_of(result: Any) -> ServerReply:
    """The result of a tool call, whatever it is."""
    if not isinstance(result, dict):
        return ServerReply(blocks=[text("The server's answer is no object.")], is_error=True)
    content = result.get("content")
    structured = result.get("structuredContent")
    blocks = blocks_of(content if isinstance(content, list) else [])
    if not isinstance(structured, dict):
        structured = None
    elif not blocks:
        blocks = [text(as_json(structured))]
    if content is not None and not isinstance(content, list):
        blocks.append(text("The server's content is no list."))
    return ServerReply(blocks=blocks, is_error=result.get("isError") is True, structured=structured)


def blocks_of(content: list[Any]) -> list[Json]:
    blocks = [block_of(part) for part in content[:MAX_BLOCKS]]
    if len(content) > MAX_BLOCKS:
        blocks.append(text(f"[{len(content) - MAX_BLOCKS} further parts were left out]"))
    return [block for block in blocks if block.get("text") != ""]


def block_of(part: Any) -> Json:
    if not isinstance(part, dict):
        return text(f"[a part that is no object: {type(part).__name__}]")
    match part.get("type"):
        case "text":
            return text(said(part.get("text")))
        case "image":
            return image(part.get("data"), part.get("mimeType"))
        case "audio":
            return text(f"[audio, {said(part.get('mimeType'))}, which cannot be heard here]")
        case "resource":
            return resource(part.get("resource"))
        case "resource_link":
            return link(part)
        case kind:
            return text(f"[a part of the kind {said(kind)!r:.60}, which clew does not know]")


def image(data: Any, kind: Any) -> Json:
    """An image, if it is one by its own bytes: the service refuses a request whose image is none."""
    raw = decoded(data)
    if raw is None:
        return text("[an image whose data cannot be read]")
    found = kind_by_bytes(raw)
    if found is None:
        return text(f"[an image of the kind {said(kind)!r:.60}, which cannot be shown]")
    if len(raw) > MAX_IMAGE_BYTES:
        return text(f"[an image of {len(raw)} bytes, which is too large to be shown]")
    return {"type": "image", "source": {"type": "base64", "media_type": found, "data": data}}


def decoded(data: Any) -> bytes | None:
    if not isinstance(data, str):
        return None
    try:
        return b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None


def kind_by_bytes(raw: bytes) -> str | None:
    if raw.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if raw.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if raw.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if raw.startswith(b"RIFF") and raw[8:12] == b"WEBP":
        return "image/webp"
    return None


def resource(given: Any) -> Json:
    """What a resource holds: its text, its image, or what it would be."""
    if not isinstance(given, dict):
        return text("[a resource that is no object]")
    uri, kind = said(given.get("uri")), said(given.get("mimeType"))
    if isinstance(given.get("text"), str):
        return text(f"[resource {uri}]\n{given['text']}" if uri else given["text"])
    raw = decoded(given.get("blob"))
    if raw is not None and kind_by_bytes(raw) is not None:
        return image(given["blob"], kind)
    size = "unreadable" if raw is None else f"{len(raw)} bytes"
    return text(f"[resource {uri}: {kind or 'binary'}, {size}]")


def link(part: Json) -> Json:
    name, uri = said(part.get("name")), said(part.get("uri"))
    about = said(part.get("description"))
    return text(f"[resource {name} at {uri}{': ' + about if about else ''}]")


def said(value: Any) -> str:
    return value if isinstance(value, str) else ""


def as_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
