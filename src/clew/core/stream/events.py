"""The output values of this package: the events of a response, and the faults in it.

The types are clew's own, and their set is closed. The blocks and messages inside them are the API's
complete dicts, including unknown fields, and do not change once they have been passed on.
"""

from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from clew.core.json_object import Json

# After these faults no content is lost: the response continues and may still be complete.
BearableKind: TypeAlias = Literal[
    # Events out of order.
    "message_stop_missing",
    "block_stopped_twice",
    "block_after_stop_reason",
    "stop_reason_missing",
    "index_gap",
    "event_after_end",
    # Content in the wrong place.
    "content_in_message_start",
    "foreign_block",
    "delta_mismatch",
    "duplicate_tool_id",
    "missing_tool_id",
    "invalid_server_tool_input",
]

GraveKind: TypeAlias = Literal[
    # Invalid bytes.
    "unfinished_event",
    "event_too_large",
    "invalid_utf8",
    "invalid_json",
    "malformed_event",
    "bad_frame",
    "bad_payload",
    # The service reported an error within its response.
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
    """A problem in a stream; if it is `fatal`, content was lost and the response ends.

    Fields:
        kind: What went wrong.
        message: A description of the problem.
        index: The index of the affected block, if any.
        error: The service's error as it was sent.
        request_id: The ID of the request, if the service named it.
        error_type: For an `error_event`: the type of the service's error.
        excerpt: The beginning of the input, for diagnostics.
    """

    kind: FaultKind
    message: str
    index: int | None = None
    error_type: str | None = None
    error: Json | None = None
    request_id: str | None = None
    excerpt: str = ""

    @property
    def fatal(self) -> bool:
        """True if content was lost and the response ends."""
        return self.kind not in _BEARABLE


class MessageStarted(Struct, frozen=True, kw_only=True):
    """The response has an ID, a model and its first usage; `message` has no content yet."""

    message: Json


class BlockStarted(Struct, frozen=True, kw_only=True):
    """A block started; a tool_use block already has its final ID.

    Fields:
        index: The block's index in the message.
        block: The block as it starts.
    """

    index: int
    block: Json


class TextDelta(Struct, frozen=True, kw_only=True):
    """A piece of a text block.

    Fields:
        index: The block's index in the message.
        text: The new text.
    """

    index: int
    text: str


class ThinkingDelta(Struct, frozen=True, kw_only=True):
    """A piece of the model's thinking.

    Fields:
        index: The block's index in the message.
        thinking: The new text.
    """

    index: int
    thinking: str


class InputDelta(Struct, frozen=True, kw_only=True):
    """A piece of a tool's input as JSON text, for display only.

    Fields:
        index: The block's index in the message.
        partial_json: The new text.
    """

    index: int
    partial_json: str


class CitationAdded(Struct, frozen=True, kw_only=True):
    """A text block got a citation.

    Fields:
        index: The block's index in the message.
        citation: The citation as the service sent it.
    """

    index: int
    citation: Json


class BlockFinished(Struct, frozen=True, kw_only=True):
    """A block in its final form; `complete` is False for text that was cut off.

    `origin` is the record of the service's own items for the block, on any wire except the
    Messages API. `index` is the block's index in the message.
    """

    index: int
    block: Json
    complete: bool = True
    origin: Json | None = None


class BlockDropped(Struct, frozen=True, kw_only=True):
    """The stream ended inside this block, so the block is not part of the message.

    Fields:
        index: The index that the block would have had.
        block: The block, as far as it arrived.
        why: A description of the reason.
    """

    index: int
    block: Json
    why: str


class ToolUseReady(Struct, frozen=True, kw_only=True):
    """A tool may run: its input is complete, strictly valid JSON and an object.

    Fields:
        index: The block's index in the message.
        block: The complete `tool_use` block.
    """

    index: int
    block: Json


class ToolUseUnusable(Struct, frozen=True, kw_only=True):
    """A tool_use block that must not run; `raw` is the input as received.

    The block stays in the message, with the raw text under `INVALID_JSON`. The call needs an error
    result that informs the model.

    Fields:
        index: The block's index in the message.
        reason: Why the input can't be used.
        message: The reason in words, for the model.
    """

    index: int
    block: Json
    reason: UnusableReason
    message: str
    raw: str


class UsageChanged(Struct, frozen=True, kw_only=True):
    """Token counts from one event.

    The counts are totals: each one replaces the earlier value, unless it is null.

    Fields:
        usage: The counts as the service sent them.
    """

    usage: Json


class Ignored(Struct, frozen=True, kw_only=True):
    """An event or delta of an unknown kind, passed on but not applied.

    Fields:
        what: Whether it is an event, or a delta of a block.
        kind: Its type.
        event: The event as the service sent it.
    """

    what: Literal["event", "delta"]
    kind: str
    event: Json


Ending: TypeAlias = Literal[
    "turn", "tools", "paused", "cut_by_max_tokens", "cut_by_context", "refused", "compacted",
    "unknown",
]  # fmt: skip

# What each stop reason means for the loop. A reason that is missing here is "unknown", never an
# error.
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
    """The final event of a response; `complete` if all blocks ended and a stop reason arrived.

    Fields:
        message: The message, as far as it arrived.
        stop_reason: Why the model stopped; None if the stream ended before it said so.
    """

    message: Json
    stop_reason: str | None
    complete: bool

    @property
    def ending(self) -> Ending:
        """The reason why the response ended, in clew's terms."""
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
    """Return the beginning of the input, short enough for a log."""
    if isinstance(raw, str):
        return raw[:_EXCERPT_CHARACTERS]
    return raw[: _EXCERPT_CHARACTERS * 4].decode("utf-8", "replace")[:_EXCERPT_CHARACTERS]
