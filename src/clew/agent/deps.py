"""The whole list of what the loop may touch. Whoever wants to know what a turn can do reads this.

Everything is handed in; the loop imports no clock, no file, no client. Failures come back as values:
none of these may raise anything but CancelledError.
"""

from collections.abc import Awaitable, Callable, Sequence
from decimal import Decimal
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
from clew.core.ledger.ledger import Spend, is_spent
from clew.core.ledger.state import SessionTracker
from clew.core.messages.history import History
from clew.core.normalize.prefix import Bound
from clew.core.normalize.repairs import Repair
from clew.core.stream.events import AnswerEvent
from clew.permissions.decision import Decision, Finding, NeedsReview, make_decision
from clew.permissions.modes import apply_review
from clew.permissions.request import PermissionRequest
from clew.providers.answer_events import CompactionDue, DriverEvent, Ended
from clew.providers.base import ModelRequest

if TYPE_CHECKING:
    from clew.permissions.reading import CommandLine

Emit: TypeAlias = Callable[[EngineEvent], Awaitable[None]]


class AnswerDriver(Protocol):
    """The way to one answer (`providers.answer.Answering`); used once."""

    @property
    def last_words(self) -> list[AnswerEvent]:
        """After a cancellation: what was complete, what was dropped, and the message of it."""
        ...

    async def run(
        self,
        request: ModelRequest,
        emit: Callable[[DriverEvent], Awaitable[None]],
        for_fallback: Callable[[ModelRequest, str], Awaitable[ModelRequest]] = ...,
    ) -> Ended:
        """`for_fallback` makes the request that another model is asked with."""
        ...


class Toolset(Protocol):
    """The tools of this session. A name it does not know is an outcome too."""

    def definitions(self) -> list[Json]: ...

    def meant(self, block: Json) -> Json:
        """The block as everything after the model sees it, with the name of the tool it leads to."""
        ...

    def bind(self, block: Json) -> BoundCall:
        """A block with its tool and its input, read once."""
        ...

    def unusable(self, call: BoundCall) -> ToolOutcome | None:
        """Why a call cannot run whoever permits it; nobody is asked about such a call."""
        ...

    async def doomed(self, call: BoundCall, may_look: Callable[[str], bool]) -> ToolOutcome | None:
        """Why a call would fail whoever permits it, by the files that it would work on, where these
        may be looked at; somebody is asked about any other call."""
        ...

    def question(self, call: BoundCall) -> tuple[QuestionKind, str]:
        """What kind of question a person is asked about a call, and what they should see first."""
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
        """`is_confined`: a shell runs behind the read-only wall (see `agent.toolset`)."""
        ...


# A question that waits longer is told of to hooks: whoever is there has answered by then.
NOTIFY_AFTER_S = 6.0


class Question(Struct, frozen=True, kw_only=True):
    """A call that wants a person's word, and why it does.

    For `choices` the answers go back in the input that is granted; for `plan` a yes begins the work.
    """

    block: Json
    title: str
    decision: Decision
    why: str
    kind: QuestionKind = "permission"
    body: str = ""
    # The call's command line, where it has one.
    line: "CommandLine | None" = None
    # The agent whose call it is; empty for the session's own.
    agent_id: str = ""
    agent: str = ""

    @property
    def request(self) -> PermissionRequest:
        """The call as rules judge it."""
        return PermissionRequest(tool=self.block["name"], input=self.block["input"], line=self.line)


class Granted(Struct, frozen=True, kw_only=True):
    """Yes; with `input`, to this call instead."""

    input: Json | None = None


class Refused(Struct, frozen=True, kw_only=True):
    """No: `words` are what the model reads. `stop` ends the turn as well. `is_nobodys`: there is nobody
    who could have been asked."""

    words: str
    stop: bool = False
    by_person: bool = True
    is_nobodys: bool = False


Verdict: TypeAlias = Granted | Refused


class Reviewed(Struct, frozen=True, kw_only=True):
    """What became of a call under review; `record` stands with its result in the log."""

    decision: Decision
    record: Json


async def skip_review(_: BoundCall, needed: NeedsReview) -> Reviewed:
    """There is no reviewer: a person decides."""
    return Reviewed(
        decision=apply_review(needed, None), record={"verdict": "none", "why": "no reviewer"}
    )


class Hooks(Protocol):
    """A person's programs that are told what happens, and may have a say in it.

    An event without a hook costs a look in a table. Failures of hooks are part of the outcome.
    """

    async def fire(
        self, event: str, fields: Json, emit: Emit, call: BoundCall | None = None, /
    ) -> HookOutcome:
        """Runs the hooks of an event; `fields` are those the event has of its own, `call` is the call
        that it is about."""
        ...

    async def waiting(self, emit: Emit, /) -> HookOutcome:
        """What came of those that nobody waited for: from the session's start, or in the background."""
        ...


class ConversationCompactor(Protocol):
    """Shortens a conversation that outgrows its window (`agent.compaction.compactor`).

    Both answer whether the conversation is another one now, so that the request is to be made anew.
    """

    async def make_room(self, deps: "Deps", request: ModelRequest, emit: Emit, /) -> bool:
        """Before a request leaves."""
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
        """When a request did not fit, for the so-many-eth time in a row; without `due`, when an
        answer filled the window."""
        ...

    async def run(self, deps: "Deps", order: CompactSession, emit: Emit, /) -> TurnEnded:
        """When a person says so, between two turns."""
        ...


class ThoughtReports(Protocol):
    """What the service says of the thoughts that a request sends back (`agent.requests`)."""

    @property
    def bound(self) -> Bound | None:
        """What the thoughts of the answer to the last request are bound to."""
        ...

    def refused(self, words: str) -> bool:
        """Whether the next request will be another, now that this one was refused with these words."""
        ...

    def dropped(self, answer: Json) -> list[Repair]:
        """The thoughts that the service left out of the last request, as far as nobody was told."""
        ...


class MoneyBudget(Struct, frozen=True, kw_only=True):
    """Dollars that this run may spend on top of what was `before`."""

    usd: Decimal
    before: Decimal

    def is_spent(self, spend: Spend) -> bool:
        return is_spent(spend, self.before + self.usd)


async def nothing_new() -> tuple[str, ...]:
    return ()


async def nobody_late() -> Sequence[Json]:
    """Servers of a subagent, for instance, were waited for before it began."""
    return ()


async def stays() -> bool:
    return False


class ModelAccess(Struct, frozen=True, kw_only=True):
    """The way to the model, from the story to its next answer."""

    prepare: Callable[[Story], Prepared]
    new_answer: Callable[[], AnswerDriver]
    # Add the size of its input to a request, where that decides something.
    measure: Callable[[ModelRequest, History], Awaitable[ModelRequest]]
    thoughts: ThoughtReports
    # The same conversation for a model of the fallback chain; None where all models take the same.
    for_fallback: Callable[[Story, str], Prepared] | None = None
    # Sees what is sent, and says why the service's cache missed.
    cache: Watch
    catalog: ModelCatalog


class CallApproval(Struct, frozen=True, kw_only=True):
    """Who decides whether a call may run: the rules, then a reviewer (mode auto), then the user."""

    judge: Callable[[BoundCall], Decision]
    ask: Callable[[Question], Awaitable[Verdict]]
    review: Callable[[BoundCall, NeedsReview], Awaitable[Reviewed]] = skip_review
    # What the current mode makes of a finding that no rule made.
    apply_mode: Callable[[Finding], Decision] = lambda finding: make_decision([finding])
    # Change the rules, as a hook answered in the user's place; returns what was wrong.
    update_permissions: Callable[[list[Json]], str] = lambda _: ""
    # How long a question waits for its answer before hooks hear of it.
    notify_after_s: float = NOTIFY_AFTER_S
    # A call can be deferred until the session is resumed.
    can_defer: bool = False


class Arrivals(Struct, frozen=True, kw_only=True):
    """What reaches the conversation from outside while it runs."""

    # Take what the user typed and what background tasks reported meanwhile.
    take_messages: Callable[[], Sequence[Json]]
    # Wait, within bounds, for what a request should know of; returns entries for the model.
    await_late: Callable[[], Awaitable[Sequence[Json]]] = nobody_late
    # Entries for the model after the results of a round: memory of the folders it enters.
    after_results: Callable[[Sequence[Json]], Sequence[Json]]
    # Read changed settings before a turn; returns notices.
    refresh_settings: Callable[[], Awaitable[tuple[str, ...]]] = nothing_new


class TurnClock(Struct, frozen=True, kw_only=True):
    """The time, and ids that occur once. `monotonic_s` never goes back."""

    now: Callable[[], str]
    new_id: Callable[[], str]
    monotonic_s: Callable[[], float]


class TurnLimits(Struct, frozen=True, kw_only=True):
    """How far a turn may go. `budget` holds against what `Deps.spending` counts."""

    max_rounds: int | None = None
    budget: MoneyBudget | None = None
    max_parallel: int = 10


class TurnSurroundings(Struct, frozen=True, kw_only=True):
    """The session around a turn, as far as hooks are told of it and a turn depends on it."""

    list_background: Callable[[], list[Json]] = list
    list_schedules: Callable[[], list[Json]] = list
    # The folder the shell is in.
    shell_folder: Callable[[], str] = str
    # Between two steps: whether the turn ends here because it continues elsewhere.
    should_leave: Callable[[], Awaitable[bool]] = stays


class Deps(Struct, frozen=True, kw_only=True):
    """Handed to a turn; the same for every turn of a session except where a setting changed."""

    story: Story
    model: ModelAccess
    tools: Toolset
    approval: CallApproval
    arrivals: Arrivals
    clock: TurnClock
    # What the turns cost and how long they took.
    spending: SessionTracker
    limits: TurnLimits = TurnLimits()
    hooks: Hooks
    compaction: ConversationCompactor
    surroundings: TurnSurroundings = TurnSurroundings()


# Before something leaves or is done: everything said so far is on disk, or people are told why not.


async def ensure_saved(deps: Deps, emit: Emit) -> None:
    """Everything said so far is durable; where it cannot be, that is told once, and when it is again."""
    await deps.story.durable()
    if news := deps.story.recorder.news():
        await emit(NotSaved(messages=news))
