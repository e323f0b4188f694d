"""The Messages API's blocks as it documents them for requests: who may say them, which fields they have.

A response's block may have more fields than a request's; the service refuses each extra one.
"""

import binascii
from typing import Any, Literal, TypeAlias

from clew.core.normalize.target import Target
from clew.core.stream.json_pieces import MAX_DEPTH

# What a call may bring can go back: else the model would never see what it asked for.

_TOOL_RESULT = ("tool_use_id", "content")

# Fields beside `type` and `cache_control`.
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
for _kind in ("thinking", "redacted_thinking"):  # a cache mark cannot stand on them
    FIELDS[_kind] -= {"cache_control"}

# What each must have, and of which type.
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
# Of an assistant's message these are known; kinds a newer service invented pass too.
NOT_ASSISTANT = frozenset(
    {"image", "document", "search_result", "container_upload", "tool_result", "tool_reference"}
)
# Blocks of other platforms, which this API has no name for.
FOREIGN = frozenset({"video", "guard_content", "reasoning", "cache_point"})

IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
# Fields of each kind of source.
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

# An id or a name goes into a URL-safe word; the service checks both.
WORD = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"


def is_word(value: Any, longest: int) -> bool:
    """Whether `value` is of the letters, digits, `_` and `-` that ids and tool names are made of."""
    return type(value) is str and 0 < len(value) <= longest and not value.strip(WORD)


def is_too_deep(value: Any, allowed: int = MAX_DEPTH) -> bool:
    """Whether a decoded value nests deeper than a recursive reader should be trusted with."""
    if type(value) is dict:
        value = value.values()
    elif type(value) is not list:
        return False
    if not allowed:
        return True
    return any(is_too_deep(v, allowed - 1) for v in value if type(v) is dict or type(v) is list)


# Images and documents: what the service would refuse in one, and how large an image is.


Size: TypeAlias = tuple[int, int]
UNKNOWN_SIZE: Size = (0, 0)
MISNAMED = "is an image of another type than it says"


def find_media_fault(block: dict[str, Any], kind: str, target: Target) -> tuple[str, Size]:
    """Why the service would refuse this image or document by itself, empty if it would not; and
    the image's size in pixels where it can be seen."""
    source = block.get("source")
    sources = IMAGE_SOURCES if kind == "image" else DOCUMENT_SOURCES
    source_kind = source.get("type") if type(source) is dict else None
    fields = sources.get(source_kind) if type(source_kind) is str else None
    if type(source) is not dict or fields is None or source_kind not in target.sources:
        return "has a source of a form the service does not take", UNKNOWN_SIZE
    if source.keys() != {"type", *fields}:
        return "has a source of a form the service does not take", UNKNOWN_SIZE
    if source_kind == "content":
        is_said = type(source["content"]) in (str, list) and source["content"]
        return "" if is_said else "has a source with something missing", UNKNOWN_SIZE
    if any(type(source[name]) is not str or not source[name] for name in fields):
        return "has a source with something missing", UNKNOWN_SIZE
    if source_kind != "base64":
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
    if media_type not in IMAGE_TYPES:
        return "is an image of a type the service does not take", UNKNOWN_SIZE
    if len(data) > target.max_image_bytes:
        return "is too large an image", UNKNOWN_SIZE
    picture = _decoded(data)
    size = read_picture_size(picture)
    if not min(size):
        return "is not an image", UNKNOWN_SIZE
    if detect_picture_type(picture) != media_type:
        return MISNAMED, size
    return ("has too many pixels" if max(size) > target.max_image_px else ""), size


def _decoded(data: str) -> bytes:
    """The bytes behind base64 text; none if one character of it is wrong."""
    try:
        return binascii.a2b_base64(data, strict_mode=True)
    except ValueError:
        return b""


def detect_picture_type(data: bytes) -> str:
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
    return block | {
        "source": source | {"media_type": detect_picture_type(_decoded(source["data"]))}
    }


def read_picture_size(data: bytes) -> Size:
    """Width and height in pixels of a PNG, GIF, WebP or JPEG; `UNKNOWN_SIZE` if it is none."""
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
    """Walks the segments before the one that holds the size: a profile, a thumbnail, tables."""
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            down, across = _pair(data, at + 5, 2, "big")
            return across, down
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return UNKNOWN_SIZE
