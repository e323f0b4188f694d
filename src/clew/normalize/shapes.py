"""The Messages API's blocks as it documents them for requests: who may say them, which fields they have.

A response's block may have more fields than a request's; the service refuses each extra one.
"""

from typing import Any

# What a call may bring can go back: else the model would never see what it asked for.
from clew.stream.objects import MAX_DEPTH

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
