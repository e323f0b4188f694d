"""Every kind of entry and event in one table: its view, and the decisions each kind needs.

A kind that is missing here is an `UnknownEntry`: kept, off the chain, never shown as talk. Tests hold the
table complete; `docs/internals/messages.md` is printed from it.
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


# Where a kind lives.
CHAIN = "chain"  # in the transcript, linked by parentUuid
BESIDE = "beside"  # in the transcript, off the chain: no uuid, never a parent
LIVE = "live"  # only while clew runs


class Kind:
    """One kind: its view, where it lives, whether clew writes it, where it comes from and goes."""

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
    _ours(messages.UserMessage, CHAIN, "a person, a tool, or clew in their name", "the model; the screen unless meta"),
    _ours(messages.AssistantMessage, CHAIN, "the model, one entry per block; clew for an API failure", "the model, but for API failures; the screen"),
    _ours(messages.SystemMessage, CHAIN, "clew", "the screen; local commands also the model"),
    _ours(messages.Attachment, CHAIN, "clew: context beside the talk", "the model, as its rendered text"),
    Kind(messages.ProgressMessage, LIVE, written=False, comes_from="a running tool; old transcripts", goes_to="the screen; in old chains a bridge to its parent"),
    _ours(events.Tombstone, BESIDE, "a fallback to another model", "the screen and the loader: the message is withdrawn"),
    Kind(events.RawStreamEvent, LIVE, written=False, comes_from="the API's stream", goes_to="whoever asked for partial messages"),
    Kind(events.RequestStart, LIVE, written=False, comes_from="the loop", goes_to="the screen"),
    Kind(events.ToolUseSummary, LIVE, written=False, comes_from="a side request", goes_to="the screen"),
    _ours(records.QueueOperation, BESIDE, "a message to an agent or of one; other programs: their prompt queue", "whom it is for, if a crash came before it was heard"),
    _ours(records.LastPrompt, BESIDE, "the end of a turn; a rewind", "resume: the leaf; the picker's title"),
    _ours(records.CostState, BESIDE, "the end of a process", "resume: totals; other tools' cost displays"),
    _ours(records.FileHistorySnapshot, BESIDE, "programs that record with `Recorder`; clew itself writes `file-change`", "kept"),
    _ours(records.FileHistoryDelta, BESIDE, "programs that record with `Recorder`; clew itself writes `file-change`", "kept"),
    _ours(records.FileChange, BESIDE, "a call that changed files; a way back", "the way back, and its redo"),
    _ours(records.AttributionSnapshot, BESIDE, "programs that record with `Recorder`", "kept"),
    _ours(records.ContentReplacement, BESIDE, "programs that record with `Recorder`; clew itself writes what it puts in a content's place", "kept"),
    _ours(records.Mode, BESIDE, "programs that record with `Recorder`", "kept"),
    _ours(records.PermissionMode, BESIDE, "a change of mode", "the screen on resume"),
    _ours(records.CustomTitle, BESIDE, "a rename", "the picker"),
    _ours(records.AiTitle, BESIDE, "a side request", "the picker"),
    _read(records.Summary, "old transcripts", "the picker"),
    _ours(records.Tag, BESIDE, "a person or a host", "the picker"),
    _ours(records.AgentName, BESIDE, "a named session or team mate", "the screen"),
    _ours(records.AgentColor, BESIDE, "a host that chose it", "the prompt on the screen"),
    _ours(records.AgentSetting, BESIDE, "a session run as an agent", "resume"),
    _ours(records.WorktreeState, BESIDE, "a session in a worktree", "resume"),
    _read(records.PrLink, "other programs", "kept"),
    _read(records.ToolsUsed, "other programs", "kept"),
    _read(records.Latch, "other programs", "kept"),
    _read(records.RequestShape, "other programs", "kept"),
    _read(records.RequestBlob, "other programs", "kept"),
    _read(records.RequestRecord, "other programs", "kept"),
    _ours(records.ToolStartedRecord, BESIDE, "a call about to run", "the loader after a crash"),
    _ours(records.ToolFinishedRecord, BESIDE, "a call that ended before its answer", "the loader after a crash"),
    _ours(records.TaskEnded, BESIDE, "the end of a command in the background", "resume: commands whose end was not told"),
    _ours(records.RequestCost, BESIDE, "the end of a request", "cost of the session"),
    _ours(records.RequestRepairs, BESIDE, "a history that needed mending for a request", "whoever asks what was changed"),
    _ours(records.ContextEdits, BESIDE, "/context exclude, pin, summarise, restore", "whoever builds a request"),
    _ours(records.PromptHashes, BESIDE, "the first request, or a change", "resume: the same system prompt and tools"),
    _ours(records.SessionHeader, BESIDE, "the first message of a session", "readers of the format"),
)  # fmt: skip

KINDS: dict[str, Kind] = {kind.view.tag: kind for kind in _KINDS}
# Each tag as one shared string, for those who hold very many of them.
TAGS: dict[str, str] = {tag: tag for tag in KINDS}


def view_entry(data: dict[str, Any]) -> View:
    """The view of an entry or event, whatever its kind."""
    tag = data.get("type")
    kind = KINDS.get(tag) if isinstance(tag, str) else None
    return messages.UnknownEntry(data) if kind is None else kind.view(data)


# What a message of clew's own looks like; says what is wrong instead of raising.


_UUID = lazy_pattern(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
# The one form of time that every known reader accepts.
_AT = lazy_pattern(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z")
# Which kinds may hold which payload.
_PAYLOADS = {
    "message": frozenset({"user", "assistant"}),
    "attachment": frozenset({"attachment"}),
    "data": frozenset({"progress"}),
}


def find_faults(message: dict[str, Any]) -> list[str]:
    """What is wrong with one message; nothing, for a kind that is not a message."""
    seen = view_entry(message)
    if not isinstance(seen, Message) and seen.type not in ("system", "attachment", "progress"):
        return []
    problems = list(_identity(message))
    for payload, kinds in _PAYLOADS.items():
        if payload in message and seen.type not in kinds:
            problems.append(f"{payload} on a message of type {seen.type}")
        if payload not in message and seen.type in kinds:
            problems.append(f"no {payload} on a message of type {seen.type}")
    if isinstance(seen, Message):
        problems += _content(seen)
    if isinstance(seen, AssistantMessage):
        problems += _answer(seen)
    return problems


def _identity(message: dict[str, Any]) -> Iterator[str]:
    for key, form in (("uuid", _UUID), ("timestamp", _AT)):
        value = message.get(key)
        if not isinstance(value, str) or not form.fullmatch(value):
            yield f"{key} is not one"


def find_prompt_faults(content: list[Any]) -> list[str]:
    """What is wrong with blocks that somebody wants to say as a prompt."""
    if not all(isinstance(block, dict) and isinstance(block.get("type"), str) for block in content):
        return ["every block needs a type"]
    message = view_entry({"type": "user", "message": {"role": "user", "content": content}})
    problems = [
        "text without words"
        for block in content
        if block["type"] == "text" and not isinstance(block.get("text"), str)
    ]
    return problems + (list(_content(message)) if content and isinstance(message, Message) else [])


def _content(message: Message) -> Iterator[str]:
    if message.role != message.type:
        yield f"role {message.role} on a message of type {message.type}"
    if not isinstance(message.content, str | list) or not message.content:
        yield "content is neither text nor blocks"
    for block in message.blocks:
        if message.type not in block.roles:
            yield f"{block.type} said by {message.type}"
        if isinstance(block, blocks.ToolUseBlock) and not (
            block.id and block.name and block.input is not None
        ):
            yield f"{block.type} without id, name or input"
        if isinstance(block, blocks.ToolResultBlock) and not (
            block.tool_use_id and "content" in block.data
        ):
            yield "tool_result without tool_use_id or content"


def _answer(answer: AssistantMessage) -> Iterator[str]:
    """What readers count by. A message no model wrote has no request."""
    if not answer.message_id or not answer.model:
        yield "no message id or no model"
    if not answer.request_id and not answer.is_synthetic:
        yield "requestId is empty"
    if answer.usage.data != complete_usage(answer.usage.data):
        yield "usage lacks a count, or its split does not add up"
