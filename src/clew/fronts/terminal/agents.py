"""The tree of running subagents, in the live area."""

from __future__ import annotations

from clew.fronts.render.agents import AgentRow, render_agents
from clew.fronts.render.rows import Line, format_row
from clew.fronts.render.theme import Theme

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from clew.agent.events import EngineEvent
    from clew.agent.tasks.registry import BackgroundTask
    from clew.session.session import Session

KIND = "agent"
MOST_ROWS = 8


class AgentTree:
    """The running agents of a session, each with its latest action."""

    def __init__(self) -> None:
        self._session: Session | None = None
        # The title of each agent's last call.
        self._steps: dict[str, str] = {}

    def follow(self, session: Session | None) -> None:
        self._session, self._steps = session, {}

    @property
    def is_shown(self) -> bool:
        return bool(self._running())

    def _running(self) -> list[BackgroundTask]:
        if self._session is None:
            return []
        return [task for task in self._session.parts.tasks.running if task.kind == KIND]

    def heed(self, event: EngineEvent) -> None:
        """Record a call that a subagent makes."""
        from clew.agent.events import FromAgent, ToolStarted

        if isinstance(event, FromAgent) and isinstance(event.event, ToolStarted):
            self._steps[event.agent_id] = event.event.title

    def lines(self, width: int, rows: int, theme: Theme) -> list[Line]:
        """Return the tree, in at most `rows` rows."""
        running = self._running()
        if not running:
            self._steps.clear()
            return []
        agents = list(self._below("", running, 0))
        return [
            format_row(row) for row in render_agents(agents, width, min(rows, MOST_ROWS), theme)
        ]

    def _below(
        self, owner: str, running: Sequence[BackgroundTask], depth: int
    ) -> Iterator[AgentRow]:
        """Yield the agents that `owner` started, each followed by the agents it started itself.

        An empty `owner` stands for the session.
        """
        ids = {task.id for task in running}
        for task in running:
            # An agent whose parent has ended is shown at the top.
            if task.owner == owner or (not owner and task.owner not in ids):
                yield self._row(task, depth)
                yield from self._below(task.id, running, depth + 1)

    def _row(self, task: BackgroundTask, depth: int) -> AgentRow:
        assert self._session is not None
        agent, usage = self._session.parts.agents.running(task.id), task.usage
        kind = "" if agent is None else agent.birth.spec.name
        tokens = 0 if agent is None else agent.tale.usage.tokens
        return AgentRow(
            name=": ".join(filter(None, (kind, task.title))),
            depth=depth,
            calls=0 if usage is None else usage.tool_uses,
            tokens=tokens,
            lasted_s=task.duration_ms / 1000,
            step=self._steps.get(task.id, ""),
            is_background=task.is_background,
        )
