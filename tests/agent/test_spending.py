"""The cost and duration of turns, budgets, and requests that the service would reject."""

import asyncio
from decimal import Decimal

from msgspec.structs import replace

from clew.agent.events import Doubted
from clew.agent.response import NOT_SENT
from clew.agent.spending_cap import SpendingCap
from clew.agent.tools.base import ToolOutcome
from clew.core.catalog.lookup import CATALOG
from clew.core.ledger.ledger import Charge
from clew.core.ledger.spending import TokenCounts
from clew.providers.base import Failure, ModelRequest
from tests.agent.world import World, says_ok
from tests.requirements import requirement

DEAR = {"input_tokens": 1_000_000, "output_tokens": 1}
MINE = "0.01"


def bill(*, usd: str) -> Charge:
    return Charge(
        message_id="other",
        request_id="other",
        model="m",
        at="2026-01-01T00:00:00.000Z",
        tokens=TokenCounts(output=1),
        usd=Decimal(usd),
        purpose="other",
        turn=0,
    )


@requirement("R111")
async def test_a_budget_ends_the_turn_after_the_answer_that_spends_it() -> None:
    world = World(
        {"content": [{"tool": "Read", "input": {"n": 1}}], "usage": DEAR},
        {"text": "never asked for"},
        budget_usd=MINE,
    )
    ended = await world.submit()
    assert (ended.reason, ended.rounds, ended.is_error) == ("budget_exhausted", 1, True)
    assert "0.01" in ended.message
    assert world.results()[0]["content"] == "ok 1"
    assert world.next_request_complaint() is None


async def test_a_request_that_the_budget_cannot_pay_is_not_sent() -> None:
    world = World({"text": "x", "usage": DEAR}, {"text": "y"}, budget_usd="99")
    assert (await world.submit()).reason == "completed"
    # By the first usage, the next request could cost more than is left.
    world.session.charge(bill(usd="96"))
    ended = await world.submit()
    assert (ended.reason, ended.is_error) == ("budget_exhausted", True)
    assert "maxBudgetUsd" in ended.message
    assert len(world.provider.transport.heard) == 1
    assert world.next_request_complaint() is None


async def test_requests_in_flight_keep_their_share_of_the_budget() -> None:
    spent = [Decimal(0)]
    cap = SpendingCap(Decimal("0.06"), spent=lambda: spent[0], catalog=CATALOG, now=World.now)
    request = ModelRequest(model="claude-sonnet-5-5", messages=[], max_tokens=4_000)
    first = await cap.hold("first", request)
    assert isinstance(first, ModelRequest)
    assert first.max_tokens == 4_000
    waiting = asyncio.ensure_future(cap.hold("second", request))
    await asyncio.sleep(0)
    assert not waiting.done()
    spent[0] = Decimal("0.03")
    cap.release("first")
    second = await waiting
    assert isinstance(second, ModelRequest)
    assert second.max_tokens == 3_000
    spent[0] = Decimal("0.05")
    cap.release("second")
    refused = await cap.hold("third", request)
    assert isinstance(refused, Failure)
    assert refused.kind == "budget"
    # A request that needs no more than what is left is still sent, and so is one without a price.
    assert await cap.hold("short", short := replace(request, max_tokens=300)) == short
    unknown = replace(request, model="nobody-knows-it")
    assert await cap.hold("unknown", unknown) == unknown
    assert "nobody-knows-it" in cap.find_unpriced("nobody-knows-it")
    assert cap.find_unpriced("nobody-knows-it") == ""


async def test_a_search_by_the_service_and_a_written_cache_count_toward_the_budget() -> None:
    cap = SpendingCap(Decimal("0.30"), spent=lambda: Decimal(0), catalog=CATALOG, now=World.now)
    request = ModelRequest(
        model="claude-sonnet-5-5", messages=[], max_tokens=1_000, most_input_tokens=20_000
    )
    left = []
    tool = {"type": "web_search_20250305", "name": "web_search", "max_uses": 2}
    for kind in (replace(request, cache=None), request, replace(request, tools=[tool])):
        await cap.hold("one", kind)
        left.append(cap.left_usd)
    assert left[0] > left[1] > left[2] + Decimal("0.02")


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
    assert ended.message.startswith(f"{NOT_SENT}: ")
    assert "V9" in ended.message
    assert world.kinds() == ["user:text", "assistant:text"]
    assert (await world.submit("two")).reason == "completed"
    told = [event.is_held for event in world.events if isinstance(event, Doubted)]
    assert told == [True, False]
    assert world.kinds()[-2:] == ["user:text", "assistant:text"]
