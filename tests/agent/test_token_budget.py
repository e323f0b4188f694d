"""`+500k`: recognized as a token budget, and pursued until it is used, but not for its own sake."""

import pytest

from clew.agent.transitions import (
    Continue,
    Recoveries,
    TokenBudget,
    Transition,
    TurnEnd,
    read_wished_tokens,
)
from tests.agent.world import World
from tests.requirements import requirement

DONE = TurnEnd(reason="completed")


@requirement("R246")
@pytest.mark.parametrize(
    ("prompt", "tokens"),
    [
        ("+500k", 500_000),
        ("mend every test +500k", 500_000),
        ("mend every test\n+500K\n", 500_000),
        ("+1.5m mend every test", 1_500_000),
        ("  +2k go", 2_000),
        ("+0k go", None),
        ("what is 3 +500k", 500_000),
        ("what is 3+500k", None),
        ("add +500k to the sum", None),
        ("+500", None),
        ("+500kb go", None),
        ("+99999k go", None),
        ("500k", None),
        ("", None),
    ],
)
def test_a_wish_stands_at_an_end_of_the_prompt(prompt: str, tokens: int | None) -> None:
    assert read_wished_tokens(prompt) == tokens


@requirement("R223")
def test_a_model_that_stops_early_is_sent_on_until_enough_is_used() -> None:
    budget = TokenBudget(10_000)
    step = budget.onward(DONE, 2_000)
    assert isinstance(step, Continue)
    assert (step.cause, "2,000 of the 10,000" in step.words) == ("budget", True)
    assert isinstance(budget.onward(DONE, 8_900), Continue)
    assert budget.onward(DONE, 9_000) == DONE


def test_a_model_that_adds_next_to_nothing_twice_is_done() -> None:
    budget = TokenBudget(10_000)
    assert isinstance(budget.onward(DONE, 100), Continue)
    assert budget.onward(DONE, 200) == DONE


def test_work_in_between_counts_again() -> None:
    budget = TokenBudget(10_000)
    assert isinstance(budget.onward(DONE, 100), Continue)
    assert isinstance(budget.onward(DONE, 2_000), Continue)
    assert isinstance(budget.onward(DONE, 2_100), Continue)
    assert budget.onward(DONE, 2_200) == DONE


@pytest.mark.parametrize(
    "step",
    [
        TurnEnd(reason="refused"),
        TurnEnd(reason="aborted_tools"),
        Continue(cause="tools"),
    ],
)
def test_only_an_end_that_is_one_is_put_off(step: Transition) -> None:
    assert TokenBudget(10_000).onward(step, 0) == step


def test_being_sent_on_is_work_and_forgets_what_was_recovered() -> None:
    assert Recoveries(empty=1).after("budget") == Recoveries()
    assert Recoveries().has_left("budget")


@requirement("R223", "R246")
async def test_a_turn_goes_on_by_itself_until_the_tokens_are_used() -> None:
    long = {"text": "More.", "usage": {"output_tokens": 900}}
    world = World(long, long, long, {"text": "Never asked."})
    ended = await world.submit("look at everything +3k")
    assert (ended.reason, ended.rounds) == ("completed", 3)
    told = [e for e in world.story.history if e.get("isMeta")]
    assert len(told) == 2
    assert "900 of the 3,000" in told[0]["message"]["content"]
    assert world.next_request_complaint() is None


async def test_a_turn_without_a_wish_ends_when_the_model_does() -> None:
    world = World({"text": "Done.", "usage": {"output_tokens": 10}})
    assert (await world.submit("look")).rounds == 1


async def test_the_bounds_of_a_run_hold_for_it_too() -> None:
    long = {"text": "More.", "usage": {"output_tokens": 900}, "times": "always"}
    ended = await World(long, max_rounds=2).submit("+500k look")
    assert (ended.reason, ended.rounds) == ("max_turns", 2)
