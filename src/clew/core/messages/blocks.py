"""Content blocks: what a message is made of.

The Messages API's blocks, the platforms' own (video, guard content, reasoning, cache point) and any
other kind, kept whole as `UnknownBlock`. A new kind is one class and one line of `BLOCKS`.
"""

from __future__ import annotations

from clew.core.messages.views import AnyField, FlagField, ListField, ObjectField, TextField, View

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, ClassVar


class Block(View):
    """One content block. `streams`: the API sends it in deltas; `roles`: who may say it."""

    __slots__ = ()
    streams: ClassVar[bool] = False
    roles: ClassVar[frozenset[str]] = frozenset({"user", "assistant"})

    cache_control = ObjectField("cache_control")


_USER = frozenset({"user"})
_ASSISTANT = frozenset({"assistant"})


class TextBlock(Block):
    """Words, from either side."""

    __slots__ = ()
    tag = "text"
    streams = True

    citations = ListField("citations")

    @property
    def text(self) -> str:
        value = self.data.get("text")
        return value if isinstance(value, str) else ""


class Image(Block):
    """A picture: inline (`base64`), by address (`url`) or by reference (`file`, or a stored blob)."""

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
    """A PDF or text document; its source takes the same forms as an image's."""

    __slots__ = ()
    tag = "document"

    title = TextField("title")
    context = TextField("context")


class ToolUseBlock(Block):
    """A call of a tool: `id` is unique in its session, `input` is an object."""

    __slots__ = ()
    tag = "tool_use"
    streams = True
    roles = _ASSISTANT

    id = TextField("id")
    name = TextField("name")
    input = ObjectField("input")


class ToolResultBlock(Block):
    """What a tool answered, as the model sees it."""

    __slots__ = ()
    tag = "tool_result"
    roles = _USER

    tool_use_id = TextField("tool_use_id")
    content = AnyField("content")
    is_error = FlagField("is_error")

    def blocks(self) -> Iterator[Block]:
        return view_blocks(self.data.get("content"))


class ThinkingBlock(Block):
    """Reasoning under a signature; goes back to its own model byte for byte or not at all."""

    __slots__ = ()
    tag = "thinking"
    streams = True
    roles = _ASSISTANT

    thinking = TextField("thinking")
    signature = TextField("signature")


class RedactedThinking(Block):
    """Reasoning that only its model can read."""

    __slots__ = ()
    tag = "redacted_thinking"
    roles = _ASSISTANT

    encrypted = TextField("data")


class ServerToolUse(ToolUseBlock):
    """A call that the provider runs itself."""

    __slots__ = ()
    tag = "server_tool_use"


class McpToolUse(ToolUseBlock):
    """A call that the provider sends to an MCP server."""

    __slots__ = ()
    tag = "mcp_tool_use"

    server_name = TextField("server_name")


class ServerToolResult(Block):
    """What a provider-run tool answered; it stands in the assistant's message."""

    __slots__ = ()
    roles = _ASSISTANT

    tool_use_id = TextField("tool_use_id")
    content = AnyField("content")


class WebSearchToolResult(ServerToolResult):
    """Hits of the provider's web search."""

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
    """What an MCP server answered to the provider."""

    __slots__ = ()
    tag = "mcp_tool_result"

    is_error = FlagField("is_error")


class ToolReference(Block):
    """Names a tool whose definition the provider loads on demand."""

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
    """A file handed to the provider's sandbox."""

    __slots__ = ()
    tag = "container_upload"
    roles = _USER

    file_id = TextField("file_id")


class CompactionBlock(Block):
    """A summary that the provider made of what went before."""

    __slots__ = ()
    tag = "compaction"
    streams = True
    roles = _ASSISTANT

    content = TextField("content")


class Video(Block):
    """A film, on platforms that take one."""

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
    """A platform's own form of thinking."""

    __slots__ = ()
    tag = "reasoning"
    streams = True
    roles = _ASSISTANT

    reasoning = AnyField("reasoning_text")
    signature = TextField("signature")


class CachePoint(Block):
    """A platform's own form of `cache_control`: cache everything before this block."""

    __slots__ = ()
    tag = "cache_point"

    cache_type = TextField("cache_type")


class UnknownBlock(Block):
    """A block of a kind this version does not know; kept and passed on whole."""

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
    """The view of one element of a content list, whatever it is."""
    if type(value) is not dict:
        return (
            TextBlock({"type": "text", "text": value})
            if type(value) is str
            else UnknownBlock({"value": value})
        )
    tag = value.get("type")
    return BLOCKS.get(tag, UnknownBlock)(value) if type(tag) is str else UnknownBlock(value)


def view_blocks(content: Any) -> Iterator[Block]:
    """The blocks of a `content`, be it a string, a list or something else."""
    if type(content) is list:
        return map(view_block, content)
    return iter(() if content is None else (view_block(content),))
