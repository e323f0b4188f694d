"""Convert a server's content to blocks for the model, checked and limited in size.

Owns the conversion from MCP content to the API's blocks. Content that the API would reject (an
unsupported image format, invalid base64) is replaced by a line of text that describes it.
"""

import binascii
from base64 import b64decode
from typing import Any

import msgspec
from msgspec import Struct

from clew.core.json_object import Json
from clew.core.messages.factories import make_text
from clew.core.messages.text import format_count

# The API's limit for one image.
MAX_IMAGE_BYTES = 5 << 20
MAX_BLOCKS = 200


class ServerReply(Struct, frozen=True, kw_only=True):
    """The result of a tool call as blocks for the model; `structured` is its data."""

    blocks: list[Json]
    is_error: bool = False
    structured: Json | None = None

    @property
    def words(self) -> str:
        return "\n".join(b["text"] for b in self.blocks if b["type"] == "text")


def reply_of(result: Any) -> ServerReply:
    """Convert the result of a tool call, which may be malformed."""
    if not isinstance(result, dict):
        return ServerReply(
            blocks=[make_text("The server's response is not an object.")], is_error=True
        )
    content = result.get("content")
    structured = result.get("structuredContent")
    blocks = blocks_of(content if isinstance(content, list) else [])
    if not isinstance(structured, dict):
        structured = None
    elif not blocks:
        blocks = [make_text(as_json(structured))]
    if content is not None and not isinstance(content, list):
        blocks.append(make_text("The server's content is not a list."))
    return ServerReply(blocks=blocks, is_error=result.get("isError") is True, structured=structured)


def blocks_of(content: list[Any]) -> list[Json]:
    blocks = [block_of(part) for part in content[:MAX_BLOCKS]]
    if len(content) > MAX_BLOCKS:
        blocks.append(
            make_text(f"[{format_count(len(content) - MAX_BLOCKS, 'more part')} omitted]")
        )
    return [block for block in blocks if block.get("text") != ""]


def block_of(part: Any) -> Json:
    if not isinstance(part, dict):
        return make_text(f"[an invalid part: expected an object, got {type(part).__name__}]")
    match part.get("type"):
        case "text":
            return make_text(said(part.get("text")))
        case "image":
            return image(part.get("data"), part.get("mimeType"))
        case "audio":
            return make_text(f"[audio, {said(part.get('mimeType'))}; not supported]")
        case "resource":
            return resource(part.get("resource"))
        case "resource_link":
            return link(part)
        case kind:
            return make_text(f"[a part of unknown type {said(kind)!r:.60}]")


def image(data: Any, kind: Any) -> Json:
    """Return an image block, or text if the image is invalid, unsupported or too large.

    The API would reject the entire request because of such an image.
    """
    raw = decoded(data)
    if raw is None:
        return make_text("[an image with invalid data]")
    media_type = kind_by_bytes(raw)
    if media_type is None:
        return make_text(f"[an image of unsupported type {said(kind)!r:.60}]")
    if len(raw) > MAX_IMAGE_BYTES:
        return make_text(f"[an image of {len(raw)} bytes; too large]")
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


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


def resource(value: Any) -> Json:
    """Return a block with the resource's text or image, or else a description of the resource."""
    if not isinstance(value, dict):
        return make_text("[an invalid resource: expected an object]")
    uri, kind = said(value.get("uri")), said(value.get("mimeType"))
    if isinstance(value.get("text"), str):
        return make_text(f"[resource {uri}]\n{value['text']}" if uri else value["text"])
    raw = decoded(value.get("blob"))
    if raw is not None and kind_by_bytes(raw) is not None:
        return image(value["blob"], kind)
    size = "unreadable" if raw is None else format_count(len(raw), "byte")
    return make_text(f"[resource {uri}: {kind or 'binary'}, {size}]")


def link(part: Json) -> Json:
    name, uri = said(part.get("name")), said(part.get("uri"))
    about = said(part.get("description"))
    return make_text(f"[resource {name} at {uri}{': ' + about if about else ''}]")


def said(value: Any) -> str:
    return value if isinstance(value, str) else ""


def as_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
