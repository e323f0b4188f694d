"""The table of all entry and event kinds with their views and properties.

A kind that is missing here is an `UnknownEntry`: preserved, off the chain and never displayed.
Tests check that the table is complete. `docs/internals/messages.md` is generated from it.
"""

from __future__ import annotations

import re

from clew.core.messages import blocks, messages, records
from clew.core.messages import records as events
from clew.core.messages.messages import AssistantMessage, Message
from clew.core.messages.views import complete_usage
from clew.core.regex import lazy_pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from clew.core.messages.views import View


# Where a kind is stored.
CHAIN = "chain"  # in the transcript, linked by parentUuid
BESIDE = "beside"  # in the transcript but off the chain: no uuid, never a parent
LIVE = "live"  # only in memory while clew runs


class Kind:
    """An entry or event kind: its view, storage, source and readers, and whether clew writes it."""

    __slots__ = ("comes_from", "goes_to", "place", "view", "written")

    def __init__(
        self, view: type[View], place: str, *, written: bool, comes_from: str, goes_to: str
    ) -> None:
        self.view = view
        self.place = place
        self.written = written
        self.comes_from = comes_from
        self.goes_to = goes_to


def _ours(view: type[View], place: str, comes_from: str, goes_to: str) -> Kind:
    return Kind(view, place, written=True, comes_from=comes_from, goes_to=goes_to)


def _read(view: type[View], comes_from: str, goes_to: str) -> Kind:
    return Kind(view, BESIDE, written=False, comes_from=comes_from, goes_to=goes_to)


_KINDS = (
    _ours(messages.UserMessage, CHAIN, "the user, a tool, or clew on the user's behalf", "the model; the screen, unless meta"),
    _ours(messages.AssistantMessage, CHAIN, "the model, one entry per block; clew for an API error", "the model, except API errors; the screen"),
    _ours(messages.SystemMessage, CHAIN, "clew", "the screen; for local commands also the model"),
    _ours(messages.Attachment, CHAIN, "clew: context outside the dialogue", "the model, rendered as text"),
    Kind(messages.ProgressMessage, LIVE, written=False, comes_from="a running tool; old transcripts", goes_to="the screen; in old chains, the link to its parent"),
    _ours(events.Tombstone, BESIDE, "a fallback to another model", "the screen and the loader, which remove the message"),
    Kind(events.RawStreamEvent, LIVE, written=False, comes_from="the API's stream", goes_to="hosts that request partial messages"),
    Kind(events.RequestStart, LIVE, written=False, comes_from="the loop", goes_to="the screen"),
    Kind(events.ToolUseSummary, LIVE, written=False, comes_from="a side request", goes_to="the screen"),
    _ours(records.QueueOperation, BESIDE, "a message to or from a subagent; other programs: their prompt queue", "its recipient, if a crash prevented delivery"),
    _ours(records.LastPrompt, BESIDE, "the end of a turn; a rewind", "resume: the leaf; the picker's title"),
    _ours(records.CostState, BESIDE, "the end of a clew process", "resume: totals; other tools' cost displays"),
    _ours(records.FileHistorySnapshot, BESIDE, "the first file change after a prompt", "other tools' rewind"),
    _ours(records.FileHistoryDelta, BESIDE, "each further file that a turn changes", "other tools' rewind"),
    _ours(records.FileChange, BESIDE, "a tool call that changed files; a rewind", "rewind and redo"),
    _ours(records.AttributionSnapshot, BESIDE, "a tool call that changed files; a commit", "resume; `clew sessions why`; the attribution of commits"),
    _ours(records.ContentReplacement, BESIDE, "a tool result that was shortened or removed", "resume; other tools"),
    _ours(records.Mode, BESIDE, "programs that record with `Recorder`", "kept"),
    _ours(records.PermissionMode, BESIDE, "a change of the permission mode", "the screen on resume"),
    _ours(records.CustomTitle, BESIDE, "a rename", "the picker"),
    _ours(records.AiTitle, BESIDE, "a side request", "the picker"),
    _read(records.Summary, "old transcripts", "the picker"),
    _ours(records.Tag, BESIDE, "the user or a host", "the picker"),
    _ours(records.AgentName, BESIDE, "a named session or teammate", "the screen"),
    _ours(records.AgentColor, BESIDE, "the host that chose it", "the prompt on the screen"),
    _ours(records.AgentSetting, BESIDE, "a session run as an agent", "resume"),
    _ours(records.WorktreeState, BESIDE, "a session in a worktree", "resume"),
    _ours(records.PrLink, BESIDE, "a call that created a pull request", "--from-pr"),
    _read(records.ToolsUsed, "other programs", "kept"),
    _read(records.Latch, "other programs", "kept"),
    _read(records.RequestShape, "other programs", "kept"),
    _read(records.RequestBlob, "other programs", "kept"),
    _read(records.RequestRecord, "other programs", "kept"),
    _ours(records.ToolStartedRecord, BESIDE, "a tool call about to run", "the loader after a crash"),
    _ours(records.ToolFinishedRecord, BESIDE, "a tool call that ended before the response did", "the loader after a crash"),
    _ours(records.TaskEnded, BESIDE, "the end of a background command", "resume: commands whose end was not reported"),
    _ours(records.RequestCost, BESIDE, "the end of a request", "the session's cost"),
    _ours(records.RequestRepairs, BESIDE, "a history that needed repairs for a request", "tools that show what was changed"),
    _ours(records.ContextEdits, BESIDE, "/context exclude, pin, summarize, restore", "the request builder"),
    _ours(records.PromptHashes, BESIDE, "the first request; changed system prompt or tools", "resume: the same system prompt and tools"),
    _ours(records.SessionHeader, BESIDE, "the first message of a session", "programs that read transcripts"),
)  # fmt: skip

KINDS: dict[str, Kind] = {kind.view.tag: kind for kind in _KINDS}
# One shared string per tag, for code that stores many of them.
TAGS: dict[str, str] = {tag: tag for tag in KINDS}


def view_entry(data: dict[str, Any]) -> View:
    """Return the view of an entry or event of any kind."""
    tag = data.get("type")
    kind = KINDS.get(tag) if isinstance(tag, str) else None
    return messages.UnknownEntry(data) if kind is None else kind.view(data)


# Checks the form of clew's own messages; problems are returned, not raised.


_UUID = lazy_pattern(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
# The only time format that all known readers accept.
_AT = lazy_pattern(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z")
# The kinds that may contain each payload.
_PAYLOADS = {
    "message": frozenset({"user", "assistant"}),
    "attachment": frozenset({"attachment"}),
    "data": frozenset({"progress"}),
}


def find_faults(message: dict[str, Any]) -> list[str]:
    """Return the problems in a message; an empty list for a kind that is not a message."""
    seen = view_entry(message)
    if not isinstance(seen, Message) and seen.type not in ("system", "attachment", "progress"):
        return []
    problems = list(_identity(message))
    for payload, kinds in _PAYLOADS.items():
        if payload in message and seen.type not in kinds:
            problems.append(f'"{payload}" is not allowed in a message of type "{seen.type}"')
        if payload not in message and seen.type in kinds:
            problems.append(f'"{payload}" is missing in a message of type "{seen.type}"')
    if isinstance(seen, Message):
        problems += _content(seen)
    if isinstance(seen, AssistantMessage):
        problems += _answer(seen)
    return problems


def _identity(message: dict[str, Any]) -> Iterator[str]:
    for key, form in (("uuid", _UUID), ("timestamp", _AT)):
        value = message.get(key)
        if not isinstance(value, str) or not form.fullmatch(value):
            yield f"invalid {key}"


def find_prompt_faults(content: list[Any]) -> list[str]:
    """Return the problems in content blocks that are about to be sent as a prompt."""
    if not all(isinstance(block, dict) and isinstance(block.get("type"), str) for block in content):
        return ["every block must have a type"]
    message = view_entry({"type": "user", "message": {"role": "user", "content": content}})
    problems = [
        '"text" block without text'
        for block in content
        if block["type"] == "text" and not isinstance(block.get("text"), str)
    ]
    return problems + (list(_content(message)) if content and isinstance(message, Message) else [])


def _content(message: Message) -> Iterator[str]:
    if message.role != message.type:
        yield f'role "{message.role}" is not allowed in a message of type "{message.type}"'
    if not isinstance(message.content, str | list) or not message.content:
        yield "content must be a non-empty string or list of blocks"
    for block in message.blocks:
        if message.type not in block.roles:
            yield f'"{block.type}" block is not allowed in a message of type "{message.type}"'
        if isinstance(block, blocks.ToolUseBlock) and not (
            block.id and block.name and block.input is not None
        ):
            yield f'"{block.type}" block without an ID, name or input'
        if isinstance(block, blocks.ToolResultBlock) and not (
            block.tool_use_id and "content" in block.data
        ):
            yield "tool_result without tool_use_id or content"


def _answer(answer: AssistantMessage) -> Iterator[str]:
    """Yield problems in the fields by which readers count usage.

    Synthetic messages have no request ID.
    """
    if not answer.message_id or not answer.model:
        yield "message ID or model is missing"
    if not answer.request_id and not answer.is_synthetic:
        yield "requestId is missing or empty"
    if answer.usage.data != complete_usage(answer.usage.data):
        yield "usage is incomplete, or its counts do not add up"
