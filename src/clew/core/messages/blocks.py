"""Content blocks, the parts of a message.

Covers the Messages API's blocks and those of other platforms (video, guard content, reasoning,
cache point). Any other kind is preserved as an `UnknownBlock`. A new kind needs one class and one
line in `BLOCKS`.
"""

from __future__ import annotations

from clew.core.messages.views import AnyField, FlagField, ListField, ObjectField, TextField, View

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, ClassVar


class Block(View):
    """One content block.

    `streams` says whether the API sends the block in deltas; `roles` lists the roles of messages
    that may contain it.
    """

    __slots__ = ()
    streams: ClassVar[bool] = False
    roles: ClassVar[frozenset[str]] = frozenset({"user", "assistant"})

    cache_control = ObjectField("cache_control")


_USER = frozenset({"user"})
_ASSISTANT = frozenset({"assistant"})


class TextBlock(Block):
    """Text from either role."""

    __slots__ = ()
    tag = "text"
    streams = True

    citations = ListField("citations")

    @property
    def text(self) -> str:
        value = self.data.get("text")
        return value if isinstance(value, str) else ""


class Image(Block):
    """An image: inline (`base64`), by URL (`url`) or by reference (`file` or a stored blob)."""

    __slots__ = ()
    tag = "image"
    roles = _USER

    source = ObjectField("source")
    source_type = TextField("type", inside="source")
    media_type = TextField("media_type", inside="source")
    base64 = TextField("data", inside="source")
    url = TextField("url", inside="source")
    file_id = TextField("file_id", inside="source")
    path = TextField("path", inside="source")


class DocumentBlock(Image):
    """A PDF or text document; its source has the same forms as an image's."""

    __slots__ = ()
    tag = "document"

    title = TextField("title")
    context = TextField("context")


class ToolUseBlock(Block):
    """A tool call. `id` is unique in its session and `input` is an object."""

    __slots__ = ()
    tag = "tool_use"
    streams = True
    roles = _ASSISTANT

    id = TextField("id")
    name = TextField("name")
    input = ObjectField("input")


class ToolResultBlock(Block):
    """A tool result as the model sees it."""

    __slots__ = ()
    tag = "tool_result"
    roles = _USER

    tool_use_id = TextField("tool_use_id")
    content = AnyField("content")
    is_error = FlagField("is_error")

    def blocks(self) -> Iterator[Block]:
        return view_blocks(self.data.get("content"))


class ThinkingBlock(Block):
    """Signed reasoning; returned to the same model byte for byte or not at all."""

    __slots__ = ()
    tag = "thinking"
    streams = True
    roles = _ASSISTANT

    thinking = TextField("thinking")
    signature = TextField("signature")


class RedactedThinking(Block):
    """Encrypted reasoning that only the model that produced it can read."""

    __slots__ = ()
    tag = "redacted_thinking"
    roles = _ASSISTANT

    encrypted = TextField("data")


class ServerToolUse(ToolUseBlock):
    """A tool call that the provider runs."""

    __slots__ = ()
    tag = "server_tool_use"


class McpToolUse(ToolUseBlock):
    """A tool call that the provider sends to an MCP server."""

    __slots__ = ()
    tag = "mcp_tool_use"

    server_name = TextField("server_name")


class ServerToolResult(Block):
    """The result of a tool run by the provider, part of the assistant message."""

    __slots__ = ()
    roles = _ASSISTANT

    tool_use_id = TextField("tool_use_id")
    content = AnyField("content")


class WebSearchToolResult(ServerToolResult):
    """Results of the provider's web search."""

    __slots__ = ()
    tag = "web_search_tool_result"


class WebFetchToolResult(ServerToolResult):
    """A page fetched by the provider."""

    __slots__ = ()
    tag = "web_fetch_tool_result"


class CodeExecutionToolResult(ServerToolResult):
    """Output of the provider's sandbox."""

    __slots__ = ()
    tag = "code_execution_tool_result"


class BashCodeExecutionToolResult(ServerToolResult):
    """Output of a command in the provider's sandbox."""

    __slots__ = ()
    tag = "bash_code_execution_tool_result"


class TextEditorCodeExecutionToolResult(ServerToolResult):
    """A file edit in the provider's sandbox."""

    __slots__ = ()
    tag = "text_editor_code_execution_tool_result"


class ToolSearchToolResult(ServerToolResult):
    """Tools found by the provider's tool search."""

    __slots__ = ()
    tag = "tool_search_tool_result"


class McpToolResult(ServerToolResult):
    """The result of an MCP tool called by the provider."""

    __slots__ = ()
    tag = "mcp_tool_result"

    is_error = FlagField("is_error")


class ToolReference(Block):
    """A reference to a tool whose definition the provider loads on demand."""

    __slots__ = ()
    tag = "tool_reference"

    tool_name = TextField("tool_name")


class SearchResult(Block):
    """A passage offered for citation."""

    __slots__ = ()
    tag = "search_result"
    roles = _USER

    source = TextField("source")
    title = TextField("title")
    content = ListField("content")


class ContainerUpload(Block):
    """A file uploaded to the provider's sandbox."""

    __slots__ = ()
    tag = "container_upload"
    roles = _USER

    file_id = TextField("file_id")


class CompactionBlock(Block):
    """The provider's summary of the preceding conversation."""

    __slots__ = ()
    tag = "compaction"
    streams = True
    roles = _ASSISTANT

    content = TextField("content")


class Video(Block):
    """A video, on platforms that accept it."""

    __slots__ = ()
    tag = "video"
    roles = _USER

    source = ObjectField("source")


class GuardContent(Block):
    """Text marked for a platform's guardrail."""

    __slots__ = ()
    tag = "guard_content"
    roles = _USER

    guarded = AnyField("text")


class Reasoning(Block):
    """Another platform's form of thinking."""

    __slots__ = ()
    tag = "reasoning"
    streams = True
    roles = _ASSISTANT

    reasoning = AnyField("reasoning_text")
    signature = TextField("signature")


class CachePoint(Block):
    """Another platform's form of `cache_control`: cache everything before this block."""

    __slots__ = ()
    tag = "cache_point"

    cache_type = TextField("cache_type")


class UnknownBlock(Block):
    """A block of an unknown kind; preserved unchanged."""

    __slots__ = ()

    @property
    def type(self) -> str:
        value = self.data.get("type")
        return value if isinstance(value, str) else ""


BLOCKS: dict[str, type[Block]] = {
    block.tag: block
    for block in (
        TextBlock, Image, DocumentBlock, ToolUseBlock, ToolResultBlock, ThinkingBlock, RedactedThinking,
        ServerToolUse, McpToolUse, WebSearchToolResult, WebFetchToolResult,
        CodeExecutionToolResult, BashCodeExecutionToolResult,
        TextEditorCodeExecutionToolResult, ToolSearchToolResult, McpToolResult,
        ToolReference, SearchResult, ContainerUpload, CompactionBlock,
        Video, GuardContent, Reasoning, CachePoint,
    )
}  # fmt: skip


def view_block(value: Any) -> Block:
    """Return the view of one element of a content list; never raises."""
    if type(value) is not dict:
        return (
            TextBlock({"type": "text", "text": value})
            if type(value) is str
            else UnknownBlock({"value": value})
        )
    tag = value.get("type")
    return BLOCKS.get(tag, UnknownBlock)(value) if type(tag) is str else UnknownBlock(value)


def view_blocks(content: Any) -> Iterator[Block]:
    """Return the blocks of a `content` value: a string, a list or anything else."""
    if type(content) is list:
        return map(view_block, content)
    return iter(() if content is None else (view_block(content),))
