"""Cron expressions match as in every cron, and durations are parsed as written."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.parts.schedules.cron import format_span, parse_span, read

FROM = datetime(2026, 11, 20, 17, 58, 30)  # a Friday


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("* * * * *", "2026-11-20 17:59"),
        ("*/5 * * * *", "2026-11-20 18:00"),
        ("0 9 * * *", "2026-11-21 09:00"),
        ("30 17 * * *", "2026-11-21 17:30"),
        ("59 17 * * *", "2026-11-20 17:59"),
        ("15,45 8-10/2 * * mon-wed", "2026-11-23 08:15"),
        ("0 0 1 * *", "2026-12-01 00:00"),
        ("0 0 13 * 5", "2026-11-27 00:00"),
        ("0 0 1 * 0", "2026-11-22 00:00"),
        ("0 0 * * 7", "2026-11-22 00:00"),
        ("0 12 29 feb *", "2028-02-29 12:00"),
        ("10/20 * * * *", "2026-11-20 18:10"),
        ("@weekly", "2026-11-22 00:00"),
        ("0 0 31 dec *", "2026-12-31 00:00"),
    ],
)
def test_the_next_time_is_found(text: str, after: str) -> None:
    assert f"{read(text).after(FROM):%Y-%m-%d %H:%M}" == after


def test_what_never_comes_is_said() -> None:
    assert read("0 0 31 2 *").after(FROM) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("* * * *", "expected five fields"),
        ("60 * * * *", 'minute: "60" must be a number from 0 to 59'),
        ("* * 0 * *", 'day of the month: "0" must be a number from'),
        ("* * * foo *", 'month: "foo" must be a number from'),
        ("5-1 * * * *", '"5-1" matches nothing'),
        ("*/0 * * * *", '"*/0" matches nothing'),
        ("a b * * *", 'minute: "a" must'),
        ("* * * * 1,", 'invalid value ""'),
    ],
)
def test_what_is_wrong_is_said(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        read(text)
    assert why in str(caught.value)


@given(
    st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)), st.integers(0, 59), st.integers(0, 23)
)
def test_the_next_time_is_later_and_fits(moment: datetime, minute: int, hour: int) -> None:
    found = read(f"{minute} {hour} * * *").after(moment)
    assert found is not None
    assert found > moment
    assert (found.minute, found.hour) == (minute, hour)
    assert (found - moment).total_seconds() <= 86_400 + 60


def test_a_span_beyond_all_bounds_is_a_long_one() -> None:
    longest = parse_span("3650d")
    assert parse_span("999999999999999999999999h") == longest
    assert parse_span("99999999d") == longest
    assert parse_span("٣h") is None


def test_spans_are_read_as_written() -> None:
    assert [parse_span(text) for text in ("90s", "5m", "1h30m", "2D")] == [90, 300, 5400, 172_800]
    assert [parse_span(text) for text in ("", "5", "m", "5x", "5m later")] == [None] * 5
    assert [format_span(count) for count in (0, 90, 5400, 172_800)] == [
        "0s",
        "1m30s",
        "1h30m",
        "2d",
    ]
