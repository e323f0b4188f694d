"""Compaction of a session: its settings, and the facts that a summary can't carry.

The compactor is loaded only when a conversation comes near its limit or the user asks for a
compaction; in most sessions, neither happens.
"""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from clew.agent.calls import BoundCall
from clew.agent.compaction.budget import Room, at_of, divide_window
from clew.agent.context.facts import Fact, find_listed_tools, make_plan_fact, make_tool_listing_fact
from clew.agent.context.opening import Opening
from clew.agent.deps import Deps, Emit
from clew.agent.events import TurnEnded
from clew.core.input import CompactSession, Pick, PickRow
from clew.core.json_object import Json
from clew.core.messages.history import History
from clew.core.normalize.select import find_beginning, find_references
from clew.core.normalize.target import Target
from clew.core.normalize.tokens import count_text_chars
from clew.parts.background_tasks import find_unended
from clew.parts.context import Ground
from clew.parts.hooks import report_loaded
from clew.parts.part import Part, PartContext
from clew.parts.planning import OwnSession
from clew.parts.skills.part import SessionSkills
from clew.permissions.decision import Allow
from clew.providers.answer_events import CompactionDue
from clew.providers.base import ModelRequest
from clew.system.clock import get_timestamp
from clew.system.config.settings import read_switch, value_in
from clew.system.files import is_there, read_content

TYPE_CHECKING = False
if TYPE_CHECKING:
    from clew.agent.compaction.compactor import Compactor

# A session of this size whose cache has expired is not resumed without asking.
LARGE_TOKENS = 100_000
COLD_AFTER_S = 3600.0
# A history with more characters per token of the window than this can't fit. Typical text has three
# to five characters per token.
MOST_CHARS = 8
USUAL_CHARS = 4
INSTRUCTIONS = "instructions"
# The maximum number of bytes read from a file that is sent again.
FILE_MAX_BYTES = 256 * 1024


class SessionCompaction(Part):
    """The part that compacts the conversation of a session or a subagent.

    It checks cheaply whether a compaction is due, and only then loads the `Compactor`.
    `list_agents` and `reads_memory` determine which facts are restored after a summary.
    """

    name = "compaction"
    _context: PartContext

    def __init__(
        self,
        ground: Ground,
        opening: Opening,
        planning: OwnSession,
        skills: SessionSkills,
        list_agents: Callable[[History], Fact | None],
        *,
        reads_memory: bool = True,
    ) -> None:
        self._ground = ground
        self._opening = opening
        self._planning = planning
        self._skills = skills
        self._list_agents = list_agents
        self._reads_memory = reads_memory
        self._compactor: Compactor | None = None
        self._spoke_s: float | None = None
        self._idle_s = 0.0
        self._is_weighed = False

    async def open(self, context: PartContext, /) -> None:
        self.take_up(context)

    def take_up(self, context: PartContext) -> None:
        """Switch to this conversation."""
        self._context = context

    # -- interface for the loop

    async def make_sendable(self, deps: Deps, emit: Emit) -> bool:
        if self._is_weighed or self._context.thread.loaded is None:
            return False
        self._is_weighed = True
        story, template = deps.story, self._context.requests.template
        history = story.history
        if find_references(history):
            return False  # Requests do not contain all of the results in the history.
        entries = [history[place] for place in range(find_beginning(history), len(history))]
        messages = (entry.get("message") for entry in story.edits.apply(entries))
        chars = sum(count_text_chars(m.get("content")) for m in messages if isinstance(m, dict))
        self._context.measure.check_usage(history, chars)
        window = self.room(template.model, None).window
        most = Target().max_body_bytes
        if window is not None:
            most = min(most, window * MOST_CHARS)
        if chars <= most or not self.is_on():
            return False
        size = chars // USUAL_CHARS
        is_done = await self._loaded().make_sendable(deps, template, size, emit)
        self._is_weighed = is_done
        return is_done

    async def make_room(self, deps: Deps, request: ModelRequest, emit: Emit) -> bool:
        self._idle_s, self._spoke_s = self.idle_s(), time.monotonic()
        size = self._context.measure.estimate(request, deps.story.history)
        if not self.is_on() or size < self.room(request.model, None).cold:
            return False
        return await self._loaded().make_room(deps, request, emit)

    async def after_overflow(
        self, deps: Deps, request: ModelRequest, due: CompactionDue | None, tries: int, emit: Emit
    ) -> bool:
        return await self._loaded().after_overflow(deps, request, due, tries, emit)

    async def run(self, deps: Deps, order: CompactSession, emit: Emit) -> TurnEnded:
        return await self._loaded().run(deps, order, emit)

    def _loaded(self) -> "Compactor":
        if self._compactor is None:
            from clew.agent.compaction.compactor import CompactionContext, Compactor
            from clew.agent.compaction.summary import Summaries

            self._compactor = Compactor(
                CompactionContext(
                    room=self.room,
                    is_on=self.is_on,
                    estimate=self._context.measure.estimate,
                    summaries=Summaries(
                        lambda request: self._context.thread.side.put(request, "compaction")
                    ),
                    facts=self.facts_behind,
                    todos=self.todos,
                    keep=self.keep,
                    idle_s=lambda: self._idle_s,
                    strategy=self._ground.compact,
                )
            )
        return self._compactor

    def spoke(self) -> None:
        """Record that a request was sent just now, which refreshes the service's cache."""
        self._spoke_s = time.monotonic()

    def is_due(self, request: ModelRequest, history: History) -> bool:
        """Return whether the conversation will probably be compacted before the next request."""
        most = self.auto_at(request.model)
        return most is not None and self._context.measure.estimate(request, history) >= most

    # -- settings

    def is_on(self) -> bool:
        """Return whether automatic compaction is turned on."""
        if self._ground.environment.switch("auto_compact_disabled"):
            return False
        return bool(read_switch(self._settings(), "autoCompactEnabled"))

    def room(self, model: str, learnt: int | None) -> Room:
        """Return how a model's context window is divided, according to the settings."""
        entry = self._ground.service.catalog.entry(model)
        window = entry.context_window or learnt
        wanted = self._ground.options.autocompact or self._ground.environment.number("auto_window")
        if wanted is not None:
            window = wanted if window is None else min(window, wanted)
        return divide_window(window, output=entry.default_output, at=self._at(entry.id))

    def auto_at(self, model: str) -> int | None:
        """Return the size at which a model's conversations are compacted; None if they are not."""
        return self.room(model, None).auto if self.is_on() else None

    def offer(self) -> Pick | None:
        """Return an offer to compact a large session whose cache has expired, or None."""
        model = self._context.requests.template.model
        history = self._context.thread.story.history
        if self._context.thread.loaded is None or self.idle_s() < COLD_AFTER_S:
            return None
        size = self._context.measure.estimate(self._context.requests.template, history)
        if size < min(self.room(model, None).cold, LARGE_TOKENS):
            return None
        text = (
            f"This session has about {size:,} tokens and is no longer cached, so the next request "
            "pays full price for all of them. Compacting takes one such request and makes later "
            "ones small."
        )
        rows = (
            PickRow(line="", label="Resume the full session"),
            PickRow(line="/compact", label="Compact first"),
        )
        return Pick(title="Resume a large session", rows=rows, text=text)

    def _at(self, model: str) -> float | None:
        return at_of(value_in(self._settings(), "autoCompactAt"), model)

    def _settings(self) -> Json:
        return self._ground.rules.standing.settings

    def idle_s(self) -> float:
        """Return the seconds since the last request.

        In a resumed session that has not sent a request yet, use the time in its transcript.
        """
        if self._spoke_s is not None:
            return time.monotonic() - self._spoke_s
        history = self._context.thread.story.history
        for place in range(len(history) - 1, -1, -1):
            if history[place].get("type") == "assistant":
                return seconds_since(history[place].get("timestamp"))
        return 0.0

    # -- facts that a summary does not carry

    def todos(self) -> Sequence[Json]:
        """Return the session's task list, from whichever tool keeps it."""
        listed = self._context.tool_session.todos
        if listed or not is_there(self._planning.task_folder):
            return listed
        from clew.agent.tools.tasks import TaskList

        return [
            {"content": f"#{task.id} {task.subject}", "status": task.status}
            for task in TaskList(self._planning.task_folder).tasks()
        ]

    def keep(self, text: str) -> str | None:
        """Save text to a file that the Read tool may access.

        Return the file's path, or None on failure.
        """
        from clew.agent.tools.spill import keep

        data = text.encode("utf-8", "backslashreplace")
        path = keep(self._context.tool_session.spill_folder, data)
        return None if path is None else str(path)

    async def facts_behind(
        self, covered: Sequence[Json], kept_entries: Sequence[Json], room: Room
    ) -> list[Fact]:
        """Return the facts that the model needs again after a compaction.

        These are the current surroundings and instructions, attachments that are carried over, the
        plan, the tasks and the files in use.
        """
        from clew.agent.compaction import kept as keeping

        model = self._context.requests.template.model
        deferred = [n for n in self._context.requests.deferred() if self._context.toolbox.get(n)]
        cwd = Path(self._context.tool_session.shell.project)
        around = await self._opening.facts(model=model, day=get_timestamp()[:10], cwd=cwd)
        if self._reads_memory:
            report_loaded(self._context.hooks, around, "compact")
        facts = [
            *(
                fact
                for fact in around
                if self._reads_memory or fact.payload["type"] != INSTRUCTIONS
            ),
            *keeping.collect_carried_facts(covered),
            *self._skills.kept(covered, kept_entries),
            make_tool_listing_fact(find_listed_tools(kept_entries), deferred),
            self._list_agents(History(kept_entries)),
            self._new_skills(History(kept_entries)),
            make_plan_fact(self._ground.rules, kept_entries, self._ground.options.planning),
            self._plan(),
            keeping.todos_fact(self.todos()),
            keeping.tasks_fact(find_unended(self._context.tool_session)),
            *keeping.read_recent_files(
                covered, kept_entries, self._read, total_tokens=room.files, file_tokens=room.file
            ),
        ]
        return list(keeping.select_new_facts(filter(None, facts), kept_entries))

    def _new_skills(self, history: History) -> Fact | None:
        return self._skills.news(history) if self._context.requests.offers("Skill") else None

    def _plan(self) -> Fact | None:
        from clew.agent.compaction.kept import plan_file_fact

        path = self._planning.plan_file
        text = self._text(path)
        return None if text is None else plan_file_fact(str(path), text)

    def _read(self, path: str) -> str | None:
        """Return the text of a file if the session may read it without asking, else None."""
        block = {"type": "tool_use", "id": "", "name": "Read", "input": {"file_path": path}}
        call = BoundCall(block=block)
        is_allowed = isinstance(self._context.judge(call), Allow)
        real = call.places.get(path)
        return self._text(Path(real), through_links=False) if is_allowed and real else None

    def _text(self, path: Path, *, through_links: bool = True) -> str | None:
        try:
            data = read_content(path, FILE_MAX_BYTES, through_links=through_links)
            return data.decode("utf-8")
        except (OSError, ValueError):
            return None


def seconds_since(timestamp: object) -> float:
    """Return the age of an entry in seconds; infinite if its time is unreadable."""
    try:
        at = datetime.fromisoformat(str(timestamp))
    except ValueError:
        return float("inf")
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return (datetime.now(UTC) - at).total_seconds()
