"""What the engine says while a turn runs: closed values for whoever shows, frames or records them.

The events of an answer and of its driver pass through as they are; these are the engine's own.
"""

from typing import Any, Literal, TypeAlias

from msgspec import Struct

from clew.agent.hooks.output import Ran
from clew.core.json_object import Json
from clew.core.normalize.block_rules import RequestViolation
from clew.core.normalize.repairs import Repair
from clew.providers.answer_events import DriverEvent


class Recorded(Struct, frozen=True, kw_only=True):
    """Entries joined the conversation, in memory and in the log."""

    entries: list[Json]


class BlockSaid(Struct, frozen=True, kw_only=True):
    """A block of the answer stands, as the entry it will be; usage and stop reason may yet change."""

    entry: Json


class ToolStarted(Struct, frozen=True, kw_only=True):
    """A call was permitted and runs now; `title` is one line about it."""

    block: Json
    title: str


class ToolProgressed(Struct, frozen=True, kw_only=True):
    tool_use_id: str
    data: Any


class ToolFinished(Struct, frozen=True, kw_only=True):
    """A call has its result, whatever became of it; `entry` is the message that answers it."""

    block: Json
    entry: Json
    is_error: bool
    # The result in a few words for a person.
    display: str = ""


class Printed(Struct, frozen=True, kw_only=True):
    """What a person's own line for the shell printed."""

    text: str


class Repaired(Struct, frozen=True, kw_only=True):
    """What the history needed to become a valid request; the log keeps what it had."""

    repairs: list[Repair]


class Doubted(Struct, frozen=True, kw_only=True):
    """The service would refuse this request, by the rules that are known; `is_held`: not sent."""

    violations: list[RequestViolation]
    is_held: bool


class NotSaved(Struct, frozen=True, kw_only=True):
    """The log cannot be written since now, and where its lines lie meanwhile; or everything is saved again."""

    messages: tuple[str, ...]


class Noticed(Struct, frozen=True, kw_only=True):
    """What people should know before a turn: settings that were read again, and their faults."""

    messages: tuple[str, ...]


class Signalled(Struct, frozen=True, kw_only=True):
    """A hook has a signal for the person's terminal: a title, a notification, the bell."""

    sequence: str


class HookStarted(Struct, frozen=True, kw_only=True):
    """A hook runs now; `status` is what its settings would have people read meanwhile."""

    hook_id: str
    name: str
    event: str
    status: str = ""
    # The call that it is about, where it is about one.
    tool_use_id: str = ""


class HookFinished(Struct, frozen=True, kw_only=True):
    """A hook has ended, however."""

    hook_id: str
    name: str
    event: str
    ran: Ran
    # The handler in a line: its command, its address.
    title: str
    tool_use_id: str = ""

    @property
    def outcome(self) -> str:
        """In the word that programs read."""
        if self.ran.is_timeout:
            return "cancelled"
        return "error" if self.ran.trouble or self.ran.exit_code else "success"


class FromAgent(Struct, frozen=True, kw_only=True):
    """Something happened in the conversation of an agent; `tool_use_id` is the call that began it."""

    agent_id: str
    kind: str
    description: str
    tool_use_id: str
    event: "EngineEvent"


class Compacting(Struct, frozen=True, kw_only=True):
    """The conversation is being shortened; nothing else happens in it meanwhile."""

    trigger: str


class Compacted(Struct, frozen=True, kw_only=True):
    """The conversation was shortened: its boundary and what it is told again, the summary last."""

    boundary: Json
    entries: list[Json]
    # What a person should know of it.
    message: str


class NotCompacted(Struct, frozen=True, kw_only=True):
    """The conversation is as it was. Where it was an order (`manual`), the order's answer says so, too."""

    message: str
    trigger: str


EndReason: TypeAlias = Literal[
    "completed", "max_turns", "budget_exhausted", "api_error", "prompt_too_long", "refused",
    "aborted_streaming", "aborted_tools", "denied_and_stopped", "stopped_by_hook", "left",
    "loop_stopped", "no_answer", "failed", "unshaped",
]  # fmt: skip

ENDED_WELL: frozenset[EndReason] = frozenset({"completed", "stopped_by_hook", "left"})


class TurnEnded(Struct, frozen=True, kw_only=True):
    """The one way a turn ends; `message` says more where the reason is not enough."""

    reason: EndReason
    message: str = ""
    rounds: int = 0
    # The API's own word for why the last answer ended, and the status of its failure.
    stop_reason: str | None = None
    status: int | None = None
    error_type: str | None = None

    @property
    def is_error(self) -> bool:
        return self.reason not in ENDED_WELL


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
