"""Messages: the entries of a conversation, each a view of its decoded object.

User, assistant, system and attachment stand on the chain; progress is shown and forgotten. What a
user message is for (its `face`) is told by its fields alone. Subtypes of system messages are a flat
list: one that is not in it is a system message all the same.
"""

from __future__ import annotations

from clew.core.messages import blocks
from clew.core.messages.text import NO_CONTENT, SYNTHETIC_MODEL, SYNTHETIC_TEXTS
from clew.core.messages.views import (
    AnyField,
    CountField,
    FlagField,
    ListField,
    NumberField,
    ObjectField,
    TextField,
    Usage,
    View,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The subtypes of system messages that clew knows by name.
SUBTYPES = frozenset(
    {
        "compact_boundary", "local_command", "api_error", "informational", "microcompact_boundary",
        "memory_saved", "stop_hook_summary", "turn_duration", "api_metrics", "permission_retry",
        "bridge_status", "away_summary", "agents_killed", "scheduled_task_fire",
    }
)  # fmt: skip

# What a user message can be, the first that fits: the answer of a tool, the summary a compaction
# left, for the screen only, for the model only, a program in the user's name, a person.
FACES = ("tool_result", "compact_summary", "virtual", "meta", "synthetic", "typed")

STOP_REASONS = {
    reason: reason
    for reason in (
        "end_turn", "tool_use", "max_tokens", "stop_sequence", "pause_turn", "refusal",
        "model_context_window_exceeded",
    )
}  # fmt: skip


class Entry(View):
    """What every entry may carry: its place in the chain and where it was written."""

    __slots__ = ()

    uuid = TextField("uuid")
    parent_uuid = TextField("parentUuid")
    logical_parent_uuid = TextField("logicalParentUuid")
    timestamp = TextField("timestamp")
    session_id = TextField("sessionId")
    is_sidechain = FlagField("isSidechain")
    agent_id = TextField("agentId")
    cwd = TextField("cwd")
    git_branch = TextField("gitBranch")
    version = TextField("version")
    user_type = TextField("userType")
    entrypoint = TextField("entrypoint")
    slug = TextField("slug")
    team_name = TextField("teamName")
    agent_name = TextField("agentName")
    forked_from = ObjectField("forkedFrom")


class Message(Entry):
    """An entry with a `message` of the API inside; its blocks are made once, when asked for."""

    __slots__ = ("_blocks",)

    def __init__(self, data: dict[str, Any]) -> None:
        super().__init__(data)
        self._blocks: tuple[blocks.Block, ...] | None = None

    role = TextField("role", inside="message")
    content = AnyField("content", inside="message")
    is_meta = FlagField("isMeta")
    is_virtual = FlagField("isVirtual")

    @property
    def message(self) -> dict[str, Any]:
        """The API's message; an empty object where there is none."""
        value = self.data.get("message")
        return value if isinstance(value, dict) else {}

    @property
    def blocks(self) -> tuple[blocks.Block, ...]:
        if self._blocks is None:
            self._blocks = tuple(blocks.view_blocks(self.message.get("content")))
        return self._blocks

    @property
    def text(self) -> str:
        """The text blocks, joined by line ends."""
        return "\n".join(b.text for b in self.blocks if isinstance(b, blocks.TextBlock))


class UserMessage(Message):
    """Whatever the API calls a user's message; `face` says who speaks to whom."""

    __slots__ = ()
    tag = "user"

    is_compact_summary = FlagField("isCompactSummary")
    is_visible_in_transcript_only = FlagField("isVisibleInTranscriptOnly")
    tool_use_result = AnyField("toolUseResult")
    source_tool_assistant_uuid = TextField("sourceToolAssistantUUID")
    tool_denial_kind = TextField("toolDenialKind")
    permission_decision = ObjectField("permissionDecision")
    permission_mode = TextField("permissionMode")
    mcp_meta = ObjectField("mcpMeta")
    origin = ObjectField("origin")
    prompt_id = TextField("promptId")
    prompt_source = TextField("promptSource")
    image_paste_ids = ListField("imagePasteIds")
    interrupted_message_id = TextField("interruptedMessageId")

    @property
    def tool_results(self) -> tuple[blocks.ToolResultBlock, ...]:
        return tuple(b for b in self.blocks if isinstance(b, blocks.ToolResultBlock))

    @property
    def _answers(self) -> bool:
        """Whether it has a tool's result, without a view of each block: faces are asked for thousands."""
        content = self.message.get("content")
        blocks = content if type(content) is list else (content,)
        return any(type(b) is dict and b.get("type") == "tool_result" for b in blocks)

    @property
    def face(self) -> str:
        """One of `FACES`, told by fields alone."""
        if self._answers:
            return "tool_result"
        for flag, face in (
            (self.is_compact_summary, "compact_summary"),
            (self.is_virtual, "virtual"),
            (self.is_meta, "meta"),
            (self.is_synthetic or self.is_news, "synthetic"),
        ):
            if flag:
                return face
        return "typed"

    @property
    def is_synthetic(self) -> bool:
        """Whether a program wrote this in the user's name.

        A field says so. Files of before that field are judged by the fixed texts, but never an
        entry that names its source: a person may type those words too.
        """
        if "isSynthetic" in self.data or "promptSource" in self.data or "origin" in self.data:
            return self.data.get("isSynthetic") is True
        return self.text.startswith(SYNTHETIC_TEXTS)

    @property
    def is_news(self) -> bool:
        """Whether this tells the model of work beside the conversation."""
        origin = self.data.get("origin")
        return isinstance(origin, dict) and origin.get("kind") == "task-notification"


class AssistantMessage(Message):
    """A block, or all blocks, of one answer of the model; `message_id` joins those of one answer."""

    __slots__ = ()
    tag = "assistant"

    message_id = TextField("id", inside="message")
    model = TextField("model", inside="message")
    stop_sequence = TextField("stop_sequence", inside="message")
    request_id = TextField("requestId")
    api_error = AnyField("apiError")
    error = AnyField("error")
    error_details = AnyField("errorDetails")
    api_error_status = CountField("apiErrorStatus")
    api_error_type = TextField("apiErrorType")
    is_api_error_message = FlagField("isApiErrorMessage")
    is_aborted_mid_stream = FlagField("isAbortedMidStream")
    advisor_model = TextField("advisorModel")
    cost_usd = NumberField("costUSD")
    duration_ms = NumberField("durationMs")

    @property
    def stop_reason(self) -> str | None:
        value = self.message.get("stop_reason")
        return STOP_REASONS.get(value, value) if isinstance(value, str) else None

    @property
    def usage(self) -> Usage:
        value = self.message.get("usage")
        return Usage(value if isinstance(value, dict) else {})

    @property
    def tool_uses(self) -> tuple[blocks.ToolUseBlock, ...]:
        """The calls clew has to answer; those the provider runs itself are not among them."""
        return tuple(b for b in self.blocks if type(b) is blocks.ToolUseBlock)

    @property
    def is_synthetic(self) -> bool:
        return self.model == SYNTHETIC_MODEL

    @property
    def is_synthetic_api_error(self) -> bool:
        """An API failure put into words for the reader; never sent back to the API."""
        return self.is_synthetic and self.is_api_error_message

    @property
    def is_empty(self) -> bool:
        return all(
            isinstance(b, blocks.TextBlock) and b.text in ("", NO_CONTENT) for b in self.blocks
        )


class SystemMessage(Entry):
    """A note of the program: `subtype` says which."""

    __slots__ = ()
    tag = "system"

    subtype = TextField("subtype")
    content = TextField("content")
    level = TextField("level")
    is_meta = FlagField("isMeta")
    is_display_only = FlagField("isDisplayOnly")
    compact_metadata = ObjectField("compactMetadata")
    error = AnyField("error")
    retry_in_ms = NumberField("retryInMs")
    retry_attempt = CountField("retryAttempt")
    max_retries = CountField("maxRetries")
    duration_ms = NumberField("durationMs")
    message_count = CountField("messageCount")
    tool_use_id = TextField("toolUseID")
    command_run = ObjectField("commandRun")


class Attachment(Entry):
    """Context handed to the model beside the conversation; `rendered` is its frozen wire text."""

    __slots__ = ()
    tag = "attachment"

    attachment = ObjectField("attachment")
    attachment_type = TextField("type", inside="attachment")
    rendered = ListField("rendered")
    rendered_role = TextField("renderedRole")


class ProgressMessage(Entry):
    """How far a running tool is; shown, never part of the conversation."""

    __slots__ = ()
    tag = "progress"

    tool_use_id = TextField("toolUseID")
    parent_tool_use_id = TextField("parentToolUseID")
    progress = AnyField("data")


class UnknownEntry(Entry):
    """An entry of a kind this version does not know; kept and written back whole."""

    __slots__ = ()

    @property
    def type(self) -> str:
        value = self.data.get("type")
        return value if isinstance(value, str) else ""
