"""The effect of hooks on a decision.

They can restrict anything, and allow only what no rule restricts.
"""

import pytest

from clew.agent.hooks.outcome import NOTHING, HookOutcome, with_hooks
from clew.permissions.decision import (
    Allow,
    Ask,
    Decision,
    Deny,
    Finding,
    Nature,
    NeedsReview,
    Verdict,
    describe_reason,
    make_decision,
)


def decision(verdict: Verdict, nature: Nature = "base") -> Decision:
    return make_decision([Finding(subject="it", verdict=verdict, reason="so", nature=nature)])


EVERY = [
    decision(verdict, nature)
    for verdict in ("allow", "review", "ask", "deny")
    for nature in ("base", "rule", "guard")
]


@pytest.mark.parametrize("before", EVERY)
def test_silence_and_putting_off_change_nothing(before: Decision) -> None:
    assert with_hooks(before, NOTHING) is before
    deferred = with_hooks(before, HookOutcome(permission="defer"))
    assert deferred == with_hooks(before, HookOutcome(permission="ask"))


@pytest.mark.parametrize("before", EVERY)
def test_a_denial_counts_whatever_else_was_said(before: Decision) -> None:
    after = with_hooks(before, HookOutcome(permission="deny", reason="no"))
    assert isinstance(after, Deny)


@pytest.mark.parametrize("before", EVERY)
def test_a_question_makes_a_question_of_all_but_a_denial(before: Decision) -> None:
    after = with_hooks(before, HookOutcome(permission="ask"))
    assert isinstance(after, Deny if isinstance(before, Deny) else Ask)
    if not isinstance(before, Deny | Ask):
        assert describe_reason(after) == "hook: no reason given"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (decision("ask"), Allow),
        (decision("review"), Allow),
        (decision("allow"), Allow),
        (decision("ask", "rule"), Ask),
        (decision("ask", "guard"), Ask),
        (decision("review", "guard"), NeedsReview),
        (decision("deny"), Deny),
        (decision("deny", "rule"), Deny),
    ],
)
def test_a_yes_lifts_no_rule_and_no_guard(before: Decision, after: type[Decision]) -> None:
    assert isinstance(with_hooks(before, HookOutcome(permission="allow", reason="known")), after)


def test_a_yes_is_among_the_reasons() -> None:
    assert describe_reason(
        with_hooks(decision("ask"), HookOutcome(permission="allow", reason="known"))
    ) == ("it: allowed by a hook: known")
    assert describe_reason(with_hooks(decision("ask"), HookOutcome(permission="allow"))) == (
        "it: allowed by a hook"
    )
