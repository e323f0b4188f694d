"""The state of a session as a value, and the events that change it.

Every change is an event and is sent to all listeners, first to the transcript writer. The state
cannot change in any other way. Values that can be summed from the transcript (tokens, cost) are in
the ledger instead.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, assert_never, get_args

from msgspec import Struct
from msgspec.structs import replace

from clew.core.ledger.ledger import Charge, Spend, Sums

Status: TypeAlias = Literal["pending", "in_progress", "completed"]
STATUSES: frozenset[str] = frozenset(get_args(Status))


class TodoItem(Struct, frozen=True, kw_only=True):
    """One item of the model's todo list."""

    content: str
    status: Status
    active_form: str = ""


class SessionState(Struct, frozen=True, kw_only=True):
    """The current state of a session. `environment` was read once at the start."""

    session_id: str
    original_cwd: str
    started_at: str
    initial_model: str
    environment: Mapping[str, str] = {}
    model_override: str | None = None
    # The models that have responded, in order of their first responses.
    models: tuple[str, ...] = ()
    api_ms: float = 0
    api_without_retries_ms: float = 0
    tool_ms: float = 0
    lines_added: int = 0
    lines_removed: int = 0
    commits: int = 0
    pull_requests: int = 0
    todos: tuple[TodoItem, ...] = ()
    last_interaction_at: str = ""
    is_on_fallback: bool = False

    @property
    def model(self) -> str:
        """The model for the next request."""
        return self.model_override or self.initial_model


class ModelChosen(Struct, frozen=True, kw_only=True, tag="model"):
    """The user chose a model; None means the initial one."""

    model: str | None


class ApiTimed(Struct, frozen=True, kw_only=True, tag="api_time"):
    """The duration of a request on a monotonic clock, in total and for its last attempt only."""

    duration_ms: float
    without_retries_ms: float = 0


class ToolTimed(Struct, frozen=True, kw_only=True, tag="tool_time"):
    """The duration of a tool call."""

    duration_ms: float


class LinesChanged(Struct, frozen=True, kw_only=True, tag="lines"):
    """An edit added and removed lines."""

    added: int
    removed: int


class Shipped(Struct, frozen=True, kw_only=True, tag="shipped"):
    """Commits or pull requests were created."""

    commits: int = 0
    pull_requests: int = 0


class TodosSet(Struct, frozen=True, kw_only=True, tag="todos"):
    """The model replaced its todo list."""

    todos: tuple[TodoItem, ...]


def todos_of(outcome: Any) -> TodosSet | None:
    """Return the todo list that a tool result contains, or None for any other result."""
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
    # A completed list is cleared.
    is_done = all(todo.status == "completed" for todo in todos)
    return TodosSet(todos=() if is_done else todos)


def find_last_todos(entries: Sequence[dict[str, Any]]) -> tuple[TodoItem, ...]:
    """Return the todo list at the end of a conversation."""
    for entry in reversed(entries):
        todo_set = todos_of(entry.get("toolUseResult")) or _told_again(entry.get("attachment"))
        if todo_set is not None:
            return todo_set.todos
    return ()


def _told_again(payload: Any) -> TodosSet | None:
    """Return the todo list in an attachment that repeats it after a compaction, or None.

    The lists of other tools lack `activeForm` and are ignored.
    """
    if type(payload) is not dict or payload.get("type") != "todo":
        return None
    listed = payload.get("content")
    items = listed if type(listed) is list else ()
    if not all(type(t) is dict and "activeForm" in t for t in items):
        return None
    return todos_of({"newTodos": items})


class Interacted(Struct, frozen=True, kw_only=True, tag="interacted"):
    """The user interacted with the session."""

    at: str


class FallbackChanged(Struct, frozen=True, kw_only=True, tag="fallback"):
    """Requests switched to the fallback model or back."""

    active: bool


Change: TypeAlias = (
    ModelChosen | ApiTimed | ToolTimed | LinesChanged | Shipped | TodosSet | Interacted
    | FallbackChanged
)  # fmt: skip


def apply(state: SessionState, change: Change) -> SessionState:
    """Return the state after a change."""
    match change:
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
        case Interacted():
            return replace(state, last_interaction_at=change.at)
        case FallbackChanged():
            return replace(state, is_on_fallback=change.active)
        case _:
            assert_never(change)


Listener: TypeAlias = Callable[[Change | Charge, SessionState], None]


class SessionTracker:
    """The object through which all changes to a session's state and ledger are made.

    Listeners are called in order and synchronously. A listener that writes to disk merely queues
    the data, so a change never waits for the disk.
    """

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
        """Record the cost of a response; the total is updated at once."""
        self._ledger.add(charge)
        if charge.model not in self._state.models:
            self._state = replace(self._state, models=(*self._state.models, charge.model))
        self._tell(charge)

    def _tell(self, event: Change | Charge) -> None:
        for listener in self._listeners:
            listener(event, self._state)


# The session's state and ledger as used by a subagent's conversation.


class SideLedger(SessionTracker):
    """A view of the session's tracker for one subagent; `spent` is this subagent's cost."""

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
