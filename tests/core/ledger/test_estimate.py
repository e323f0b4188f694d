"""Token estimates: based on the last response, and corrected by what was counted."""

from typing import Any

import pytest

from clew.core.ledger.breakdown import break_down
from clew.core.ledger.spending import Estimator
from clew.core.normalize.tokens import (
    RESULT_OVERHEAD,
    UNKNOWN_PICTURE,
    USE_OVERHEAD,
    count_text_chars,
    estimate_block_tokens,
    estimate_content_tokens,
    estimate_message_tokens,
    estimate_text_tokens,
    picture_tokens,
)
from tests.core.normalize.build import answer, attachment, call, result, thought, user, words
from tests.core.normalize.generator import deep, png
from tests.requirements import requirement

PROSE = (
    "The quick brown fox jumps over the lazy dog, and then it sits down in the shade of an old oak "
    "to think about the nature of foxes, dogs and the sentences in which they meet each other. "
)
CODE = "def load(path: Path) -> dict[str, int]:\n    return {k: int(v) for k, v in pairs(path)}\n"


@requirement("R035", "W19")
@pytest.mark.parametrize(
    ("text", "counted"),
    # What published counts of these kinds of text come to, in tokens per character.
    [
        (PROSE * 10, 0.22),
        (CODE * 10, 0.31),
        ("1234567890 " * 50, 0.45),
        ("日本語の文章です" * 50, 1.1),
    ],
)
def test_an_estimate_is_within_a_third_of_the_count(text: str, counted: float) -> None:
    expected = len(text) * counted
    assert expected * 0.67 < estimate_text_tokens(text) < expected * 1.5


def test_a_little_is_something_and_nothing_is_nothing() -> None:
    assert estimate_text_tokens("") == 0
    assert estimate_text_tokens("a") == 1
    assert estimate_text_tokens("\ud800") == 1
    assert estimate_content_tokens(None) == 0
    assert estimate_block_tokens(3) == 0
    assert estimate_block_tokens("plain") == estimate_text_tokens("plain")


@requirement("R035", "R245")
def test_calls_and_results_carry_their_overhead() -> None:
    assert estimate_block_tokens(call("1", "")) == estimate_text_tokens("{}") + USE_OVERHEAD
    assert (
        estimate_block_tokens(result("1", "done")) == estimate_text_tokens("done") + RESULT_OVERHEAD
    )
    assert (
        estimate_block_tokens(result("1", [words("done")]))
        == estimate_text_tokens("done") + RESULT_OVERHEAD
    )
    assert estimate_block_tokens(thought("so")) == estimate_text_tokens("so")
    assert estimate_block_tokens({"type": "tomorrow", "x": 1}) > 0
    assert estimate_block_tokens({"type": "tool_use", "input": deep(3000)}) > USE_OVERHEAD


@requirement("R035")
def test_a_picture_costs_its_area_after_scaling() -> None:
    image = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": png(750, 1000)},
    }
    assert estimate_block_tokens(image) == 1000
    assert picture_tokens(3136, 1568) == picture_tokens(1568, 784)
    assert picture_tokens(1, 1) == 1
    assert (
        estimate_block_tokens({"type": "image", "source": {"type": "url", "url": "u"}})
        == UNKNOWN_PICTURE
    )


def test_a_document_costs_by_its_length() -> None:
    def held(**source: Any) -> int:
        return estimate_block_tokens({"type": "document", "source": source})

    assert held(type="text", media_type="text/plain", data=PROSE) == estimate_text_tokens(PROSE)
    assert held(type="base64", media_type="application/pdf", data="A" * 60_000) == 4000
    assert held(type="url", url="u") == UNKNOWN_PICTURE
    assert estimate_block_tokens({"type": "document"}) == UNKNOWN_PICTURE


@requirement("W19")
def test_the_next_prompt_is_what_was_counted_and_an_estimated_tail() -> None:
    usage = {"input_tokens": 10, "cache_read_input_tokens": 90_000, "output_tokens": 300}
    estimator = Estimator()
    assert estimator.next_prompt(usage, []) == 90_310
    tail = [{"role": "user", "content": PROSE}]
    assert estimator.next_prompt(usage, tail) == 90_310 + estimate_message_tokens(tail)


@requirement("W19")
def test_estimates_learn_from_what_was_counted() -> None:
    estimator = Estimator()
    tail = [{"role": "user", "content": PROSE * 20}]
    guess = estimate_message_tokens(tail)
    for _ in range(12):
        estimator.learn(guess, guess * 2)
    assert abs(estimator.tail(tail) - guess * 2) < guess * 0.02
    estimator.learn(10, 10_000)  # too little to learn from
    estimator.learn(10_000, 0)
    assert abs(estimator.tail(tail) - guess * 2) < guess * 0.02


TALK = [
    user("hi " * 100),
    attachment("be kind " * 50, type="instructions"),
    attachment("today", type="date"),
    {"type": "attachment", "rendered": [3]},
    {"type": "attachment", "attachment": {}, "rendered": 3},
    answer("m", thought("hm " * 30), "so", call("1", command="ls " * 40)),
    user(result("1", "line\n" * 300), result("9")),
    answer("e", "API Error", isApiErrorMessage=True),
    {"type": "user", "message": {"content": "plain"}},
    {"type": "user", "message": {"content": ["odd"]}},
    {"type": "mode"},
]
TOOLS = [{"name": "Bash", "input_schema": {}}, {"name": "mcp__git__log", "input_schema": {}}]


@requirement("W19")
def test_the_window_is_broken_down_by_source() -> None:
    parts = break_down(TALK, system=[words("you are " * 20)], tools=TOOLS)
    kinds = {(part.kind, part.name) for part in parts}
    assert kinds == {
        ("system prompt", ""), ("tools", "Bash"), ("mcp tools", "mcp__git__log"), ("user", ""),
        ("memory files", "instructions"), ("context", "date"), ("assistant", ""),
        ("assistant", "thinking"), ("tool calls", "Bash"), ("tool results", "Bash"), ("tool results", ""),
    }  # fmt: skip
    assert [p.tokens for p in parts] == sorted((p.tokens for p in parts), reverse=True)
    assert parts[0].kind == "tool results"


def test_parts_add_up_to_what_was_counted() -> None:
    assert sum(part.tokens for part in break_down(TALK, tools=TOOLS, counted=12_345)) == 12_345
    assert break_down([], counted=5) == []


def test_text_is_counted_without_media_and_thinking() -> None:
    result = {"type": "tool_result", "content": [{"type": "text", "text": "abc"}, "odd"]}
    image = {"type": "image", "source": {"type": "base64", "data": "x" * 999}}
    thinking = {"type": "thinking", "thinking": "x" * 999}
    call = {"type": "tool_use", "input": {"command": "ls -l", "timeout": 3}}
    assert count_text_chars([result, image, thinking, call]) == 8
    assert count_text_chars([{"type": "tool_result", "content": "four"}]) == 4
    assert [count_text_chars(content) for content in ("five!", None, [])] == [5, 0, 0]
