"""The Messages API's blocks as documented for requests: their roles, fields and types.

A response's block may have more fields than a request's; the service rejects every extra field.
"""

import binascii
from typing import Any, Literal, TypeAlias

from clew.core.normalize.target import Target
from clew.core.stream.json_pieces import MAX_DEPTH

# Results of server tools can be sent back, so that the model sees what it asked for.

_TOOL_RESULT = ("tool_use_id", "content")

# Fields besides `type` and `cache_control`.
_FIELDS: dict[str, tuple[str, ...]] = {
    "text": ("text", "citations"),
    "image": ("source", "transformations"),
    "document": ("source", "title", "context", "citations"),
    "search_result": ("source", "title", "content", "citations"),
    "container_upload": ("file_id",),
    "tool_result": (*_TOOL_RESULT, "is_error", "toolset_name"),
    "tool_reference": ("tool_name",),
    "thinking": ("thinking", "signature"),
    "redacted_thinking": ("data",),
    "tool_use": ("id", "name", "input", "caller", "toolset_name"),
    "server_tool_use": ("id", "name", "input", "caller"),
    "mcp_tool_use": ("id", "name", "input", "server_name"),
    "web_search_tool_result": (*_TOOL_RESULT, "caller"),
    "web_fetch_tool_result": (*_TOOL_RESULT, "caller"),
    "code_execution_tool_result": _TOOL_RESULT,
    "bash_code_execution_tool_result": _TOOL_RESULT,
    "text_editor_code_execution_tool_result": _TOOL_RESULT,
    "tool_search_tool_result": _TOOL_RESULT,
    "mcp_tool_result": (*_TOOL_RESULT, "is_error"),
    "compaction": ("content", "encrypted_content", "signature", "tool_changes"),
}
FIELDS: dict[str, frozenset[str]] = {
    kind: frozenset({"type", "cache_control", *fields}) for kind, fields in _FIELDS.items()
}
for _kind in ("thinking", "redacted_thinking"):  # they cannot have a cache mark
    FIELDS[_kind] -= {"cache_control"}

# The required fields of each block type, with their types.
REQUIRED: dict[str, tuple[tuple[str, type], ...]] = {
    "text": (("text", str),),
    "image": (("source", dict),),
    "document": (("source", dict),),
    "search_result": (("source", str), ("title", str), ("content", list)),
    "container_upload": (("file_id", str),),
    "tool_result": (("tool_use_id", str),),
    "tool_reference": (("tool_name", str),),
    "thinking": (("thinking", str), ("signature", str)),
    "redacted_thinking": (("data", str),),
    "tool_use": (("id", str), ("name", str), ("input", dict)),
    "server_tool_use": (("id", str), ("name", str), ("input", dict)),
    "mcp_tool_use": (("id", str), ("name", str), ("input", dict), ("server_name", str)),
}
SERVER_USES = frozenset({"server_tool_use", "mcp_tool_use"})
SERVER_RESULTS = frozenset(kind for kind in FIELDS if kind.endswith("_tool_result"))
for _kind in SERVER_RESULTS:
    REQUIRED[_kind] = (("tool_use_id", str),)

THINKING = frozenset({"thinking", "redacted_thinking"})
MEDIA = frozenset({"image", "document"})
USER = frozenset({"text", "image", "document", "search_result", "container_upload", "tool_result"})
IN_RESULT = frozenset({"text", "image", "document", "search_result", "tool_reference"})
# Not allowed in an assistant message. Any other kind passes, including newer ones.
NOT_ASSISTANT = frozenset(
    {"image", "document", "search_result", "container_upload", "tool_result", "tool_reference"}
)
# Blocks of other platforms that this API does not have.
FOREIGN = frozenset({"video", "guard_content", "reasoning", "cache_point"})

IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
# The fields of each source type.
IMAGE_SOURCES: dict[str, tuple[str, ...]] = {
    "base64": ("media_type", "data"),
    "url": ("url",),
    "file": ("file_id",),
}
DOCUMENT_SOURCES: dict[str, tuple[str, ...]] = {
    "base64": ("media_type", "data"),
    "text": ("media_type", "data"),
    "content": ("content",),
    "url": ("url",),
    "file": ("file_id",),
}

CITATIONS: dict[str, frozenset[str]] = {
    kind: frozenset({"type", "cited_text", *fields})
    for kind, fields in {
        "char_location": (
            "document_index", "document_title", "start_char_index", "end_char_index",
        ),
        "page_location": (
            "document_index", "document_title", "start_page_number", "end_page_number",
        ),
        "content_block_location": (
            "document_index", "document_title", "start_block_index", "end_block_index",
        ),
        "web_search_result_location": ("encrypted_index", "title", "url"),
        "search_result_location": (
            "source", "title", "search_result_index", "start_block_index", "end_block_index",
        ),
    }.items()
}  # fmt: skip

MESSAGE_FIELDS = {
    "user": frozenset({"role", "content"}),
    "assistant": frozenset({"role", "content"}),
    "system": frozenset({"role", "content", "clear_at", "output_config"}),
}
TOOL_FIELDS = frozenset(
    {
        "name", "description", "input_schema", "cache_control", "type", "defer_loading", "strict",
        "eager_input_streaming", "input_examples", "allowed_callers",
    }
)  # fmt: skip

# The characters of an ID or tool name, which the service checks.
WORD = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"


def is_word(value: Any, longest: int) -> bool:
    """Return whether `value` consists of the characters allowed in IDs and tool names."""
    return type(value) is str and 0 < len(value) <= longest and not value.strip(WORD)


def is_too_deep(value: Any, allowed: int = MAX_DEPTH) -> bool:
    """Return whether a decoded value is nested too deeply for recursive parsers."""
    if type(value) is dict:
        value = value.values()
    elif type(value) is not list:
        return False
    if not allowed:
        return True
    return any(is_too_deep(v, allowed - 1) for v in value if type(v) is dict or type(v) is list)


# Images and documents: why the service would reject one, and the size of an image.


Size: TypeAlias = tuple[int, int]
UNKNOWN_SIZE: Size = (0, 0)
MISNAMED = "has a media type that does not match its content"


def find_media_fault(block: dict[str, Any], kind: str, target: Target) -> tuple[str, Size]:
    """Return why the service would reject this image or document, and an image's size in pixels.

    The reason is empty for valid media. The size is `UNKNOWN_SIZE` if the block does not contain
    the data.
    """
    source = block.get("source")
    sources = IMAGE_SOURCES if kind == "image" else DOCUMENT_SOURCES
    source_kind = source.get("type") if type(source) is dict else None
    fields = sources.get(source_kind) if type(source_kind) is str else None
    if type(source) is not dict or fields is None or source_kind not in target.sources:
        return "has an unsupported source", UNKNOWN_SIZE
    if source.keys() != {"type", *fields}:
        return "has a source with missing or unknown fields", UNKNOWN_SIZE
    if source_kind == "content":
        is_said = type(source["content"]) in (str, list) and source["content"]
        return "" if is_said else "has an incomplete source", UNKNOWN_SIZE
    if any(type(source[name]) is not str or not source[name] for name in fields):
        return "has an incomplete source", UNKNOWN_SIZE
    if source_kind != "base64":
        return "", UNKNOWN_SIZE
    if kind == "image":
        return _image_fault(source["media_type"], source["data"], target)
    return _document_fault(source["media_type"], source["data"], target), UNKNOWN_SIZE


def _document_fault(media_type: str, data: str, target: Target) -> str:
    if media_type != "application/pdf":
        return "has an unsupported document type"
    if len(data) > target.max_document_bytes:
        return "is larger than the limit for documents"
    return "" if _decoded(data).startswith(b"%PDF") else "is not a valid PDF"


def _image_fault(media_type: str, data: str, target: Target) -> tuple[str, Size]:
    if media_type not in IMAGE_TYPES:
        return "has an unsupported image type", UNKNOWN_SIZE
    if len(data) > target.max_image_bytes:
        return "is larger than the limit for images", UNKNOWN_SIZE
    picture = _decoded(data)
    size = read_picture_size(picture)
    if not min(size):
        return "is not a valid image", UNKNOWN_SIZE
    if detect_picture_type(picture) != media_type:
        return MISNAMED, size
    return ("is wider or taller than allowed" if max(size) > target.max_image_px else ""), size


def _decoded(data: str) -> bytes:
    """Decode base64 text; return empty bytes if it is invalid."""
    try:
        return binascii.a2b_base64(data, strict_mode=True)
    except ValueError:
        return b""


def detect_picture_type(data: bytes) -> str:
    """Return the media type that an image's first bytes show, or an empty string if unsupported."""
    if data[:8] == b"\x89PNG\r\n\x1a\n":
        return "image/png"
    if data[:6] in (b"GIF87a", b"GIF89a"):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return "image/jpeg" if data[:3] == b"\xff\xd8\xff" else ""


def with_true_type(block: dict[str, Any]) -> dict[str, Any]:
    """Return an image block with the media type corrected to match its data."""
    source = block["source"]
    return block | {
        "source": source | {"media_type": detect_picture_type(_decoded(source["data"]))}
    }


def read_picture_size(data: bytes) -> Size:
    """Return the width and height in pixels of a PNG, GIF, WebP or JPEG, or `UNKNOWN_SIZE`."""
    kind = detect_picture_type(data)
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
    """Return the size of a JPEG, skipping segments such as the color profile and tables."""
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            down, across = _pair(data, at + 5, 2, "big")
            return across, down
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return UNKNOWN_SIZE
