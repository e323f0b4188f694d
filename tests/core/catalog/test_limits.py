"""Which models lists of allowed and denied ones stand for."""

import pytest

from clew.core.catalog.limits import ModelLimits, covers
from clew.core.catalog.lookup import CATALOG


@pytest.mark.parametrize(
    ("entry", "model", "is_covered"),
    [
        ("opus", "claude-opus-5-5", True),
        ("opus", "us.anthropic.claude-opus-4-5-20251101-v1:0", True),
        ("Opus", "claude-3-opus-20240229", True),
        ("opus", "claude-sonnet-5-5", False),
        ("opus-4-5", "claude-opus-4-5-20251101", True),
        ("opus-4", "claude-opus-4-5", True),
        ("opus-4", "claude-opus-41", False),
        ("claude-opus-5-5", "claude-opus-5", False),
        ("claude-opus-5-5", "openrouter/anthropic/claude-opus-5-5", True),
        ("claude-opus-5-5", "claude-opus-5-5-fast", True),
        ("claude-opus-5-5", "claude-opus-5-5[1m]", True),
        ("claude-opus-5@20251101", "claude-opus-5", True),
        ("claude", "claude-haiku-5-5", True),
        ("openai/gpt-6", "openai/gpt-6-sol", True),
        ("gpt-6", "openai/gpt-5.6", False),
        ("default", "claude-sonnet-5-5", False),
        ("  ", "claude-sonnet-5-5", False),
        ("5", "claude-opus-5", False),
    ],
)
def test_an_entry_stands_for_a_family_a_version_or_an_id(
    entry: str, model: str, is_covered: bool
) -> None:
    assert covers(entry, model) is is_covered


@pytest.mark.parametrize(
    ("limits", "permitted", "refused"),
    [
        (ModelLimits(), ["opus", "unknown"], []),
        (ModelLimits(denied=("opus",)), ["sonnet"], ["opus", "claude-opus-4-5", "x/claude-opus-9"]),
        (ModelLimits(allowed=("opus",)), ["opus", "claude-opus-4-5"], ["haiku", "unknown"]),
        (ModelLimits(allowed=()), [], ["sonnet", "opus"]),
        (ModelLimits(allowed=("opus",), denied=("claude-opus-5-5",)), ["claude-opus-5"], ["opus"]),
        (ModelLimits(allowed=("claude-opus-5",)), ["claude-opus-5", "claude-opus-5-5"], []),
        (
            ModelLimits(allowed=("claude-opus-5",), is_exact=True),
            ["claude-opus-5", "claude-opus-5-20260101"],
            ["claude-opus-5-5"],
        ),
        (ModelLimits(allowed=("opus",), is_exact=True), ["claude-opus-5-5"], []),
        (ModelLimits(allowed=("route/claude-opus-5",)), ["route/claude-opus-5"], ["claude-opus-5"]),
    ],
)
def test_a_model_is_permitted_or_refused_with_the_reason(
    limits: ModelLimits, permitted: list[str], refused: list[str]
) -> None:
    assert [limits.describe_refusal(CATALOG, name) for name in permitted] == [""] * len(permitted)
    assert all(limits.describe_refusal(CATALOG, name) for name in refused)


def test_an_exempt_model_need_not_be_listed_but_may_be_denied() -> None:
    listed = ModelLimits(allowed=("opus",), denied=("haiku",))
    assert listed.describe_refusal(CATALOG, "claude-sonnet-5-5", exempt=["sonnet"]) == ""
    assert "deniedModels" in listed.describe_refusal(CATALOG, "haiku", exempt=["haiku"])


@pytest.mark.parametrize(
    ("limits", "default"),
    [
        (ModelLimits(), "sonnet"),
        (ModelLimits(allowed=("opus",)), "sonnet"),
        (ModelLimits(allowed=(), denied=("opus",)), "sonnet"),
        (ModelLimits(allowed=("haiku", "opus"), binds_default=True), "haiku"),
        (ModelLimits(allowed=("opus-5-5",), binds_default=True), "claude-opus-5-5"),
        (ModelLimits(allowed=("best", "gw/x-1"), binds_default=True), "gw/x-1"),
        (ModelLimits(allowed=("sonnet", "opus"), denied=("sonnet",)), "opus"),
        (ModelLimits(allowed=("sonnet",), denied=("sonnet",)), None),
        (ModelLimits(denied=("claude",)), None),
    ],
)
def test_the_default_steps_down_to_a_permitted_model(
    limits: ModelLimits, default: str | None
) -> None:
    assert limits.choose_default(CATALOG, "sonnet") == default


def test_without_a_usable_alias_the_default_is_a_model_of_the_catalog() -> None:
    chosen = ModelLimits(denied=("sonnet",)).choose_default(CATALOG, "sonnet")
    assert chosen is not None
    assert "sonnet" not in chosen
