"""What turns cost and how long they take, budgets, and requests that would be refused."""

from decimal import Decimal

from clew.agent.deps import MoneyBudget
from clew.agent.events import Doubted
from clew.agent.tools.base import ToolOutcome
from tests.agent.world import World, says_ok
from tests.requirements import requirement

DEAR = {"input_tokens": 1_000_000, "output_tokens": 1}
MINE = MoneyBudget(usd=Decimal("0.01"), before=Decimal(0))


@requirement("R111")
async def test_a_budget_ends_the_turn_after_the_answer_that_spends_it() -> None:
    world = World(
        {"content": [{"tool": "Read", "input": {"n": 1}}], "usage": DEAR},
        {"text": "never asked for"},
        budget=MINE,
    )
    ended = await world.submit()
    assert (ended.reason, ended.rounds, ended.is_error) == ("budget_exhausted", 1, True)
    assert "0.01" in ended.message
    assert world.results()[0]["content"] == "ok 1"
    assert world.next_request_complaint() is None


async def test_a_budget_counts_what_this_run_spends() -> None:
    world = World(
        {"text": "x", "usage": DEAR}, budget=MoneyBudget(usd=Decimal(99), before=Decimal(0))
    )
    assert (await world.submit()).reason == "completed"


async def test_a_failure_stays_a_failure_when_the_budget_is_spent() -> None:
    world = World(
        {"text": "x", "usage": DEAR},
        {"status": 400, "error": {"type": "invalid_request_error", "message": "no"}},
        budget=MINE,
    )
    await world.submit()
    assert (await world.submit()).reason == "api_error"


@requirement("R112")
async def test_the_time_of_requests_and_of_tools_is_kept_apart() -> None:
    patch = [{"lines": ["+a", "-b"]}]

    async def edits(given: dict[str, object]) -> ToolOutcome:
        return ToolOutcome(content="ok", tool_use_result={"structuredPatch": patch})

    world = World(
        {"content": [{"tool": "Read", "input": {}}]}, {"text": "Done."}, acts={"Read": edits}
    )
    await world.submit()
    state = world.session.state
    assert state.api_ms >= state.api_without_retries_ms > 0
    assert state.tool_ms > 0
    assert (state.lines_added, state.lines_removed) == (1, 1)
    assert world.session.ledger.total.requests == 2


async def test_a_request_that_would_be_refused_is_held_back_once_and_nothing_is_lost() -> None:
    world = World({"text": "It went well.", "times": "always"}, acts={"not a name": says_ok})
    ended = await world.submit("one")
    assert (ended.reason, ended.is_error) == ("api_error", True)
    assert ended.message.startswith("Not sent, because the API would reject it: ")
    assert "V9" in ended.message
    assert world.kinds() == ["user:text", "assistant:text"]
    assert (await world.submit("two")).reason == "completed"
    told = [event.is_held for event in world.events if isinstance(event, Doubted)]
    assert told == [True, False]
    assert world.kinds()[-2:] == ["user:text", "assistant:text"]
