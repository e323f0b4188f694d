"""How long a service asks to wait, in every format that services use."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.providers.retry import find_seconds, parse_seconds, read_retry_after_s, reset_after_s
from tests.requirements import requirement

NOW_S = 1_795_420_800.0


@requirement("R074")
@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Please try again in 4.0s. Visit the page to learn more.", 4.0),
        ("Please try again in 1m30s.", 90.0),
        ("Please try again in 1h2m3.5s.", 3723.5),
        ("try again in 20ms", 0.02),
        ("Please retry in 34.074824224s.", 34.074824224),
        ("Please retry after 12 seconds.", 12.0),
        ("Try again in about 2 minutes", 120.0),
        ("try again in 1 hour and 5 minutes", 3900.0),
        ("try again in 3 days", 259_200.0),
        ("try again in 2 minutes, 30 seconds", 150.0),
        ("try again in 3 months", None),
        ("try again later", None),
        ("try again in a moment, or retry after 7 s", 7.0),
        ("it took 4.0s", None),
        ("", None),
    ],
)
def test_a_wait_is_read_in_a_sentence(text: str, seconds: float | None) -> None:
    assert find_seconds(text) == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("34.07s", 34.07), ("6m0s", 360.0), (" 1s ", 1.0), ("1", None), ("1s later", None)],
)
def test_a_duration_is_read_whole_or_not_at_all(text: str, seconds: float | None) -> None:
    assert parse_seconds(text) == seconds


@given(st.text(max_size=200))
def test_no_text_is_more_than_a_wait_or_none(text: str) -> None:
    for read in (find_seconds, parse_seconds):
        seconds = read(f"try again in {text}")
        assert seconds is None or seconds >= 0


def test_a_header_may_hold_a_duration_and_a_date_needs_a_clock() -> None:
    assert read_retry_after_s({"retry-after": "34s"}, wall_s=0) == 34.0
    date = {"retry-after": "Mon, 23 Nov 2026 08:00:45 GMT"}
    assert read_retry_after_s(date, wall_s=None) is None
    theirs = date | {"date": "Mon, 23 Nov 2026 08:00:00 GMT"}
    assert read_retry_after_s(theirs, wall_s=None) == 45.0


@requirement("R074")
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"x-ratelimit-reset-requests": "1s"}, 1.0),
        ({"x-ratelimit-reset-requests": "1m30s", "x-ratelimit-remaining-requests": "0"}, 90.0),
        ({"x-ratelimit-reset-requests": "1m30s", "x-ratelimit-remaining-requests": "7"}, None),
        (
            {
                "x-ratelimit-reset-requests": "1m30s",
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-tokens": "6m0s",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset": "9h",
            },
            360.0,
        ),
        ({"x-ratelimit-reset": "30"}, 30.0),
        ({"x-ratelimit-reset": f"{NOW_S + 60:.0f}"}, 60.0),
        ({"x-ratelimit-reset": f"{(NOW_S + 60) * 1000:.0f}"}, 60.0),
        ({"x-ratelimit-reset": f"{NOW_S - 60:.0f}"}, 0.0),
        ({"x-ratelimit-reset": "soon"}, None),
        ({"x-ratelimit-reset": "2026-11-23T08:01:00"}, None),
        ({"anthropic-ratelimit-tokens-reset": "2026-11-23T08:01:00Z"}, 60.0),
        (
            {
                "anthropic-ratelimit-tokens-reset": "2026-11-23T08:01:00Z",
                "anthropic-ratelimit-tokens-remaining": "0",
            },
            60.0,
        ),
        ({"anthropic-ratelimit-tokens-remaining": "0"}, None),
    ],
)
def test_the_reset_of_an_exhausted_limit_is_read(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert reset_after_s(headers, now_s=NOW_S) == seconds


def test_a_moment_without_a_clock_is_no_wait() -> None:
    assert reset_after_s({"x-ratelimit-reset": f"{NOW_S:.0f}"}, now_s=None) is None
    assert reset_after_s({"x-ratelimit-reset": "30"}, now_s=None) == 30.0
