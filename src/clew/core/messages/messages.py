"""Messages: the entries of a conversation, each a view of its decoded object.

User, assistant, system and attachment entries are on the chain; progress is only displayed. The
role of a user message (its `face`) is derived from its fields alone. Subtypes of system messages
are a flat list; a subtype outside the list is still a system message.
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

# The subtypes of system messages that clew knows.
SUBTYPES = frozenset(
    {
        "compact_boundary", "local_command", "api_error", "informational", "microcompact_boundary",
        "memory_saved", "stop_hook_summary", "turn_duration", "api_metrics", "permission_retry",
        "bridge_status", "away_summary", "agents_killed", "scheduled_task_fire",
    }
)  # fmt: skip

# The faces of a user message, in order of precedence: tool result, compaction summary, screen only,
# model only, written by a program for the user, typed by the user.
FACES = ("tool_result", "compact_summary", "virtual", "meta", "synthetic", "typed")

STOP_REASONS = {
    reason: reason
    for reason in (
        "end_turn", "tool_use", "max_tokens", "stop_sequence", "pause_turn", "refusal",
        "model_context_window_exceeded",
    )
}  # fmt: skip


class Entry(View):
    """The common fields of all entries: their place in the chain and their origin."""

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
    """An entry with an API `message`; its block views are created once, on first access."""

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
        """The API message, or an empty object if it is missing."""
        value = self.data.get("message")
        return value if isinstance(value, dict) else {}

    @property
    def blocks(self) -> tuple[blocks.Block, ...]:
        if self._blocks is None:
            self._blocks = tuple(blocks.view_blocks(self.message.get("content")))
        return self._blocks

    @property
    def text(self) -> str:
        """The text blocks, joined by newlines."""
        return "\n".join(b.text for b in self.blocks if isinstance(b, blocks.TextBlock))


class UserMessage(Message):
    """Any message with the API's user role; `face` tells its real source and audience."""

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
        """True if the message contains a tool result. For speed, no block views are created."""
        content = self.message.get("content")
        if type(content) is str:
            return False
        blocks = content if type(content) is list else (content,)
        return any(type(b) is dict and b.get("type") == "tool_result" for b in blocks)

    @property
    def face(self) -> str:
        """The message's real source and audience: one of `FACES`, derived from fields alone."""
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
        """True if a program wrote this message in the user's name.

        A field marks such messages. In files that predate the field, they are recognized by their
        fixed wording, unless the entry names its source: a user may type the same words.
        """
        if "isSynthetic" in self.data or "promptSource" in self.data or "origin" in self.data:
            return self.data.get("isSynthetic") is True
        content = self.message.get("content")
        text = content if type(content) is str else self.text
        return text.startswith(SYNTHETIC_TEXTS)

    @property
    def is_news(self) -> bool:
        """True if this message notifies the model of a background task."""
        origin = self.data.get("origin")
        return isinstance(origin, dict) and origin.get("kind") == "task-notification"


class AssistantMessage(Message):
    """One block or all blocks of a model response; all entries of a response share `message_id`."""

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
        """The tool calls that clew must answer, without those that the provider runs."""
        return tuple(b for b in self.blocks if type(b) is blocks.ToolUseBlock)

    @property
    def is_synthetic(self) -> bool:
        return self.model == SYNTHETIC_MODEL

    @property
    def is_synthetic_api_error(self) -> bool:
        """True if this is an API error as shown to the user; never sent to the API."""
        return self.is_synthetic and self.is_api_error_message

    @property
    def is_empty(self) -> bool:
        return all(
            isinstance(b, blocks.TextBlock) and b.text in ("", NO_CONTENT) for b in self.blocks
        )


class SystemMessage(Entry):
    """A message from clew; `subtype` names its kind."""

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
    """Context for the model outside the dialogue; `rendered` is the exact text sent."""

    __slots__ = ()
    tag = "attachment"

    attachment = ObjectField("attachment")
    attachment_type = TextField("type", inside="attachment")
    rendered = ListField("rendered")
    rendered_role = TextField("renderedRole")


class ProgressMessage(Entry):
    """The progress of a running tool; displayed, never part of the conversation."""

    __slots__ = ()
    tag = "progress"

    tool_use_id = TextField("toolUseID")
    parent_tool_use_id = TextField("parentToolUseID")
    progress = AnyField("data")


class UnknownEntry(Entry):
    """An entry of an unknown kind; written back unchanged."""

    __slots__ = ()

    @property
    def type(self) -> str:
        value = self.data.get("type")
        return value if isinstance(value, str) else ""
