"""A context window that is too small: what the service reports, and what still fits."""

import pytest

from clew.core.catalog.lookup import CATALOG
from clew.providers.base import Adaptive, Failure, ModelRequest, ThinkingBudget
from clew.providers.failure_kinds import (
    Overflow,
    fit_request,
    overflow_of,
    room_for_output,
    shrink_request,
    with_output,
)
from tests.requirements import requirement


def refusal(message: str, status: int = 400) -> Failure:
    return Failure(kind="status", message=message, status=status)


@requirement("R077")
@pytest.mark.parametrize(
    ("said", "input_tokens", "limit"),
    [
        ("HTTP 400: input length and `max_tokens` exceed context limit: 195000 + 8192 > 200000, decrease input length or `max_tokens` and try again", 195000, 200000),
        ("input length and max_tokens exceed context limit: 1,234 + 5 > 2_000", 1234, 2000),
        ("prompt is too long: 205000 tokens > 200000 maximum", 205000, 200000),
        ("Prompt is too long", None, None),
    ],
)  # fmt: skip
def test_the_services_words_are_read(
    said: str, input_tokens: int | None, limit: int | None
) -> None:
    assert overflow_of(refusal(said)) == Overflow(input_tokens=input_tokens, limit_tokens=limit)


def test_a_body_too_large_is_an_overflow_and_another_refusal_is_none() -> None:
    assert overflow_of(refusal("Request exceeds the maximum size", 413)) == Overflow()
    assert overflow_of(refusal("messages: text content blocks must be non-empty")) is None


@requirement("R078", "R235")
def test_room_is_the_window_less_the_input_less_a_thousand_and_at_least_three_thousand() -> None:
    assert room_for_output(195_000, 200_000) == 4_000
    assert room_for_output(196_000, 200_000) == 3_000
    assert room_for_output(196_001, 200_000) is None
    assert room_for_output(300_000, 200_000) is None


@requirement("W8")
def test_a_thinking_budget_stays_below_the_room_for_the_answer() -> None:
    request = ModelRequest(
        model="m", messages=[], max_tokens=32_000, thinking=ThinkingBudget(tokens=31_999)
    )
    smaller = shrink_request(request, Overflow(input_tokens=195_000, limit_tokens=200_000))
    assert smaller is not None
    assert smaller.max_tokens == 4_000
    assert smaller.thinking == ThinkingBudget(tokens=3_999)
    assert with_output(request, 60_000).thinking == ThinkingBudget(tokens=31_999)
    adaptive = ModelRequest(model="m", messages=[], thinking=Adaptive())
    assert with_output(adaptive, 4_000).thinking == Adaptive()
    assert shrink_request(request, Overflow(input_tokens=199_000, limit_tokens=200_000)) is None
    assert shrink_request(request, Overflow()) is None


@requirement("W8")
def test_a_counted_input_decides_before_anything_is_sent() -> None:
    model = CATALOG.entry("claude-haiku-4-5")

    def fit(counted: int | None, max_tokens: int | None = None) -> ModelRequest | Overflow:
        request = ModelRequest(
            model=model.id, messages=[], input_tokens=counted, max_tokens=max_tokens
        )
        return fit_request(request, model)

    def limit(fitting: ModelRequest | Overflow) -> int | None:
        assert isinstance(fitting, ModelRequest)
        return fitting.max_tokens

    assert limit(fit(None)) is None
    assert limit(fit(100_000)) is None
    assert limit(fit(180_000)) == 19_000
    assert limit(fit(180_000, 5_000)) == 5_000
    assert fit(197_000) == Overflow(input_tokens=197_000, limit_tokens=200_000)
    unknown = ModelRequest(model="local", messages=[], input_tokens=10**9)
    assert fit_request(unknown, CATALOG.entry("local")) == unknown
