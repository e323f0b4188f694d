"""Which answer a request gets."""

from typing import Any

import pytest

from clew.testing.scenario import from_value
from clew.testing.scenario_rules import Chosen, NoAnswer, Player, hash_body

CALL = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}
RESULT = {
    "type": "tool_result",
    "tool_use_id": "t1",
    "content": [{"type": "text", "text": "exit 1: no such file"}],
    "is_error": True,
}
BODY: dict[str, Any] = {
    "model": "claude-a-1",
    "system": [{"type": "text", "text": "You are"}, {"type": "text", "text": "clew."}],
    "tools": [{"name": "Bash"}, {"name": "Read"}],
    "stream": True,
    "messages": [{"role": "user", "content": "please look"}],
}
AFTER_TOOL = {
    **BODY,
    "messages": [
        *BODY["messages"],
        {"role": "assistant", "content": [CALL]},
        {"role": "user", "content": [RESULT]},
    ],
}


def player(*answers: dict[str, Any], **more: Any) -> Player:
    return Player(from_value({"scenario": 1, "answers": list(answers), **more}))


def place(choice: Chosen | NoAnswer) -> str:
    return choice.place if isinstance(choice, Chosen) else choice.message


def meets(when: dict[str, Any], body: dict[str, Any] = BODY) -> bool:
    return isinstance(player({"when": when, "text": "x"}).choose(body), Chosen)


@pytest.mark.parametrize(
    ("when", "body"),
    [
        ({}, BODY),
        ({"user": "look"}, BODY),
        ({"user": {"is": "please look", "contains": "e l", "regex": "^please"}}, BODY),
        ({"user": {}}, BODY),
        ({"system": "are\nclew"}, BODY),
        ({"model": "claude-a"}, BODY),
        ({"request": 1}, BODY),
        ({"stream": True}, BODY),
        ({"has_tool": "Read"}, BODY),
        ({"body_sha256": hash_body(dict(reversed(BODY.items())))}, BODY),
        ({"tool_result": "Bash"}, AFTER_TOOL),
        ({"tool_result": {"content": "no such", "is_error": True}}, AFTER_TOOL),
        ({"tool_result": {}}, AFTER_TOOL),
    ],
)
def test_a_condition_that_holds(when: dict[str, Any], body: dict[str, Any]) -> None:
    assert meets(when, body)


@pytest.mark.parametrize(
    ("when", "reason"),
    [
        ({"user": "nothing"}, "user contains 'nothing' does not match"),
        ({"user": {"is": "look", "regex": "l"}}, "user is 'look' and regex 'l' does not match"),
        ({"user": {"contains": "x"}}, "user contains 'x' does not match"),
        ({"user": {"regex": "x"}}, "user regex 'x' does not match"),
        ({"system": "x"}, "system contains 'x' does not match"),
        ({"model": {"is": "claude"}}, "model is 'claude' does not match"),
        ({"request": 2}, "is for request 2"),
        ({"stream": False}, "is for stream false"),
        ({"has_tool": "Grep"}, "tool 'Grep' is not offered"),
        ({"body_sha256": "0"}, "different body_sha256"),
        ({"tool_result": "Bash"}, "no matching tool result in the last message"),
    ],
)
def test_a_condition_that_does_not_hold_says_so(when: dict[str, Any], reason: str) -> None:
    choice = player({"when": when, "text": "x"}).choose(BODY)
    assert isinstance(choice, NoAnswer)
    assert choice.message.endswith(f"answers[0]: {reason}")


@pytest.mark.parametrize(
    "result", [{"tool": "Read"}, {"is_error": False}, {"content": "fine"}, "Read"]
)
def test_a_tool_result_must_fit_in_all_that_is_said(result: Any) -> None:
    assert not meets({"tool_result": result}, AFTER_TOOL)


def test_after_a_tool_the_words_before_it_do_not_match_again() -> None:
    assert not meets({"user": "look"}, AFTER_TOOL)


def test_answers_without_a_condition_are_given_once_each_in_order() -> None:
    playing = player({"text": "a"}, {"text": "b", "times": 2}, {"text": "c", "times": "always"})
    places = [place(playing.choose(BODY)) for _ in range(5)]
    assert places == [f"answers[{i}]" for i in (0, 1, 1, 2, 2)]


def test_an_answer_with_a_condition_is_given_whenever_it_holds() -> None:
    playing = player({"when": {"tool_result": "Bash"}, "text": "a"}, {"text": "b", "times": 2})
    bodies = (AFTER_TOOL, BODY, AFTER_TOOL, BODY)
    assert [place(playing.choose(b))[8] for b in bodies] == ["0", "1", "0", "1"]
    assert playing.unused() == []


def test_no_answer_shows_the_end_of_the_request_and_every_reason() -> None:
    playing = player({"text": "a"}, {"when": {"user": "x"}, "text": "b"}, name="short")
    playing.choose(BODY)
    said = place(playing.choose(AFTER_TOOL))
    assert said == (
        "scenario short: no rule matched request 2 (model 'claude-a-1', 3 messages, tools: Bash, "
        "Read). It ends with the result of Bash: 'exit 1: no such file'. answers[0]: used up "
        "(1 of 1); answers[1]: user contains 'x' does not match"
    )
    assert playing.unused() == ["answers[1]"]


def test_no_answers_at_all_is_said_with_the_end_of_a_long_text() -> None:
    said = place(player().choose({"messages": [{"role": "user", "content": "x" * 300 + "end"}]}))
    assert said.endswith(f"It ends with user text: '…{'x' * 197}end'. the scenario has no answers")


def test_counts_are_chosen_apart_from_answers() -> None:
    counting = player({"text": "a"}, count_tokens=[{"when": {"request": 2}, "input_tokens": 5}])
    counting.choose(BODY)
    assert isinstance(counting.choose(BODY, "count_tokens"), NoAnswer)
    assert place(counting.choose(BODY, "count_tokens")) == "count_tokens[0]"
    assert place(player().choose(BODY, "count_tokens")) == "count_tokens[0]"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"messages": 3, "tools": "x", "system": 4},
        {"messages": [3, {"role": "user", "content": [4, {"type": "tool_result"}]}], "tools": [1]},
        {"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": []}]}]},
    ],
)
def test_a_request_that_makes_no_sense_is_matched_all_the_same(body: dict[str, Any]) -> None:
    assert isinstance(player({"text": "a"}).choose(body), Chosen)
