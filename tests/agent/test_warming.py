"""Keeping the prompt cache warm, in real turns against a service whose cache has a clock."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from clew.agent.cache_watch import CacheWatch
from clew.agent.conversation import Conversation
from clew.agent.events import TurnEnded
from clew.agent.tools.base import ToolOutcome
from clew.agent.warming import Warmer, WarmingContext, unsettled_usd
from clew.core.catalog.lookup import CATALOG
from clew.core.ledger.ledger import Ledger, find_charges
from clew.providers.answer import Answering
from clew.providers.answer_events import DriverEvent, Ended
from clew.providers.anthropic import AnthropicProvider
from clew.providers.base import ModelRequest, ThinkingBudget
from clew.providers.endpoint import Endpoint
from clew.providers.request_body import BUDGET_SET, CACHE_OFF, FORMAT_SET, why_not_warm
from clew.providers.retry import RetryPolicy
from clew.record.transcript.policy import Writer
from clew.record.transcript.record import Recorder
from clew.system.transport.seam import HttpRequest
from clew.testing.caching import Caching
from clew.testing.scenario import from_value
from clew.testing.scenario_answer import ScriptedResponse
from clew.testing.scenario_steps import RuleHost
from clew.testing.scripted import AnsweredRequest, ScriptedTransport
from clew.testing.strict import find_complaint
from tests.agent.world import PERSON, SESSION_ID, Act, World

Json = dict[str, Any]
MODEL = "claude-sonnet-5-5"


class FakeClock:
    """A clock that advances only when a test says so, and wakes sleepers in order."""

    def __init__(self) -> None:
        self._now_s = 1_000.0
        self._sleepers: list[tuple[float, asyncio.Event]] = []

    def now_s(self) -> float:
        return self._now_s

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.Event()
        sleeper = (self._now_s + seconds, woken)
        self._sleepers.append(sleeper)
        try:
            await woken.wait()
        finally:
            self._sleepers.remove(sleeper)

    async def pass_(self, seconds: float) -> None:
        until_s = self._now_s + seconds
        while True:
            await settle()
            due = [s for s in self._sleepers if s[0] <= until_s and not s[1].is_set()]
            if not due:
                break
            at_s, woken = min(due, key=lambda sleeper: sleeper[0])
            self._now_s = max(self._now_s, at_s)
            woken.set()
        self._now_s = until_s
        await settle()


async def settle() -> None:
    """Let everything run that can."""
    for _ in range(30):
        await asyncio.sleep(0)


class Transport(ScriptedTransport):
    """Answers with what a function of each request's body says."""

    def __init__(self, rule: Callable[[Json], Json]) -> None:
        super().__init__(from_value({"scenario": 1, "answers": []}))
        self._rules = RuleHost(rule)
        # What a warming request waits for, and what it is refused with.
        self.may_warm = asyncio.Event()
        self.may_warm.set()

    def answer(self, request: HttpRequest) -> ScriptedResponse:
        body = json.loads(request.body)
        assert find_complaint(body) is None
        place, reply = self._rules.respond("answers", body)
        self.heard.append(AnsweredRequest(body=body, place=place, status=reply.status))
        return reply


class Noting(Recorder):
    """A recorder without a file; `lines` are its lines about costs."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.lines: list[Json] = []

    def request_cost(self, **cost: Any) -> None:
        at = self._now()
        self.lines.append({"type": "request-cost", "timestamp": at, **cost})


class Warmed:
    """A world whose service has a prompt cache with a clock, and a warmer for that cache."""

    def __init__(
        self,
        *answers: Json,
        budget: str = "5",
        acts: dict[str, Act] | None = None,
        recorded: tuple[Json, ...] = (),
        refusal: Json | None = None,
    ) -> None:
        self.clock = FakeClock()
        self._answers = list(answers)
        self._refusal = refusal
        self.caching = Caching(
            lambda _: self._answers.pop(0), now_s=self.clock.now_s, piece_tokens=20_000
        )
        self.transport = Transport(self._answered)
        self.provider = AnthropicProvider(Endpoint(api_key="k"), self.transport)
        self.world = World(acts=acts)
        self.hindered = ""
        self.is_compacting = False
        self.left: Decimal | None = None
        self.holds = asyncio.Event()
        self.holds.set()
        recorder = Noting(
            paths=self.world.story.recorder.paths,
            log=None,
            writer=Writer(session_id=SESSION_ID, cwd="/", version="0.1.0"),
            now=self.world.now,
        )
        self.lines = recorder.lines
        self.world.story.recorder = recorder
        self.warmer = Warmer(
            WarmingContext(
                put=self._put,
                hindrance=self._hindrance,
                left_usd=lambda: self.left,
                budget_usd=lambda: Decimal(budget),
                touched=lambda: None,
                is_compacting=lambda: self.is_compacting,
                now=self.now,
                new_id=self.world.deps.clock.new_id,
            ),
            clock=self.clock,
            session=self.world.session,
            recorder=recorder,
            catalog=CATALOG,
            recorded=recorded,
        )
        self.cache = CacheWatch(warmer=self.warmer)
        deps = replace(
            self.world.deps,
            model=replace(
                self.world.deps.model,
                cache=self.cache,
                new_answer=lambda: Answering(
                    self.provider, new_tool_id=self.world.deps.clock.new_id
                ),
            ),
            clock=replace(self.world.deps.clock, now=self.now),
        )
        self.conversation = Conversation(deps, self.world.inbox)

    def now(self) -> str:
        at = datetime.fromtimestamp(1.7e9 + self.clock.now_s(), UTC)
        return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def _answered(self, body: Json) -> Json:
        if body["max_tokens"] == 0 and self._refusal is not None:
            return self._refusal
        return self.caching(body)

    async def _put(self, request: ModelRequest) -> Ended:
        await self.holds.wait()
        answering = Answering(
            self.provider,
            new_tool_id=self.world.deps.clock.new_id,
            policy=RetryPolicy(max_attempts=1),
        )
        return await answering.run(request, unheard)

    def _hindrance(self, request: ModelRequest) -> str:
        continues = self.world.requests.continues(self.world.story, request)
        return self.hindered or ("" if continues else "the next request has a different beginning")

    async def submit(self, prompt: str = "go") -> TurnEnded:
        async with asyncio.timeout(20):
            return await self.conversation.submit(prompt, self.world.emit, said_by=PERSON)

    @property
    def total_usd(self) -> Decimal:
        return self.world.session.ledger.total.usd

    @property
    def warmings(self) -> int:
        return sum(self.caching.warmed)

    def of_warming(self) -> list[Json]:
        return [line for line in self.lines if line["purpose"] == "warming"]


async def unheard(_: DriverEvent) -> None:
    pass


def waits(clock: Callable[[], FakeClock], seconds: float) -> dict[str, Act]:
    async def acts(_: Json) -> ToolOutcome:
        await clock().pass_(seconds)
        return ToolOutcome(content="done", tool_use_result={})

    return {"Read": acts, "Write": acts}


CALL = {"content": [{"tool": "Read", "input": {}}]}


async def turn_with_tool(seconds: float, **more: Any) -> Warmed:
    """Play a turn with a long call to its end."""
    made: list[Warmed] = []
    made.append(Warmed(CALL, {"text": "Done."}, acts=waits(lambda: made[0].clock, seconds), **more))
    assert (await made[0].submit()).reason == "completed"
    await made[0].warmer.aclose()
    return made[0]


async def test_with_warming_a_long_call_leads_to_a_read_and_costs_less() -> None:
    cold = await turn_with_tool(900.0, budget="0")
    warm = await turn_with_tool(900.0)
    assert cold.warmings == 0
    assert warm.warmings == 3
    assert cold.caching.usages[-1]["cache_read_input_tokens"] == 0
    first = warm.caching.usages[0]["cache_creation_input_tokens"]
    assert warm.caching.usages[-1]["cache_read_input_tokens"] == first
    assert warm.total_usd < cold.total_usd
    (miss,) = cold.cache.misses
    assert (miss.reason, warm.cache.misses) == ("expired", [])
    assert warm.warmer.saved_usd > warm.warmer.spend.usd > 0


async def test_off_by_default_and_for_a_short_call_nothing_is_sent() -> None:
    for made in (await turn_with_tool(9_000.0, budget="0"), await turn_with_tool(200.0)):
        assert [heard.body["max_tokens"] for heard in made.transport.heard] == [500, 500]
        assert made.of_warming() == []


async def test_a_warming_request_begins_byte_for_byte_as_the_one_before() -> None:
    made = await turn_with_tool(600.0)
    before, warming, *_ = (heard.body for heard in made.transport.heard)
    assert warming["max_tokens"] == 0
    same = {key: value for key, value in before.items() if key not in ("max_tokens", "stream")}
    assert {key: value for key, value in warming.items() if key != "max_tokens"} == same
    assert json.dumps(same) == json.dumps({k: v for k, v in warming.items() if k != "max_tokens"})


async def test_what_it_cost_is_a_line_of_the_log_and_of_the_ledger() -> None:
    made = await turn_with_tool(600.0)
    sent, charged, *_ = made.of_warming()
    assert sent["outcome"] == "sent"
    assert sent["reservedUSD"] > charged["costUSD"] > 0
    assert sent["warmingId"] == charged["warmingId"]
    ledger = Ledger(find_charges(made.lines, CATALOG))
    spend = ledger.by_purpose()["warming"]
    assert (spend.usd, spend.requests) == (made.warmer.spend.usd, made.warmings)
    again = Warmed(recorded=tuple(made.of_warming()))
    assert again.warmer.spend == spend
    assert again.warmer.reserved_usd == 0


async def test_a_prompt_cancels_a_warming_request_at_once_and_it_counts_at_most() -> None:
    made = Warmed({"text": "One."}, {"text": "Two."})
    await made.submit()
    made.holds.clear()
    await made.clock.pass_(280.0)
    assert [line["outcome"] for line in made.of_warming()] == ["sent"]
    reserved = made.warmer.reserved_usd
    assert (await made.submit("again")).reason == "completed"
    await settle()
    assert [line["outcome"] for line in made.of_warming()] == ["sent", "cancelled"]
    assert made.warmer.reserved_usd == reserved > 0
    assert made.warmings == 0
    assert unsettled_usd(made.of_warming()) == Decimal(str(float(reserved)))
    # A session that was killed there knows as much.
    assert unsettled_usd(made.of_warming()[:1]) == Decimal(str(float(reserved)))
    await made.warmer.aclose()


async def test_while_the_user_is_away_it_is_warmed_for_a_while_and_then_left() -> None:
    made = Warmed({"text": "One."}, {"text": "Two."})
    await made.submit()
    await made.clock.pass_(36_000.0)
    assert 1 <= made.warmings <= 11
    (wait,) = {made.caching.usages[0]["cache_creation_input_tokens"]}
    price = CATALOG.entry(MODEL).prices[0].rates
    assert made.warmer.spend.usd < price.usd(cache_write_5m_tokens=wait)
    await made.warmer.aclose()


@pytest.mark.parametrize("why", ["a compaction is due", "rate limited"])
async def test_nothing_is_sent_where_something_hinders_it(why: str) -> None:
    made = Warmed({"text": "One."})
    await made.submit()
    made.hindered = why
    await made.clock.pass_(600.0)
    assert made.warmings == 0
    await made.warmer.aclose()


async def test_while_the_conversation_is_compacted_nothing_is_sent() -> None:
    made = Warmed({"text": "One."})
    await made.submit()
    made.is_compacting = True
    await made.clock.pass_(600.0)
    assert made.warmings == 0
    await made.warmer.aclose()


async def test_a_history_that_is_another_one_is_not_warmed() -> None:
    made = Warmed({"text": "One."})
    await made.submit()
    made.world.story.become([])
    await made.clock.pass_(600.0)
    assert made.warmings == 0
    await made.warmer.aclose()


async def test_what_a_run_may_spend_bounds_it_too() -> None:
    made = Warmed({"text": "One."})
    await made.submit()
    made.left = Decimal("0.0001")
    await made.clock.pass_(600.0)
    assert made.warmings == 0
    await made.warmer.aclose()


async def test_a_service_that_refuses_is_asked_once_in_a_session() -> None:
    words = "max_tokens: must be an integer of at least 1"
    refusal = {"status": 400, "error": {"type": "invalid_request_error", "message": words}}
    made = Warmed({"text": "One."}, {"text": "Two."}, refusal=refusal)
    for prompt in ("one", "two"):
        await made.submit(prompt)
        await made.clock.pass_(600.0)
    assert made.warmer.trouble == f"the service rejected a warming request: HTTP 400: {words}"
    assert [line["outcome"] for line in made.of_warming()] == ["sent", "failed"]
    assert made.warmer.reserved_usd == 0
    await made.warmer.aclose()


async def test_a_cache_that_is_dropped_early_is_left_alone_after_the_second_time() -> None:
    made = Warmed({"text": "One."}, {"text": "Two."}, {"text": "Three."})
    for prompt in ("one", "two", "three"):
        await made.submit(prompt)
        made.caching.forget()
        await made.clock.pass_(600.0)
    assert made.warmings == 2
    assert made.warmer.trouble == "the service dropped the cache before it expired"
    await made.warmer.aclose()


def test_what_asks_for_words_cannot_be_warmed() -> None:
    model, plain = CATALOG.entry(MODEL), ModelRequest(model=MODEL, messages=[])
    assert why_not_warm(plain, model) == ""
    for request, why in (
        (replace(plain, cache=None), CACHE_OFF),
        (replace(plain, output_format={"type": "json_schema"}), FORMAT_SET),
        (replace(plain, tool_choice={"type": "any"}), "tool_choice is any"),
    ):
        assert why_not_warm(request, model) == why
    older = CATALOG.entry("claude-haiku-4-5")
    thinking = replace(
        plain, model=older.id, thinking=ThinkingBudget(tokens=2_000), max_tokens=5_000
    )
    assert why_not_warm(thinking, older) == BUDGET_SET


@pytest.mark.no_cover
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.booleans(), st.integers(1, 5_000)), min_size=1, max_size=6),
    st.sampled_from(["0", "0.3", "1", "5"]),
)
def test_over_any_schedule_it_stays_within_its_budget_and_below_a_miss(
    schedule: list[tuple[bool, int]], budget: str
) -> None:
    """A wait whose warming cost as much as a miss would be worse than none."""

    async def main() -> None:
        answers = [CALL if calls else {"text": "So."} for calls, _ in schedule]
        pauses = iter([float(seconds) for calls, seconds in schedule if calls])

        async def act(_: Json) -> ToolOutcome:
            await made.clock.pass_(next(pauses))
            return ToolOutcome(content="done", tool_use_result={})

        answers = [
            a
            for answer in answers
            for a in ([answer, {"text": "So."}] if answer is CALL else [answer])
        ]
        made = Warmed(*answers, budget=budget, acts={"Read": act, "Write": act})
        for number, (calls, seconds) in enumerate(schedule):
            await made.submit(f"prompt {number}")
            if not calls:
                await made.clock.pass_(float(seconds))
        await made.warmer.aclose()
        assert made.warmer.spend.usd <= Decimal(budget)
        if budget == "0":
            assert made.warmings == 0
        waits_of: list[list[Json]] = [[]]
        for usage, is_warming in zip(made.caching.usages, made.caching.warmed, strict=True):
            if is_warming:
                waits_of[-1].append(usage)
            else:
                waits_of.append([])
        # A read costs a tenth, a miss 1.25: eleven reads are less than what a miss costs more.
        assert all(len(wait) <= 11 for wait in waits_of)

    asyncio.run(main())
