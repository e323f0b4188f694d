"""The next step after each response: another request, or the end of the turn."""

import pytest

from clew.agent.transitions import (
    MAX_RECOVERIES,
    Continue,
    Recoveries,
    Repetition,
    ResponseSpeed,
    TurnEnd,
    TurnReply,
    choose_transition,
    make_speed_entry,
)
from clew.core.messages.text import AFTER_MAX_TOKENS
from clew.core.stream.events import ENDINGS
from tests.requirements import requirement

SPENT = Recoveries(**MAX_RECOVERIES)


@requirement("V10")
@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (TurnReply(ending="turn"), TurnEnd(reason="completed")),
        (TurnReply(ending="tools", has_results=True), Continue(cause="tools")),
        (TurnReply(ending="cut_by_max_tokens", has_results=True), Continue(cause="tools")),
        (TurnReply(ending="tools", has_results=True, is_stopped=True), "denied_and_stopped"),
        (TurnReply(ending="tools", has_results=True, is_unshaped=True), "unshaped"),
        (TurnReply(ending="refused"), "refused"),
        (TurnReply(ending="cut_by_context"), Continue(cause="full", words=AFTER_MAX_TOKENS)),
        (TurnReply(ending="unknown"), "completed"),
        (TurnReply(ending="paused"), Continue(cause="paused")),
        (TurnReply(ending="turn", is_complete=False, is_final=True, failure="503"), "api_error"),
        (TurnReply(ending="cut_by_context", is_final=True, is_complete=False), "prompt_too_long"),
    ],
)
def test_each_ending_goes_its_way(reply: TurnReply, expected: object) -> None:
    step = choose_transition(reply, Recoveries())
    assert (step.reason if isinstance(expected, str) else step) == expected


@pytest.mark.parametrize(
    ("reply", "cause"),
    [
        (TurnReply(ending="cut_by_max_tokens"), "max_tokens"),
        (TurnReply(ending="cut_by_context"), "full"),
        (TurnReply(ending="turn", is_complete=False, failure="reset"), "broken_off"),
        (TurnReply(ending="turn", is_empty=True), "empty"),
        (TurnReply(ending="paused"), "paused"),
    ],
)
def test_what_continues_without_tools_is_counted_and_ends(reply: TurnReply, cause: str) -> None:
    step = choose_transition(reply, Recoveries())
    assert isinstance(step, Continue)
    assert step.cause == cause
    last = choose_transition(reply, SPENT)
    assert isinstance(last, TurnEnd)
    # Only an empty response is complete; the others are cut off, and programs must learn that.
    assert (last.reason == "completed") is (cause == "empty")
    counted = Recoveries()
    for _ in range(MAX_RECOVERIES[cause]):
        assert isinstance(choose_transition(reply, counted), Continue)
        counted = counted.after(step.cause)
    assert isinstance(choose_transition(reply, counted), TurnEnd)


def test_a_tool_that_ran_gives_every_recovery_back() -> None:
    assert SPENT.after("tools") == Recoveries()


def test_every_ending_the_stream_knows_is_decided() -> None:
    for ending in ENDINGS.values():
        assert isinstance(choose_transition(TurnReply(ending=ending), SPENT), Continue | TurnEnd)


def test_a_pardon_holds_for_the_same_call_and_once() -> None:
    repetition = Repetition()
    call = {"id": "1", "name": "Bash", "input": {"command": "ls"}}
    assert not repetition.take_pardon(call)
    repetition.pardon(call)
    assert not repetition.take_pardon(call | {"input": {"command": "pwd"}})
    assert repetition.take_pardon(call | {"id": "2"})
    assert not repetition.take_pardon(call)


def test_the_speed_of_several_responses_is_their_median() -> None:
    speeds = [ResponseSpeed(first_ms=ms, tokens_per_s=ms / 10) for ms in (300, 100, 900)]
    at = {"uuid": "u", "at": "2026-01-01T00:00:00.000Z"}
    entry = make_speed_entry(speeds, **at)
    assert (entry["ttftMs"], entry["otps"], entry["isP50"]) == (300, 30.0, True)
    assert make_speed_entry(speeds[:1], **at)["isP50"] is False
