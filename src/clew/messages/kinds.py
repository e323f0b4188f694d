"""Every kind of entry and event in one table: its view, and the decisions each kind needs.

A kind that is missing here is `Unknown`: kept, off the chain, never shown as talk. Tests hold the
table complete; `docs/messages.md` is printed from it.
"""

from __future__ import annotations

from clew.messages import events, messages, records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from clew.messages.views import View

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
    _ours(messages.User, CHAIN, "a person, a tool, or clew in their name", "the model; the screen unless meta"),
    _ours(messages.Assistant, CHAIN, "the model, one entry per block; clew for an API failure", "the model, but for API failures; the screen"),
    _ours(messages.System, CHAIN, "clew", "the screen; local commands also the model"),
    _ours(messages.Attachment, CHAIN, "clew: context beside the talk", "the model, as its rendered text"),
    Kind(messages.Progress, LIVE, written=False, comes_from="a running tool; old transcripts", goes_to="the screen; in old chains a bridge to its parent"),
    _ours(events.Tombstone, BESIDE, "a fallback to another model", "the screen and the loader: the message is withdrawn"),
    Kind(events.StreamEvent, LIVE, written=False, comes_from="the API's stream", goes_to="whoever asked for partial messages"),
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
    _read(records.Request, "other programs", "kept"),
    _ours(records.ToolStarted, BESIDE, "a call about to run", "the loader after a crash"),
    _ours(records.ToolFinished, BESIDE, "a call that ended before its answer", "the loader after a crash"),
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


def view(data: dict[str, Any]) -> View:
    """The view of an entry or event, whatever its kind."""
    tag = data.get("type")
    kind = KINDS.get(tag) if isinstance(tag, str) else None
    return messages.Unknown(data) if kind is None else kind.view(data)
