"""The todo list that stays visible above the prompt while it has open items."""

from __future__ import annotations

from clew.fronts.render.rows import Line, format_row
from clew.fronts.render.theme import Theme
from clew.fronts.render.todos import render_pinned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from clew.agent.events import EngineEvent
    from clew.core.json_object import Json
    from clew.session.session import Session

# The most rows of the list, and its largest share of the terminal.
MOST_ROWS, SHARE = 10, 3
TOOLS = frozenset({"TodoWrite", "TaskCreate", "TaskUpdate"})


class PinnedTodos:
    """The todo list and its state, collapsed or expanded.

    `key` is the key that switches the state.
    """

    def __init__(self) -> None:
        self.key = ""
        self._todos: Sequence[Json] = ()
        self._is_open = True

    @property
    def is_shown(self) -> bool:
        return any(todo.get("status") != "completed" for todo in self._todos)

    def update(self, todos: Sequence[Json]) -> None:
        self._todos = todos

    def toggle(self) -> None:
        self._is_open = not self._is_open

    def lines(self, width: int, rows: int, theme: Theme, *, is_open: bool = True) -> list[Line]:
        """Return the list for a terminal with `rows` rows.

        Unless `is_open`, return a single row.
        """
        if not self.is_shown:
            return []
        most, is_open = min(MOST_ROWS, rows // SHARE), is_open and self._is_open
        pinned = render_pinned(self._todos, width, most, theme, is_open=is_open, key=self.key)
        return [format_row(row) for row in pinned]


def changes_todos(event: EngineEvent) -> bool:
    """Return whether the event ends a call that may have changed the list."""
    from clew.agent.events import FromAgent, ToolFinished

    inner = event.event if isinstance(event, FromAgent) else event
    return isinstance(inner, ToolFinished) and inner.block.get("name") in TOOLS


def read_todos(session: Session) -> list[Json]:
    """Return the steps that the model tracks, and then the tasks of the session."""
    from msgspec import to_builtins

    from clew.agent.tools.tasks import TaskList

    tasks = TaskList(session.parts.planning.task_folder).tasks()
    steps = [
        {"content": step.content, "status": step.status, "activeForm": step.active_form}
        for step in session.costs.spending.state.todos
    ]
    return [*steps, *map(to_builtins, tasks)]
