"""Prices are exact and dated, depend on the prompt's length, and are None if unknown."""

from decimal import Decimal

import pytest

from clew.core.catalog.lookup import CATALOG
from clew.core.catalog.models import Price, find_price, make_rates

# What a published client charged for each model, in dollars per million: input, output, a write
# for five minutes, a read.
CHARGED = {
    "claude-opus-5-5": ("4", "20", "5", "0.2"),
    "claude-sonnet-5-5": ("2", "10", "2.5", "0.1"),
    "claude-haiku-5-5": ("0.1", "0.5", "0.125", "0.01"),
    "claude-fable-5-2": ("8", "40", "10", "0.2"),
    "claude-opus-4-5": ("5", "25", "6.25", "0.5"),
    "claude-sonnet-4-5": ("3", "15", "3.75", "0.3"),
    "claude-haiku-4-5": ("1", "5", "1.25", "0.1"),
    "claude-3-5-haiku": ("0.8", "4", "1", "0.08"),
}


@pytest.mark.parametrize("model", CHARGED)
def test_the_table_agrees_with_what_a_published_client_charged(model: str) -> None:
    found = CATALOG.find(model)
    assert found is not None
    price = find_price(found.prices, "2026-11-20")
    assert price is not None
    got = price.rates
    assert (got.input, got.output, got.cache_write_5m, got.cache_read) == tuple(
        map(Decimal, CHARGED[model])
    )
    assert got.cache_write_1h == 2 * got.input


def test_a_price_holds_from_its_date_on() -> None:
    model = CATALOG.find("claude-sonnet-5-5")
    assert model is not None
    reads = {
        at: price.rates.cache_read if (price := find_price(model.prices, at)) else None
        for at in ("2020-01-01", "2026-10-06T23:59:59Z", "2026-10-07T00:00:00Z", "2030-01-01")
    }
    assert list(map(str, reads.values())) == ["0.2", "0.2", "0.1", "0.1"]


def test_a_price_nobody_knows_is_none_and_never_zero() -> None:
    assert find_price(CATALOG.entry("gpt-6").prices, "2026-11-20") is None
    limited = CATALOG.find("claude-mythos-5-2")
    assert limited is not None
    assert find_price(limited.prices, "2026-11-20") is None


def test_before_the_first_price_the_first_one_holds() -> None:
    first = Price(since="2026-01-01", rates=make_rates("1", "2"))
    assert find_price((first,), "2025-01-01") == first


def test_a_long_prompt_has_its_own_rates() -> None:
    haiku = CATALOG.find("haiku")
    assert haiku is not None
    price = haiku.prices[0]
    assert str(price.for_prompt(100_000).input) == "0.1"
    assert str(price.for_prompt(100_001).input) == "0.5"
    assert Price(since="", rates=make_rates("1", "2")).for_prompt(10**7).input == 1


def test_cached_tokens_are_added_and_never_taken_off_the_input() -> None:
    cost = make_rates("3", "15").usd(input_tokens=50, cache_read_tokens=100_000, output_tokens=500)
    assert cost == Decimal("0.03765")
    assert make_rates("3", "15").usd(
        cache_write_5m_tokens=10**6, cache_write_1h_tokens=10**6
    ) == Decimal("9.75")
