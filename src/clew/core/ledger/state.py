"""The state of a session: a value, and the events that change it.

Every change is an event, and every event is told to whoever listens, the writer of the log first of all;
there is no second way. What can be summed from the log (tokens, cost) is not kept here but in the ledger.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, assert_never, get_args

from msgspec import Struct
from msgspec.structs import replace

from clew.core.ledger.ledger import Charge, Spend, Sums

Status: TypeAlias = Literal["pending", "in_progress", "completed"]
STATUSES: frozenset[str] = frozenset(get_args(Status))


class TodoItem(Struct, frozen=True, kw_only=True):
    """One thing to do, as the model keeps its list."""

    content: str
    status: Status
    active_form: str = ""


class SessionState(Struct, frozen=True, kw_only=True):
    """What is true of a session now. `environment` was read once, at the start."""

    session_id: str
    original_cwd: str
    cwd: str
    started_at: str
    initial_model: str
    environment: Mapping[str, str] = {}
    model_override: str | None = None
    models: tuple[str, ...] = ()
    api_ms: float = 0
    api_without_retries_ms: float = 0
    tool_ms: float = 0
    lines_added: int = 0
    lines_removed: int = 0
    commits: int = 0
    pull_requests: int = 0
    todos: tuple[TodoItem, ...] = ()
    allowed: frozenset[str] = frozenset()
    last_interaction_at: str = ""
    is_on_fallback: bool = False

    @property
    def model(self) -> str:
        """The model of the next request."""
        return self.model_override or self.initial_model


class Moved(Struct, frozen=True, kw_only=True, tag="moved"):
    """The working folder changed; the original one never does."""

    cwd: str


class ModelChosen(Struct, frozen=True, kw_only=True, tag="model"):
    """Another model from now on; None goes back to the first."""

    model: str | None


class ApiTimed(Struct, frozen=True, kw_only=True, tag="api_time"):
    """A request took so long, on a clock that only goes forward; its last attempt alone so long."""

    duration_ms: float
    without_retries_ms: float = 0


class ToolTimed(Struct, frozen=True, kw_only=True, tag="tool_time"):
    """A tool took so long."""

    duration_ms: float


class LinesChanged(Struct, frozen=True, kw_only=True, tag="lines"):
    """A file was edited."""

    added: int
    removed: int


class Shipped(Struct, frozen=True, kw_only=True, tag="shipped"):
    """Commits or pull requests were made."""

    commits: int = 0
    pull_requests: int = 0


class TodosSet(Struct, frozen=True, kw_only=True, tag="todos"):
    """The model wrote its list anew."""

    todos: tuple[TodoItem, ...]


def todos_of(outcome: Any) -> TodosSet | None:
    """The list a tool's result leaves behind; None for a result of any other kind."""
    listed = outcome.get("newTodos") if type(outcome) is dict else None
    if type(listed) is not list:
        return None
    with_form = (t | {"activeForm": t.get("activeForm") or ""} for t in listed if type(t) is dict)
    todos = tuple(
        TodoItem(content=t["content"], status=t["status"], active_form=t["activeForm"])
        for t in with_form
        if type(t.get("content")) is str
        and t.get("status") in STATUSES
        and type(t["activeForm"]) is str
    )
    # A list that is done is done with.
    is_done = all(todo.status == "completed" for todo in todos)
    return TodosSet(todos=() if is_done else todos)


def find_last_todos(entries: Sequence[dict[str, Any]]) -> tuple[TodoItem, ...]:
    """The list as a conversation left it."""
    for entry in reversed(entries):
        todo_set = todos_of(entry.get("toolUseResult")) or _told_again(entry.get("attachment"))
        if todo_set is not None:
            return todo_set.todos
    return ()


def _told_again(payload: Any) -> TodosSet | None:
    """The list as it was told behind a summary that covers the result which made it; what another
    tool keeps has no such form and is kept there."""
    if type(payload) is not dict or payload.get("type") != "todo":
        return None
    listed = payload.get("content")
    items = listed if type(listed) is list else ()
    if not all(type(t) is dict and "activeForm" in t for t in items):
        return None
    return todos_of({"newTodos": items})


class Allowed(Struct, frozen=True, kw_only=True, tag="allowed"):
    """A person allowed this for the session."""

    rule: str


class Interacted(Struct, frozen=True, kw_only=True, tag="interacted"):
    """A person did something."""

    at: str


class FallbackChanged(Struct, frozen=True, kw_only=True, tag="fallback"):
    """Requests go to the fallback model, or no longer."""

    active: bool


Change: TypeAlias = (
    Moved | ModelChosen | ApiTimed | ToolTimed | LinesChanged | Shipped | TodosSet | Allowed
    | Interacted | FallbackChanged
)  # fmt: skip


def apply(state: SessionState, change: Change) -> SessionState:
    """The state after a change."""
    match change:
        case Moved():
            return replace(state, cwd=change.cwd)
        case ModelChosen():
            return replace(state, model_override=change.model)
        case ApiTimed():
            return replace(
                state,
                api_ms=state.api_ms + change.duration_ms,
                api_without_retries_ms=state.api_without_retries_ms + change.without_retries_ms,
            )
        case ToolTimed():
            return replace(state, tool_ms=state.tool_ms + change.duration_ms)
        case LinesChanged():
            return replace(
                state,
                lines_added=state.lines_added + change.added,
                lines_removed=state.lines_removed + change.removed,
            )
        case Shipped():
            return replace(
                state,
                commits=state.commits + change.commits,
                pull_requests=state.pull_requests + change.pull_requests,
            )
        case TodosSet():
            return replace(state, todos=change.todos)
        case Allowed():
            return replace(state, allowed=state.allowed | {change.rule})
        case Interacted():
            return replace(state, last_interaction_at=change.at)
        case FallbackChanged():
            return replace(state, is_on_fallback=change.active)
        case _:
            assert_never(change)


Listener: TypeAlias = Callable[[Change | Charge, SessionState], None]


class SessionTracker:
    """The one way to a session's state and ledger. Listeners are called in order, at once; one that
    writes only queues, so that a change waits for no disk."""

    def __init__(self, state: SessionState, ledger: Sums | None = None) -> None:
        self._state = state
        self._ledger = Sums() if ledger is None else ledger
        self._listeners: list[Listener] = []

    @property
    def state(self) -> SessionState:
        return self._state

    @property
    def ledger(self) -> Sums:
        return self._ledger

    def listen(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def change(self, change: Change) -> None:
        self._state = apply(self._state, change)
        self._tell(change)

    def charge(self, charge: Charge) -> None:
        """Takes in what a response cost; the total is right from now on."""
        self._ledger.add(charge)
        self._tell(charge)

    def _tell(self, event: Change | Charge) -> None:
        for listener in self._listeners:
            listener(event, self._state)


# The state and the ledger of a session as a conversation beside it changes them. Pure.


class SideLedger(SessionTracker):
    """`spent` is what this conversation alone came to."""

    def __init__(self, session: SessionTracker, agent_id: str) -> None:
        self._session = session
        self._agent_id = agent_id
        self.spent = Spend()

    @property
    def state(self) -> SessionState:
        return self._session.state

    @property
    def ledger(self) -> Sums:
        return self._session.ledger

    def listen(self, listener: Listener) -> None:
        self._session.listen(listener)

    def change(self, change: Change) -> None:
        if not isinstance(change, TodosSet):
            self._session.change(change)

    def charge(self, charge: Charge) -> None:
        before = self.ledger.total
        purpose = "subagent" if charge.purpose == "turn" else charge.purpose
        self._session.charge(replace(charge, purpose=purpose, agent=self._agent_id))
        self.spent += self.ledger.total - before
