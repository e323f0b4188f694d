"""The engine's events during a turn, for front ends, protocols and logs.

The events of a response and of its driver are passed on unchanged and are not defined here.
"""

from typing import Any, Literal, TypeAlias

from msgspec import Struct

from clew.agent.hooks.output import Ran
from clew.core.json_object import Json
from clew.core.normalize.block_rules import RequestViolation
from clew.core.normalize.repairs import Repair
from clew.providers.answer_events import DriverEvent


class Recorded(Struct, frozen=True, kw_only=True):
    """Entries were added to the conversation and the transcript."""

    entries: list[Json]


class BlockSaid(Struct, frozen=True, kw_only=True):
    """A block of the response is complete; `entry` is its transcript entry.

    Usage and stop reason may still change.
    """

    entry: Json


class ToolStarted(Struct, frozen=True, kw_only=True):
    """A call was approved and is now running. `title` describes it in one line."""

    block: Json
    title: str


class ToolProgressed(Struct, frozen=True, kw_only=True):
    tool_use_id: str
    data: Any


class ToolFinished(Struct, frozen=True, kw_only=True):
    """A tool call has finished. `entry` is the message that contains its result."""

    block: Json
    entry: Json
    is_error: bool
    # The result in a few words for the user.
    display: str = ""


class Printed(Struct, frozen=True, kw_only=True):
    """The output of the user's own `!` command."""

    text: str


class Repaired(Struct, frozen=True, kw_only=True):
    """The history needed repairs to become a valid request; the transcript is unchanged."""

    repairs: list[Repair]


class Doubted(Struct, frozen=True, kw_only=True):
    """A request that the service would reject, according to the rules that clew knows.

    With `is_held`, it was not sent.
    """

    violations: list[RequestViolation]
    is_held: bool


class NotSaved(Struct, frozen=True, kw_only=True):
    """A change in whether the transcript can be saved.

    A recovery file is used from now on, or saving works again.
    """

    messages: tuple[str, ...]


class Noticed(Struct, frozen=True, kw_only=True):
    """Messages for the user that do not belong to a response or a call."""

    messages: tuple[str, ...]


class Signalled(Struct, frozen=True, kw_only=True):
    """A hook sends a signal to the user's terminal: a title, a notification or the bell."""

    sequence: str


class HookStarted(Struct, frozen=True, kw_only=True):
    """A hook is now running. `status` is the text from its settings to show until it ends."""

    hook_id: str
    name: str
    event: str
    status: str = ""
    # The call that the event is about, if any.
    tool_use_id: str = ""


class HookFinished(Struct, frozen=True, kw_only=True):
    """A hook has ended, with or without success."""

    hook_id: str
    name: str
    event: str
    ran: Ran
    # The handler in one line: its command or its address.
    title: str
    tool_use_id: str = ""

    @property
    def outcome(self) -> str:
        """The outcome in the protocol's terms: `success`, `error` or `cancelled`."""
        if self.ran.is_timeout:
            return "cancelled"
        return "error" if self.ran.trouble or self.ran.exit_code else "success"


class FromAgent(Struct, frozen=True, kw_only=True):
    """An event in a subagent's conversation. `tool_use_id` is the call that started the agent."""

    agent_id: str
    kind: str
    description: str
    tool_use_id: str
    event: "EngineEvent"


class Compacting(Struct, frozen=True, kw_only=True):
    """The conversation is being compacted; nothing else happens in it until the compaction ends."""

    trigger: str


class Compacted(Struct, frozen=True, kw_only=True):
    """The conversation was compacted.

    `entries` contains the new entries after the boundary, the summary last.
    """

    boundary: Json
    entries: list[Json]
    # A message for the user.
    message: str


class NotCompacted(Struct, frozen=True, kw_only=True):
    """The compaction failed and changed nothing.

    If the user requested the compaction, the reply to the user reports the failure too.
    """

    message: str
    trigger: str


EndReason: TypeAlias = Literal[
    "completed", "max_turns", "budget_exhausted", "api_error", "prompt_too_long", "refused",
    "aborted_streaming", "aborted_tools", "denied_and_stopped", "stopped_by_hook", "left",
    "loop_stopped", "no_answer", "failed", "unshaped",
]  # fmt: skip

ENDED_WELL: frozenset[EndReason] = frozenset({"completed", "stopped_by_hook", "left"})


class TurnEnded(Struct, frozen=True, kw_only=True):
    """A turn has ended. `message` adds details that `reason` does not contain."""

    reason: EndReason
    message: str = ""
    rounds: int = 0
    # The API's stop reason for the last response, and the HTTP status of its failure.
    stop_reason: str | None = None
    status: int | None = None
    error_type: str | None = None

    @property
    def is_error(self) -> bool:
        return self.reason not in ENDED_WELL

    @property
    def is_blocked(self) -> bool:
        """True if a hook blocked the prompt; nothing was sent to the model."""
        return self.reason == "stopped_by_hook" and self.rounds == 0


EngineEvent: TypeAlias = (
    DriverEvent
    | Recorded
    | BlockSaid
    | ToolStarted
    | ToolProgressed
    | ToolFinished
    | Printed
    | Repaired
    | Doubted
    | NotSaved
    | Noticed
    | Signalled
    | Compacting
    | Compacted
    | NotCompacted
    | HookStarted
    | HookFinished
    | FromAgent
)
