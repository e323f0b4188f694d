"""A world for turns: a scripted model, scripted tools, and a recorder in memory."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

from msgspec import Struct

from clew.agent.calls import BoundCall, bind
from clew.agent.conversation import Conversation, Inbox, Speaker
from clew.agent.deps import (
    Arrivals,
    CallApproval,
    Deps,
    Emit,
    Granted,
    Hooks,
    ModelAccess,
    Question,
    TurnClock,
    TurnLimits,
    Verdict,
)
from clew.agent.events import EngineEvent, TurnEnded
from clew.agent.hooks.outcome import NOTHING, HookOutcome
from clew.agent.requests import Requests
from clew.agent.spending_cap import SpendingCap
from clew.agent.story import Story
from clew.agent.tools.base import QuestionKind, Tool, ToolContext, ToolOutcome, make_failure
from clew.core.catalog.lookup import CATALOG
from clew.core.input import CompactSession
from clew.core.ledger.cache_miss import CacheMiss
from clew.core.ledger.state import SessionState, SessionTracker
from clew.core.messages.history import History
from clew.core.normalize.prefix import Bound
from clew.core.normalize.repairs import Repair
from clew.core.normalize.target import Target
from clew.core.stream.events import BlockFinished
from clew.permissions.decision import Allow, Ask, Decision, Deny, Finding
from clew.providers.answer import Answering
from clew.providers.answer_events import CompactionDue
from clew.providers.base import ModelRequest
from clew.record.transcript.log import Log
from clew.record.transcript.paths import SessionPaths
from clew.record.transcript.policy import Writer
from clew.record.transcript.record import Recorder
from clew.testing.scenario import from_value
from clew.testing.scripted import ScriptedProvider
from clew.testing.strict import find_complaint

Json = dict[str, Any]
SESSION_ID = "00000000-0000-4000-8000-000000000001"
PERSON = Speaker(source="typed", mode="default")
Act = Callable[[Json], Awaitable[ToolOutcome]]


def allowed() -> Decision:
    return Allow(findings=(Finding(subject="it", verdict="allow", reason="is allowed here"),))


def denied() -> Decision:
    return Deny(findings=(Finding(subject="it", verdict="deny", reason="is denied here"),))


def asked() -> Decision:
    return Ask(findings=(Finding(subject="it", verdict="ask", reason="nobody said"),))


class NoHooks:
    """Hooks that ignore every event."""

    async def fire(
        self, _event: str, _fields: Json, _emit: Emit, _call: BoundCall | None = None, /
    ) -> HookOutcome:
        return NOTHING

    def hears(self, _event: str) -> bool:
        return False

    async def waiting(self, _emit: Emit, /) -> HookOutcome:
        return NOTHING


class NoCompaction:
    """A compactor that does nothing: a conversation that does not fit ends."""

    async def make_sendable(self, _deps: Deps, _emit: Emit, /) -> bool:
        return False

    async def make_room(self, _deps: Deps, _request: ModelRequest, _emit: Emit, /) -> bool:
        return False

    async def after_overflow(
        self,
        _deps: Deps,
        _request: ModelRequest,
        _due: CompactionDue | None,
        _tries: int,
        _emit: Emit,
        /,
    ) -> bool:
        return False

    async def run(self, _deps: Deps, _order: CompactSession, _emit: Emit, /) -> TurnEnded:
        return TurnEnded(reason="failed", message="this conversation cannot be shortened")


class NoThoughts:
    """No knowledge about thinking blocks."""

    bound: Bound | None = None

    def refused(self, _: str) -> bool:
        return False

    def dropped(self, _: Json) -> list[Repair]:
        return []


class NoWatch:
    """No cache watch."""

    def sent(self, _request: ModelRequest, _history: History, _at: str) -> None:
        return None

    def answered(self, _message: Json, _model: str, _at: str) -> CacheMiss | None:
        return None


async def unmeasured(request: ModelRequest, _: History) -> ModelRequest:
    return request


class AnyInput(Struct, frozen=True):
    values: dict[str, Any]


class ScriptedTool(Tool[AnyInput]):
    """A tool that does what a test says.

    Tools whose names begin with `Read` may run at the same time.
    """

    description = "does what a test says"
    input_type = AnyInput
    foreign_schema: ClassVar[Json] = {"type": "object"}

    def __init__(self, name: str) -> None:
        self.name = name

    def is_concurrency_safe(self, given: AnyInput) -> bool:
        return self.name.startswith("Read")

    def title(self, given: AnyInput) -> str:
        return f"{self.name} {given.values}"

    async def call(self, given: AnyInput, ctx: ToolContext) -> ToolOutcome:
        raise NotImplementedError


class Tools:
    """Tools by name; those whose names begin with `Read` may run at the same time."""

    def __init__(self, acts: dict[str, Act]) -> None:
        self._acts = acts
        self.log: list[str] = []

    def definitions(self) -> list[Json]:
        return [
            {"name": name, "description": name, "input_schema": {"type": "object"}}
            for name in self._acts
        ]

    def meant(self, block: Json) -> Json:
        return block

    async def credited(self, call: BoundCall, message_uuid: str) -> BoundCall:
        return call

    def bind(self, block: Json) -> BoundCall:
        name = block["name"]
        if name in self._acts:
            return bind(ScriptedTool(name), block)
        return bind(None, block, make_failure(f"no tool {name}"))

    def unusable(self, call: BoundCall) -> ToolOutcome | None:
        return call.fault

    async def doomed(self, call: BoundCall, may_look: Callable[[str], bool]) -> ToolOutcome | None:
        return None

    def question(self, call: BoundCall) -> tuple[QuestionKind, str]:
        return "permission", ""

    @property
    def has_walls(self) -> bool:
        return True

    async def can_confine(self) -> bool:
        return True

    async def look_up(self) -> bool:
        return False

    async def run(
        self,
        call: BoundCall,
        *,
        message_uuid: str,
        progress: Callable[[Any], Awaitable[None]],
        is_confined: bool = False,
    ) -> ToolOutcome:
        name = f"{call.name}{call.given.values.get('n', '')}"
        self.log.append(f"begin {name}")
        try:
            await progress("under way")
            return await self._acts[call.name](call.given.values)
        finally:
            self.log.append(f"end {name}")


async def says_ok(given: Json) -> ToolOutcome:
    return ToolOutcome(content=f"ok {given.get('n', '')}".strip(), tool_use_result={"n": given})


class World:
    def __init__(
        self,
        *answers: Json,
        acts: dict[str, Act] | None = None,
        judge: Callable[[BoundCall], Decision] = lambda _: allowed(),
        ask: Callable[[Question], Awaitable[Verdict]] | None = None,
        max_rounds: int | None = None,
        home: Path = Path("/nowhere"),
        log: Log | None = None,
        budget_usd: str = "",
        hooks: Hooks | None = None,
    ) -> None:
        self.provider = ScriptedProvider(from_value({"scenario": 1, "answers": list(answers)}))
        self.tools = Tools({"Read": says_ok, "Write": says_ok} if acts is None else acts)
        self.events: list[EngineEvent] = []
        self.block_finished = asyncio.Event()
        recorder = Recorder(
            paths=SessionPaths(home=home, cwd="/", session_id=SESSION_ID),
            log=log,
            writer=Writer(session_id=SESSION_ID, cwd="/", version="0.1.0"),
            now=self.now,
        )
        self.story = Story(recorder)
        template = ModelRequest(
            model="claude-sonnet-5-5", messages=[], tools=self.tools.definitions(), max_tokens=500
        )
        self.requests = Requests(template, Target())
        self.inbox = Inbox()
        self.session = SessionTracker(
            SessionState(
                session_id=SESSION_ID,
                original_cwd="/",
                started_at=self.now(),
                initial_model="claude-sonnet-5-5",
            )
        )
        cap = None
        if budget_usd:
            cap = SpendingCap(
                Decimal(budget_usd),
                spent=lambda: self.session.ledger.total.usd,
                catalog=CATALOG,
                now=self.now,
            )
        self.deps = Deps(
            story=self.story,
            model=ModelAccess(
                prepare=self.requests,
                new_answer=lambda: Answering(
                    self.provider, new_tool_id=lambda: f"toolu_{uuid4().hex}", cap=cap
                ),
                measure=unmeasured,
                thoughts=NoThoughts(),
                cache=NoWatch(),
                catalog=CATALOG,
            ),
            tools=self.tools,
            approval=CallApproval(judge=judge, ask=ask or self._yes, notify_after_s=0.0),
            arrivals=Arrivals(take_messages=self.inbox.take, after_results=lambda _: ()),
            clock=TurnClock(now=self.now, new_id=lambda: str(uuid4()), monotonic_s=time.monotonic),
            spending=self.session,
            limits=TurnLimits(max_rounds=max_rounds, cap=cap),
            hooks=hooks or NoHooks(),
            compaction=NoCompaction(),
        )
        self.conversation = Conversation(self.deps, self.inbox)

    @staticmethod
    def now() -> str:
        return "2026-01-01T00:00:00.000Z"

    @staticmethod
    async def _yes(question: Question) -> Verdict:
        return Granted()

    async def emit(self, event: EngineEvent) -> None:
        self.events.append(event)
        if isinstance(event, BlockFinished):
            self.block_finished.set()

    async def submit(self, prompt: str = "go") -> TurnEnded:
        async with asyncio.timeout(20):
            return await self.conversation.submit(prompt, self.emit, said_by=PERSON)

    # -- what came of it

    def kinds(self) -> list[str]:
        """Return the history as a line of words: roles and kinds of blocks."""
        return [
            f"{entry['type']}:{'+'.join(b['type'] for b in self.blocks(entry))}"
            for entry in self.story.history
        ]

    @staticmethod
    def blocks(entry: Json) -> list[Json]:
        content = entry["message"]["content"]
        return [{"type": "text", "text": content}] if isinstance(content, str) else content

    def results(self) -> list[Json]:
        return [
            block
            for entry in self.story.history
            for block in self.blocks(entry)
            if block["type"] == "tool_result"
        ]

    def next_request_complaint(self) -> str | None:
        """Return what the strict service would reject in a request with this history."""
        request = self.requests(self.story).request
        messages: Sequence[Json] = request.messages
        return find_complaint(
            {
                "model": request.model,
                "max_tokens": 10,
                "messages": messages,
                "tools": self.tools.definitions(),
            }
        )
