"""The variables that ask something of every request: both spellings, nothing taken silently."""

import pytest

from clew.providers.base import Adaptive, Budget, Off, Request
from clew.providers.preferences import Preferences, preferences_from_environment, preferred
from clew.providers.retry import Policy


def test_nothing_said_is_nothing_asked() -> None:
    assert preferences_from_environment({}) == Preferences()


@pytest.mark.parametrize(
    ("names", "field", "said", "expected"),
    [
        (["CLEW_MODEL", "ANTHROPIC_MODEL", "CLAUDE_MODEL"], "model", "opus", "opus"),
        (["CLEW_MAX_OUTPUT_TOKENS", "CLAUDE_CODE_MAX_OUTPUT_TOKENS"], "max_tokens", "9000", 9000),
        (["CLEW_MAX_THINKING_TOKENS", "MAX_THINKING_TOKENS"], "thinking", "5000", Budget(tokens=5000)),
        (["CLEW_MAX_THINKING_TOKENS", "MAX_THINKING_TOKENS"], "thinking", "0", Off()),
        (["CLEW_CACHE_1H", "ENABLE_PROMPT_CACHING_1H"], "cache", "1", "1h"),
        (["CLEW_DISABLE_CACHE", "DISABLE_PROMPT_CACHING"], "cache", "true", None),
        (["CLEW_DISABLE_CACHE", "DISABLE_PROMPT_CACHING"], "cache", "False", "5m"),
        (["CLEW_MAX_RETRIES", "CLAUDE_CODE_MAX_RETRIES"], "policy", "3", Policy(max_attempts=4)),
        (["CLEW_UNATTENDED", "CLAUDE_CODE_UNATTENDED_RETRY"], "policy", "1", Policy(unattended=True)),
    ],
)  # fmt: skip
def test_each_spelling_is_read(names: list[str], field: str, said: str, expected: object) -> None:
    for name in names:
        read = preferences_from_environment({name: f" {said} "})
        assert getattr(read, field) == expected
        assert read.problems == ()


def test_clews_own_spelling_stands_above_the_others() -> None:
    both = {"CLAUDE_MODEL": "a", "ANTHROPIC_MODEL": "b", "CLEW_MODEL": "c"}
    assert preferences_from_environment(both).model == "c"


def test_what_cannot_be_read_is_named_and_asks_for_nothing() -> None:
    wrong = {"MAX_THINKING_TOKENS": "many", "CLAUDE_CODE_MAX_RETRIES": "9" * 20}
    read = preferences_from_environment(wrong)
    assert (read.thinking, read.policy) == (None, Policy())
    assert [problem.split(":")[0] for problem in read.problems] == [
        "CLAUDE_CODE_MAX_RETRIES",
        "MAX_THINKING_TOKENS",
    ]


def test_a_request_keeps_what_it_says_itself() -> None:
    asked = Preferences(max_tokens=9, thinking=Off(), cache=None)
    plain = Request(model="m", messages=[])
    assert preferred(plain, asked) == Request(
        model="m", messages=[], max_tokens=9, thinking=Off(), cache=None
    )
    own = Request(model="m", messages=[], max_tokens=1, thinking=Adaptive(), cache="1h")
    assert preferred(own, asked) == own
