"""Entries off the chain: bookkeeping beside the conversation. None has a uuid or is a parent."""

from __future__ import annotations

from clew.core.messages.messages import AssistantMessage, Entry
from clew.core.messages.views import (
    AnyField,
    CountField,
    FlagField,
    ListField,
    NumberField,
    ObjectField,
    TextField,
    View,
)


class QueueOperation(Entry):
    """Words that wait to be heard, or no longer do."""

    __slots__ = ()
    tag = "queue-operation"

    operation = TextField("operation")
    content = AnyField("content")


class LastPrompt(Entry):
    """The latest prompt, and the leaf the conversation stood at; `explicit` marks a rewind, which says
    also which compaction the conversation begins with there."""

    __slots__ = ()
    tag = "last-prompt"

    last_prompt = TextField("lastPrompt")
    leaf_uuid = TextField("leafUuid")
    boundary_uuid = TextField("boundaryUuid")
    explicit = FlagField("explicit")


class CostState(Entry):
    """The session's totals when a process ended; the last one counts."""

    __slots__ = ()
    tag = "cost-state"

    total_cost_usd = NumberField("totalCostUSD")
    model_usage = ObjectField("modelUsage")
    has_unknown_model_cost = FlagField("hasUnknownModelCost")


class FileHistorySnapshot(Entry):
    """Which backup each tracked file had when a prompt was sent."""

    __slots__ = ()
    tag = "file-history-snapshot"

    message_id = TextField("messageId")
    snapshot = ObjectField("snapshot")
    is_snapshot_update = FlagField("isSnapshotUpdate")


class FileHistoryDelta(Entry):
    """One file's backup, taken before an edit."""

    __slots__ = ()
    tag = "file-history-delta"

    message_id = TextField("messageId")
    snapshot_message_id = TextField("snapshotMessageId")
    tracking_path = TextField("trackingPath")
    backup = ObjectField("backup")


class FileChange(Entry):
    """What a call did to files, or a way back did: each path before and after."""

    __slots__ = ()
    tag = "file-change"

    message_id = TextField("messageId")
    tool_use_id = TextField("toolUseId")
    changes = ListField("changes")
    rewind = ObjectField("rewind")


class AttributionSnapshot(Entry):
    """Which lines of which files the agent wrote."""

    __slots__ = ()
    tag = "attribution-snapshot"

    message_id = TextField("messageId")


class ContentReplacement(Entry):
    """Large contents that were replaced by a reference."""

    __slots__ = ()
    tag = "content-replacement"

    replacements = ListField("replacements")


class Mode(Entry):
    """The screen's input mode."""

    __slots__ = ()
    tag = "mode"

    mode = TextField("mode")


class PermissionMode(Entry):
    """The permission mode at this point."""

    __slots__ = ()
    tag = "permission-mode"

    permission_mode = TextField("permissionMode")


class CustomTitle(Entry):
    """The title the person gave; the last one counts."""

    __slots__ = ()
    tag = "custom-title"

    title = TextField("customTitle")


class AiTitle(Entry):
    """A title the model gave."""

    __slots__ = ()
    tag = "ai-title"

    title = TextField("aiTitle")


class Summary(Entry):
    """A title of old files, for the conversation that ends at `leaf_uuid`."""

    __slots__ = ()
    tag = "summary"

    summary = TextField("summary")
    leaf_uuid = TextField("leafUuid")


class Tag(Entry):
    """A label for the session; empty clears it."""

    __slots__ = ()
    tag = "tag"

    label = TextField("tag")


class AgentName(Entry):
    """The name of the agent that speaks here."""

    __slots__ = ()
    tag = "agent-name"


class AgentColor(Entry):
    """The colour the screen gives the agent."""

    __slots__ = ()
    tag = "agent-color"

    color = TextField("agentColor")


class AgentSetting(Entry):
    """The kind of agent the session runs as."""

    __slots__ = ()
    tag = "agent-setting"

    agent_setting = TextField("agentSetting")


class WorktreeState(Entry):
    """The worktree the session works in."""

    __slots__ = ()
    tag = "worktree-state"

    worktree = ObjectField("worktreeSession")


class PrLink(Entry):
    """A pull request that belongs to the session."""

    __slots__ = ()
    tag = "pr-link"

    url = TextField("prUrl")
    number = CountField("prNumber")


class ToolsUsed(Entry):
    """The tools of the session so far."""

    __slots__ = ()
    tag = "tools-used"

    tools = ListField("tools")


class Latch(Entry):
    """Bookkeeping of another program, carried along."""

    __slots__ = ()
    tag = "atis-latch"


class RequestShape(Entry):
    """Another program's request log: system and tools by their hash."""

    __slots__ = ()
    tag = "api-request-shape"

    shape_hash = TextField("shapeHash")


class RequestBlob(Entry):
    """Another program's request log: one message by its hash."""

    __slots__ = ()
    tag = "api-request-blob"

    hash = TextField("hash")


class RequestRecord(Entry):
    """Another program's request log: one request as a difference to an earlier one."""

    __slots__ = ()
    tag = "api-request"

    id = TextField("id")


class ToolStartedRecord(Entry):
    """Write-ahead: this call is about to run. Holds the entries an answer owes the chain so far,
    so that a crash before the answer's end loses neither the call nor what preceded it."""

    __slots__ = ()
    tag = "tool-started"

    tool_use_id = TextField("toolUseId")
    owed = ListField("owed")


class ToolFinishedRecord(Entry):
    """Write-ahead: a call ended before its answer did. Holds the result's entry."""

    __slots__ = ()
    tag = "tool-finished"

    tool_use_id = TextField("toolUseId")
    owed = ListField("owed")


class TaskEnded(Entry):
    """How a command in the background ended, written when it did; the conversation may not know yet."""

    __slots__ = ()
    tag = "task-ended"

    task_id = TextField("taskId")
    tool_use_id = TextField("toolUseId")
    status = TextField("status")
    words = TextField("words")
    exit_code = NumberField("exitCode")


class RequestCost(Entry):
    """What one request cost and how long it took, measured around the request."""

    __slots__ = ()
    tag = "request-cost"

    request_id = TextField("requestId")
    message_id = TextField("messageId")
    model = TextField("model")
    usage = ObjectField("usage")
    cost_usd = NumberField("costUSD")
    duration_ms = NumberField("durationMs")
    duration_without_retries_ms = NumberField("durationWithoutRetriesMs")
    purpose = TextField("purpose")
    # Of requests that keep the prompt cache warm: which one, how it ended, and its cost at most.
    warming_id = TextField("warmingId")
    outcome = TextField("outcome")
    reserved_usd = NumberField("reservedUSD")
    error = TextField("error")


class RequestRepairs(Entry):
    """What the history needed to become a valid request, each with the entry's uuid."""

    __slots__ = ()
    tag = "request-repairs"

    repairs = ListField("repairs")


class ContextEdits(Entry):
    """The ranges a person took out of requests, had summarised or holds fast; the last line says all."""

    __slots__ = ()
    tag = "context-edits"

    edits = ListField("edits")


class PromptHashes(Entry):
    """Which stored system prompt and tool set (sha256 each) the session's requests begin with."""

    __slots__ = ()
    tag = "prompt-hashes"

    system_sha256 = TextField("systemSha256")
    tools_sha256 = TextField("toolsSha256")
    model = TextField("model")
    asked_sha256 = TextField("askedSha256")


class SessionHeader(Entry):
    """The first line of a file of clew's: which version of the format it is written in."""

    __slots__ = ()
    tag = "clew-session"

    format = CountField("format")


# Control events: what happens to messages, as opposed to being one. None stands on the chain.


class Tombstone(Entry):
    """Withdraws an assistant message: the event holds the message, the entry on disk its uuid."""

    __slots__ = ()
    tag = "tombstone"

    message_uuid = TextField("messageUuid")

    @property
    def withdrawn(self) -> AssistantMessage | None:
        value = self.data.get("message")
        return AssistantMessage(value) if isinstance(value, dict) else None


class RawStreamEvent(View):
    """One raw event of the API's stream, as it came."""

    __slots__ = ()
    tag = "stream_event"

    event = ObjectField("event")
    event_type = TextField("type", inside="event")
    uuid = TextField("uuid")
    parent_tool_use_id = TextField("parent_tool_use_id")


class RequestStart(View):
    """A request is about to leave."""

    __slots__ = ()
    tag = "stream_request_start"


class ToolUseSummary(Entry):
    """A few words for several tool calls."""

    __slots__ = ()
    tag = "tool_use_summary"

    summary = TextField("summary")
    tool_use_ids = ListField("toolUseIds")
