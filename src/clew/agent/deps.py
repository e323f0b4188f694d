"""The dependencies of the loop: everything that a turn may use.

The loop imports no clock, no file access and no client; everything is passed in. Failures are
returned as values: nothing here may raise anything but CancelledError.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from msgspec import Struct

from clew.agent.cache_watch import Watch
from clew.agent.calls import BoundCall
from clew.agent.events import EngineEvent, NotSaved, TurnEnded
from clew.agent.hooks.outcome import HookOutcome
from clew.agent.requests import Prepared
from clew.agent.story import Story
from clew.agent.tools.base import QuestionKind, ToolOutcome
from clew.core.catalog.lookup import ModelCatalog
from clew.core.input import CompactSession
from clew.core.json_object import Json
from clew.core.ledger.state import SessionTracker
from clew.core.messages.history import History
from clew.core.normalize.prefix import Bound
from clew.core.normalize.repairs import Repair
from clew.core.stream.events import AnswerEvent
from clew.permissions.decision import Decision, Finding, NeedsReview, make_decision
from clew.permissions.modes import apply_review
from clew.permissions.request import PermissionRequest
from clew.providers.answer_events import CompactionDue, DriverEvent, Ended
from clew.providers.base import Failure, ModelRequest

if TYPE_CHECKING:
    from clew.agent.spending_cap import SpendingCap
    from clew.permissions.reading import CommandLine

Emit: TypeAlias = Callable[[EngineEvent], Awaitable[None]]


class AnswerDriver(Protocol):
    """Runs one request and reads its response (`providers.answer.Answering`).

    An instance is used only once.
    """

    @property
    def last_words(self) -> list[AnswerEvent]:
        """The last events after a cancellation: complete and dropped blocks, and the message."""
        ...

    async def run(
        self,
        request: ModelRequest,
        emit: Callable[[DriverEvent], Awaitable[None]],
        for_fallback: Callable[[ModelRequest, str], Awaitable[ModelRequest]] = ...,
    ) -> Ended:
        """Send the request and emit events.

        `for_fallback` rebuilds the request for another model.
        """
        ...

    def release(self) -> None:
        """End the reservation of the response's cost; call this once the cost is charged."""
        ...


class Toolset(Protocol):
    """The tools of a session. A call to an unknown tool also gets a result."""

    def definitions(self) -> list[Json]: ...

    def meant(self, block: Json) -> Json:
        """Return the block with the real name of the tool, which the model may call by an alias."""
        ...

    def bind(self, block: Json) -> BoundCall:
        """Bind a block to its tool and its converted input."""
        ...

    async def credited(self, call: BoundCall, message_uuid: str) -> BoundCall:
        """Return the call; if it commits, the commit's credit states the agent's share of lines."""
        ...

    def unusable(self, call: BoundCall) -> ToolOutcome | None:
        """Return why a call can't run even if approved, or None.

        The user is not asked about such a call.
        """
        ...

    async def doomed(self, call: BoundCall, may_look: Callable[[str], bool]) -> ToolOutcome | None:
        """Return why a call would fail even if approved, judging by the files it works on, or None.

        If `may_look` returns False for one of the files, nothing is read and the result is None. If
        no failure is returned, the user is asked about the call.
        """
        ...

    def question(self, call: BoundCall) -> tuple[QuestionKind, str]:
        """Return the kind of question for the user, and the text to show above it."""
        ...

    @property
    def has_walls(self) -> bool: ...

    async def can_confine(self) -> bool: ...

    async def look_up(self) -> bool: ...

    async def run(
        self,
        call: BoundCall,
        *,
        message_uuid: str,
        progress: Callable[[Any], Awaitable[None]],
        is_confined: bool = False,
    ) -> ToolOutcome:
        """Run a call; with `is_confined`, in the read-only sandbox (see `agent.toolset`)."""
        ...


# If a question waits longer, notification hooks run. A user at the terminal usually answers sooner.
NOTIFY_AFTER_S = 6.0


class Question(Struct, frozen=True, kw_only=True):
    """A call that needs the user's decision, and the reason.

    If the kind is `choices`, the user's answers are returned in the granted input. If it is `plan`,
    an approval starts the work.
    """

    block: Json
    title: str
    decision: Decision
    why: str
    kind: QuestionKind = "permission"
    body: str = ""
    # The call's command line, if it has one.
    line: "CommandLine | None" = None
    # The agent that makes the call; empty for the session itself.
    agent_id: str = ""
    agent: str = ""
    # The folder from which the call's relative paths start.
    folder: str = ""
    # The editor in which the user can answer too; empty if there is none.
    ide: str = ""
    # The call runs on another machine, so the rules and files of this machine don't apply to it.
    is_elsewhere: bool = False

    @property
    def request(self) -> PermissionRequest:
        """The call as the rules see it."""
        return PermissionRequest(tool=self.block["name"], input=self.block["input"], line=self.line)


class Granted(Struct, frozen=True, kw_only=True):
    """An approval. If `input` is set, it replaces the input of the approved call.

    With `is_edited`, the user changed the input, and the model is informed.
    """

    input: Json | None = None
    is_edited: bool = False


class Refused(Struct, frozen=True, kw_only=True):
    """A rejection. The model reads `words`; with `stop`, the turn ends too.

    `is_nobodys` is set if no user could be asked. With `is_deferred`, the call is deferred until
    the session continues, if possible.
    """

    words: str
    stop: bool = False
    by_person: bool = True
    is_nobodys: bool = False
    is_deferred: bool = False


Verdict: TypeAlias = Granted | Refused


class Reviewed(Struct, frozen=True, kw_only=True):
    """The reviewer's decision on a call. `record` is stored with the call's result."""

    decision: Decision
    record: Json


async def skip_review(_: BoundCall, needed: NeedsReview) -> Reviewed:
    """Leave the decision to the user, because there is no reviewer."""
    return Reviewed(
        decision=apply_review(needed, None), record={"verdict": "none", "why": "no reviewer"}
    )


class Hooks(Protocol):
    """The user's hooks, which are notified of events and may influence them.

    An event without hooks costs one lookup. The outcome includes the failures of hooks.
    """

    async def fire(
        self, event: str, fields: Json, emit: Emit, call: BoundCall | None = None, /
    ) -> HookOutcome:
        """Run the hooks for an event with its own fields.

        `call` is the tool call that the event is about, if any.
        """
        ...

    def hears(self, event: str) -> bool:
        """Return whether any hook is configured for an event."""
        ...

    async def waiting(self, emit: Emit, /) -> HookOutcome:
        """Return the outcome of asynchronous hooks.

        These are SessionStart hooks and background hooks.
        """
        ...


class ConversationCompactor(Protocol):
    """Compacts a conversation that outgrows its context window (`agent.compaction.compactor`).

    `make_room` and `after_overflow` return whether they changed the conversation, in which case the
    request must be built again.
    """

    async def make_sendable(self, deps: "Deps", emit: Emit, /) -> bool:
        """Compact a resumed history that is too large for a request, before building one."""
        ...

    async def make_room(self, deps: "Deps", request: ModelRequest, emit: Emit, /) -> bool:
        """Compact before a request is sent, if necessary."""
        ...

    async def after_overflow(
        self,
        deps: "Deps",
        request: ModelRequest,
        due: CompactionDue | None,
        tries: int,
        emit: Emit,
        /,
    ) -> bool:
        """Compact after requests that did not fit, or after a response that filled the window.

        `tries` is the number of requests in a row that did not fit. `due` is None after a response
        that filled the window.
        """
        ...

    async def run(self, deps: "Deps", order: CompactSession, emit: Emit, /) -> TurnEnded:
        """Compact at the user's request, between two turns."""
        ...


class ThoughtReports(Protocol):
    """Tracks what the service reports about the thinking blocks in requests (`agent.requests`)."""

    @property
    def bound(self) -> Bound | None:
        """The prefix to which the latest response's thinking is bound; None if it is not bound."""
        ...

    def refused(self, words: str) -> bool:
        """Handle a rejection with this message; return whether the next request will differ."""
        ...

    def dropped(self, answer: Json) -> list[Repair]:
        """Note which thinking blocks the service dropped from the last request.

        Return those that were not reported before.
        """
        ...


async def nothing_new() -> tuple[str, ...]:
    return ()


async def nobody_late() -> Sequence[Json]:
    """Return no entries, for conversations that wait for nothing, such as a subagent's."""
    return ()


async def stays() -> bool:
    return False


class ModelAccess(Struct, frozen=True, kw_only=True):
    """Everything that a turn needs to request the model's next response."""

    prepare: Callable[[Story], Prepared]
    new_answer: Callable[[], AnswerDriver]
    # Adds the input size to a request if a decision depends on that size.
    measure: Callable[[ModelRequest, History], Awaitable[ModelRequest]]
    thoughts: ThoughtReports
    # Builds the same conversation for a fallback model; None if all models accept the same
    # requests.
    for_fallback: Callable[[Story, str], Prepared] | None = None
    # Observes requests and explains cache misses.
    cache: Watch
    catalog: ModelCatalog
    # Returns a warning if the service read much less than was sent, or an empty string.
    find_flaw: Callable[[ModelRequest, Json], str] = lambda *_: ""
    # Returns what the user can do about a failed request to a model; empty if nothing is known.
    advise: Callable[[Failure, str], str] = lambda *_: ""


class CallApproval(Struct, frozen=True, kw_only=True):
    """Decides whether a call may run: by the rules, the reviewer (mode auto) or the user."""

    judge: Callable[[BoundCall], Decision]
    ask: Callable[[Question], Awaitable[Verdict]]
    review: Callable[[BoundCall, NeedsReview], Awaitable[Reviewed]] = skip_review
    # Applies the current mode to a finding that does not come from a rule.
    apply_mode: Callable[[Finding], Decision] = lambda finding: make_decision([finding])
    # Changes the rules as a hook requested; returns an error message or an empty string.
    update_permissions: Callable[[list[Json]], str] = lambda _: ""
    # Seconds that a question waits before hooks are notified.
    notify_after_s: float = NOTIFY_AFTER_S
    # Whether a call can be deferred until the session is resumed.
    can_defer: bool = False
    # Whether a call is also deferred if the process ends while its question is open.
    keeps_questions: bool = False


class Arrivals(Struct, frozen=True, kw_only=True):
    """The sources of messages that arrive while the conversation runs."""

    # Takes the messages that the user typed and that background tasks reported.
    take_messages: Callable[[], Sequence[Json]]
    # Waits a limited time for what a request depends on; returns entries for the model.
    await_late: Callable[[], Awaitable[Sequence[Json]]] = nobody_late
    # Returns notices for the user about what it waited for, each once.
    take_notices: Callable[[], tuple[str, ...]] = tuple
    # Returns entries for the model after a round's results: memory files of the folders that it
    # used.
    after_results: Callable[[Sequence[Json]], Sequence[Json]]
    # Reads changed settings before a turn; returns notices.
    refresh_settings: Callable[[], Awaitable[tuple[str, ...]]] = nothing_new


class TurnClock(Struct, frozen=True, kw_only=True):
    """The source of timestamps and unique IDs. `monotonic_s` never goes back."""

    now: Callable[[], str]
    new_id: Callable[[], str]
    monotonic_s: Callable[[], float]


class TurnLimits(Struct, frozen=True, kw_only=True):
    """The limits of a turn. The session and its subagents share `cap`."""

    max_rounds: int | None = None
    cap: "SpendingCap | None" = None
    max_parallel: int = 10


def records_none() -> None:
    return None


class TurnSurroundings(Struct, frozen=True, kw_only=True):
    """The state of the session that a turn depends on or that its hooks receive."""

    list_background: Callable[[], list[Json]] = list
    list_schedules: Callable[[], list[Json]] = list
    # The current folder of the shell.
    shell_folder: Callable[[], str] = str
    # Returns, between two steps, whether the turn ends here because it will continue elsewhere.
    should_leave: Callable[[], Awaitable[bool]] = stays
    # Returns from how many seconds on a turn's duration is recorded; None: never.
    recorded_from_s: Callable[[], float | None] = records_none
    # Returns whether the speed of a turn's responses is recorded.
    records_speed: Callable[[], bool] = lambda: False


class Deps(Struct, frozen=True, kw_only=True):
    """The dependencies of a turn. They are the same for every turn unless a setting changes."""

    story: Story
    model: ModelAccess
    tools: Toolset
    approval: CallApproval
    arrivals: Arrivals
    clock: TurnClock
    # The cost and the duration of the turns.
    spending: SessionTracker
    limits: TurnLimits = TurnLimits()
    hooks: Hooks
    compaction: ConversationCompactor
    surroundings: TurnSurroundings = TurnSurroundings()


# Before a request or a call, everything is saved, or the user learns why it is not.


async def ensure_saved(deps: Deps, emit: Emit) -> None:
    """Wait until everything is durably saved.

    Report once if saving fails, and once when it works again.
    """
    await deps.story.durable()
    if news := deps.story.recorder.news():
        await emit(NotSaved(messages=news))
