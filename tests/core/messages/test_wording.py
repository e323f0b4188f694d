"""What the user sees of text that was written for the model."""

import pytest

from clew.core.messages.text import (
    describe_reviewer_rejection,
    describe_subagent_rejection,
    describe_user_rejection,
    for_person,
    replace_unprintable,
)


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        (describe_user_rejection(), "Denied"),
        (describe_user_rejection("use y.txt"), "Denied: use y.txt"),
        (
            describe_reviewer_rejection("it deletes"),
            "The automatic review denied this call: it deletes. It did not run.",
        ),
        (
            describe_subagent_rejection(),
            "This call is not permitted here and did not run. There is no user in this conversation "
            "to ask.",
        ),
        ("This call is not permitted and did not run: a rule.",) * 2,
    ],
)
def test_a_user_reads_what_became_of_a_call_and_no_advice_for_the_model(
    told: str, shown: str
) -> None:
    assert for_person(told) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("\U0001f469\u200d\U0001f467", "\U0001f469\u200d\U0001f467"),
        ("a\u200db\x1b", "a\ufffdb\ufffd"),
        ("two\nlines", "two\nlines"),
    ],
)
def test_joiners_stay_between_the_signs_that_they_join(text: str, shown: str) -> None:
    assert replace_unprintable(text, kept="\n") == shown
