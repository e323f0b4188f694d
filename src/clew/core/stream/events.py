"""The values that come out of this package: what an answer did, and what was wrong with it.

They are closed types of our own; the blocks and messages inside them are the API's dicts, whole,
unknown fields included. Nothing here is changed after it was handed out.
"""

from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from clew.core.json_object import Json

# After these nothing is lost that was said: the answer goes on and may still be complete.
BearableKind: TypeAlias = Literal[
    # Events out of order.
    "message_stop_missing",
    "block_stopped_twice",
    "block_after_stop_reason",
    "stop_reason_missing",
    "index_gap",
    "event_after_end",
    # Content that does not fit where it came.
    "content_in_message_start",
    "foreign_block",
    "delta_mismatch",
    "duplicate_tool_id",
    "missing_tool_id",
    "invalid_server_tool_input",
]

GraveKind: TypeAlias = Literal[
    # What the bytes said could not be read.
    "unfinished_event",
    "event_too_large",
    "invalid_utf8",
    "invalid_json",
    "malformed_event",
    "bad_frame",
    "bad_payload",
    # The service reported a failure in the middle of its answer.
    "error_event",
    # The stream ended too early.
    "no_message",
    "cut_short",
    # Events out of order.
    "event_before_message_start",
    "message_started_twice",
    "block_started_twice",
    "delta_without_block",
    "delta_after_stop",
    "stop_without_block",
    "block_never_stopped",
]

FaultKind: TypeAlias = BearableKind | GraveKind

_BEARABLE: frozenset[str] = frozenset(get_args(BearableKind))

_EXCERPT_CHARACTERS = 200

UnusableReason: TypeAlias = Literal[
    "invalid_json", "not_an_object", "no_name", "cut", "unconfirmed"
]


class StreamFault(Struct, frozen=True, kw_only=True):
    """Something wrong with a stream; a `fatal` one means content was lost and ends the answer."""

    kind: FaultKind
    message: str
    index: int | None = None
    # Of an `error_event`: what the service said, and under which request.
    error_type: str | None = None
    error: Json | None = None
    request_id: str | None = None
    # The beginning of what came, for diagnostics; never the whole of it.
    excerpt: str = ""

    @property
    def fatal(self) -> bool:
        return self.kind not in _BEARABLE


class MessageStarted(Struct, frozen=True, kw_only=True):
    """The answer has an id, a model and its first usage; `message` has no content yet."""

    message: Json


class BlockStarted(Struct, frozen=True, kw_only=True):
    """A block opened; a tool_use already has the id it will keep."""

    index: int
    block: Json


class TextDelta(Struct, frozen=True, kw_only=True):
    index: int
    text: str


class ThinkingDelta(Struct, frozen=True, kw_only=True):
    index: int
    thinking: str


class InputDelta(Struct, frozen=True, kw_only=True):
    """A piece of a tool's input as JSON text: to look at, never to run."""

    index: int
    partial_json: str


class CitationAdded(Struct, frozen=True, kw_only=True):
    index: int
    citation: Json


class BlockFinished(Struct, frozen=True, kw_only=True):
    """The block stands as it will in the message; not `complete`: a text that was cut off."""

    index: int
    block: Json
    complete: bool = True


class BlockDropped(Struct, frozen=True, kw_only=True):
    """The stream ended inside this block and a part of it is of no use; the message is without it."""

    index: int
    block: Json
    why: str


class ToolUseReady(Struct, frozen=True, kw_only=True):
    """A tool may run: its input arrived whole, was parsed strictly and is an object."""

    index: int
    block: Json


class ToolUseUnusable(Struct, frozen=True, kw_only=True):
    """A tool_use of the message that must not run; `raw` is what came as its input.

    Its block stays in the message, with the raw text wrapped under `INVALID_JSON`, and wants an
    error result that tells the model.
    """

    index: int
    block: Json
    reason: UnusableReason
    message: str
    raw: str


class UsageChanged(Struct, frozen=True, kw_only=True):
    """Counts as one event told them. They are totals: each replaces the one before, and null none."""

    usage: Json


class Ignored(Struct, frozen=True, kw_only=True):
    """An event, or the delta of one, of a kind this version does not know: passed on, not applied."""

    what: Literal["event", "delta"]
    kind: str
    event: Json


Ending: TypeAlias = Literal[
    "turn", "tools", "paused", "cut_by_max_tokens", "cut_by_context", "refused", "compacted",
    "unknown",
]  # fmt: skip

# What each stop reason asks of the loop; a reason that is not here is "unknown", never an error.
ENDINGS: dict[str, Ending] = {
    "end_turn": "turn",
    "stop_sequence": "turn",
    "tool_use": "tools",
    "pause_turn": "paused",
    "max_tokens": "cut_by_max_tokens",
    "model_context_window_exceeded": "cut_by_context",
    "refusal": "refused",
    "compaction": "compacted",
}


class MessageFinished(Struct, frozen=True, kw_only=True):
    """The last word on an answer, once. `complete`: every block ended and a stop reason came."""

    message: Json
    stop_reason: str | None
    complete: bool

    @property
    def ending(self) -> Ending:
        return ENDINGS.get(self.stop_reason or "", "unknown")


AnswerEvent: TypeAlias = (
    MessageStarted
    | BlockStarted
    | TextDelta
    | ThinkingDelta
    | InputDelta
    | CitationAdded
    | BlockFinished
    | BlockDropped
    | ToolUseReady
    | ToolUseUnusable
    | UsageChanged
    | Ignored
    | StreamFault
    | MessageFinished
)


def make_excerpt(raw: bytes | str) -> str:
    """The beginning of what came, short enough for a log."""
    if isinstance(raw, str):
        return raw[:_EXCERPT_CHARACTERS]
    return raw[: _EXCERPT_CHARACTERS * 4].decode("utf-8", "replace")[:_EXCERPT_CHARACTERS]
