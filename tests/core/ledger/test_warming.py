"""Whether keeping the prompt cache warm saves money: by prices, by usual waits, within a budget."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.catalog.models import Rates, make_rates
from clew.core.ledger.warming import (
    NO_GAIN,
    NOTHING_CACHED,
    SPENT,
    TOO_LATE,
    TOO_LONG,
    Cached,
    Waiting,
    WarmingWait,
    chance,
    expected_gain_usd,
    most_requests,
    why_not_warm,
)

FREE = Rates(
    input=Decimal(0),
    output=Decimal(0),
    cache_write_5m=Decimal(0),
    cache_write_1h=Decimal(0),
    cache_read=Decimal(0),
)
RICH = Decimal(100)


def cached(
    tokens: int = 100_000, *, tail: int = 0, is_long: bool = False, price: Rates | None = None
) -> Cached:
    return Cached(
        tokens=tokens,
        tail=tail,
        lifetime_s=3600.0 if is_long else 300.0,
        is_long=is_long,
        rates=price or make_rates("3", "15"),
    )


def wait(elapsed_s: float = 270.0, waiting: Waiting = "tools", spent: str = "0") -> WarmingWait:
    return WarmingWait(waiting=waiting, elapsed_s=elapsed_s, spent_usd=Decimal(spent))


def test_prices_say_what_a_request_costs_and_saves() -> None:
    short, long = cached(tail=1_000), cached(is_long=True)
    assert (short.read_usd, short.saving_usd) == (Decimal("0.033"), Decimal("0.345"))
    assert short.worst_usd == Decimal("0.37875")
    assert (long.read_usd, long.saving_usd) == (Decimal("0.03"), Decimal("0.57"))
    assert long.worst_usd == Decimal("0.6")
    assert (cached().due_s, long.due_s) == (270.0, 3240.0)


@pytest.mark.parametrize(
    ("what", "waited", "known", "left", "why"),
    [
        (cached(), wait(), [], RICH, ""),
        (cached(), wait(waiting="user"), [], RICH, ""),
        (cached(100), wait(), [], RICH, NOTHING_CACHED),
        (cached(), wait(), [], Decimal("0.37"), SPENT),
        (cached(), wait(), [], Decimal("0.375"), ""),
        (cached(), wait(3_700.0, "user"), [], RICH, TOO_LONG),
        (
            cached(),
            wait(spent="0.315"),
            [],
            RICH,
            NO_GAIN,
        ),
        (cached(), wait(7_200.0), [], RICH, TOO_LATE),
        (cached(price=FREE), wait(), [], RICH, NO_GAIN),
        # Waits of this session that lasted so long took hours, or ended soon after.
        (
            cached(),
            wait(1_200.0, "user"),
            [20_000.0] * 9,
            RICH,
            TOO_LATE,
        ),
        (cached(), wait(3_000.0, "user"), [3_200.0] * 9, RICH, ""),
    ],
)
def test_it_pays_if_the_next_request_is_likely_to_come_in_time(
    what: Cached, waited: WarmingWait, known: list[float], left: Decimal, why: str
) -> None:
    assert why_not_warm(what, waited, known, left) == why


def test_the_sessions_waits_outweigh_the_assumption() -> None:
    usual = chance(wait(300.0), 300.0, 600.0, [])
    assert usual == pytest.approx(0.5)
    assert chance(wait(300.0), 300.0, 600.0, [400.0] * 8) == pytest.approx(0.9)
    assert chance(wait(300.0), 300.0, 600.0, [9_000.0] * 8) == pytest.approx(0.1)
    assert chance(wait(300.0), 300.0, 600.0, [10.0] * 8) == usual


def test_what_costs_nothing_or_saves_nothing_is_never_worth_a_request() -> None:
    dear = make_rates("3", "15", write_5m="0.1", read="0.3")
    assert most_requests(cached(price=FREE)) == 0
    assert most_requests(cached(price=dear)) == 0
    assert expected_gain_usd(cached(price=dear), wait(), []) == Decimal("-Infinity")
    assert most_requests(cached()) == 11
    even = make_rates("3", "15", write_5m="3.3", read="0.3")
    assert most_requests(cached(price=even)) == 9


@given(
    st.integers(0, 10**6),
    st.floats(0, 10**5),
    st.lists(st.floats(0, 10**5), max_size=8),
    st.decimals(0, 10, places=4),
    st.decimals(0, 10, places=4),
    st.sampled_from(["tools", "user"]),
    st.booleans(),
)
def test_no_request_can_exceed_the_budget_or_make_a_wait_dearer_than_a_miss(
    tokens: int,
    elapsed_s: float,
    known: list[float],
    spent: Decimal,
    left: Decimal,
    waiting: Waiting,
    is_long: bool,
) -> None:
    what = cached(tokens, is_long=is_long)
    waited = WarmingWait(waiting=waiting, elapsed_s=elapsed_s, spent_usd=spent)
    if not why_not_warm(what, waited, known, left):
        assert what.worst_usd <= left
        assert spent + what.read_usd < what.saving_usd
        assert expected_gain_usd(what, waited, known) > 0
