"""Variables and settings that affect every request: both spellings, and errors are reported."""

from typing import Any

import pytest

from clew.core.catalog.limits import ModelLimits
from clew.providers.base import Adaptive, ModelRequest, Off, ThinkingBudget
from clew.providers.preferences import (
    Preferences,
    apply_preferences,
    limit_effort,
    read_model_limits,
    read_preferences,
)
from clew.providers.retry import RetryPolicy
from clew.system.config.environment import freeze
from clew.system.config.layers import Layer, Scope


def read(environ: dict[str, str], **settings: object) -> Preferences:
    return read_preferences(freeze(environ), settings)


def test_nothing_said_is_nothing_asked() -> None:
    assert read({}) == Preferences()


@pytest.mark.parametrize(
    ("names", "field", "said", "expected"),
    [
        (["CLEW_MAX_OUTPUT_TOKENS", "CLAUDE_CODE_MAX_OUTPUT_TOKENS"], "max_tokens", "9000", 9000),
        (["CLEW_MAX_THINKING_TOKENS", "MAX_THINKING_TOKENS"], "thinking", "5000", ThinkingBudget(tokens=5000)),
        (["CLEW_MAX_THINKING_TOKENS", "MAX_THINKING_TOKENS"], "thinking", "0", Off()),
        (["CLEW_EFFORT", "CLAUDE_CODE_EFFORT_LEVEL"], "effort", "xhigh", "xhigh"),
        (["CLEW_CACHE_1H", "ENABLE_PROMPT_CACHING_1H"], "cache", "1", "1h"),
        (["CLEW_DISABLE_CACHE", "DISABLE_PROMPT_CACHING"], "cache", "true", None),
        (["CLEW_DISABLE_CACHE", "DISABLE_PROMPT_CACHING"], "cache", "False", "5m"),
        (["CLEW_MAX_RETRIES", "CLAUDE_CODE_MAX_RETRIES"], "policy", "3", RetryPolicy(max_attempts=4, counts_overloads=True)),
        (["CLEW_RETRY_BUDGET_MS"], "policy", "1500", RetryPolicy(budget_s=1.5)),
        (["CLEW_UNATTENDED", "CLAUDE_CODE_UNATTENDED_RETRY"], "policy", "1", RetryPolicy(unattended=True)),
    ],
)  # fmt: skip
def test_each_spelling_is_read(names: list[str], field: str, said: str, expected: object) -> None:
    for name in names:
        found = read({name: f" {said} "})
        assert getattr(found, field) == expected
        assert found.problems == ()


def test_settings_ask_where_no_variable_does() -> None:
    assert read({}, effortLevel="low").effort == "low"
    assert read({"CLEW_EFFORT": "max"}, effortLevel="low").effort == "max"
    assert read({}, maxThinkingTokens=2048).thinking == ThinkingBudget(tokens=2048)
    assert read({"MAX_THINKING_TOKENS": "0"}, maxThinkingTokens=2048).thinking == Off()
    assert read({}, alwaysThinkingEnabled=False).thinking == Off()
    assert read({}, alwaysThinkingEnabled=True).thinking is None


def test_what_cannot_be_read_is_named_and_asks_for_nothing() -> None:
    wrong = {"MAX_THINKING_TOKENS": "many", "CLAUDE_CODE_MAX_RETRIES": "9" * 20, "CLEW_EFFORT": "?"}
    found = read(wrong)
    assert (found.thinking, found.policy, found.effort) == (None, RetryPolicy(), None)
    [problem] = found.problems
    assert problem.startswith("effort must be one of low, medium")
    assert [fault.split(":")[0] for fault in freeze(wrong).faults] == [
        "MAX_THINKING_TOKENS",
        "CLAUDE_CODE_MAX_RETRIES",
    ]


def test_a_request_keeps_what_it_says_itself() -> None:
    asked = Preferences(max_tokens=9, thinking=Off(), cache=None)
    plain = ModelRequest(model="m", messages=[])
    assert apply_preferences(plain, asked) == ModelRequest(
        model="m", messages=[], max_tokens=9, thinking=Off(), cache=None
    )
    own = ModelRequest(model="m", messages=[], max_tokens=1, thinking=Adaptive(), cache="1h")
    assert apply_preferences(own, asked) == own


def test_effort_is_lowered_to_the_highest_one_allowed() -> None:
    assert limit_effort("max", None) == "max"
    assert limit_effort("max", "low") == "low"
    assert limit_effort(None, "low") == "low"
    assert limit_effort("low", "high") == "low"
    assert limit_effort(None, "high") is None


LISTED = {"availableModels": ["opus", "", 3]}


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ([], ModelLimits()),
        ([("user", LISTED)], ModelLimits(allowed=("opus",))),
        ([("user", LISTED), ("local", {"availableModels": ["haiku"]})], ModelLimits(allowed=("haiku",))),
        ([("user", {"availableModels": "opus"})], ModelLimits()),
        ([("managed", {"availableModels": "opus"}), ("user", LISTED)], ModelLimits(allowed=())),
        ([("managed", {"deniedModels": ["opus"]})], ModelLimits(denied=("opus",))),
        ([("user", {"deniedModels": ["opus"]})], ModelLimits()),
        ([("managed", {"deniedModels": "opus"}), ("user", LISTED)], ModelLimits(allowed=())),
        (
            [("managed", LISTED | {"availableModelsMatch": "exact"})],
            ModelLimits(allowed=("opus",), is_exact=True, binds_default=True),
        ),
        (
            [("managed", LISTED | {"enforceAvailableModels": True})],
            ModelLimits(allowed=("opus",), binds_default=True),
        ),
    ],
)  # fmt: skip
def test_limits_of_models_come_from_the_highest_layer(
    layers: list[tuple[Scope, dict[str, Any]]], expected: ModelLimits
) -> None:
    found = [Layer(scope=scope, data=data, root="/r") for scope, data in layers]
    assert read_model_limits(found) == expected
