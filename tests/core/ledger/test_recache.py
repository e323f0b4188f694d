"""The cost of a request whose beginning is no longer cached."""

from decimal import Decimal

from clew.core.catalog.lookup import CATALOG
from clew.core.ledger.spending import TokenCounts, estimate_recaching, find_last_size

AT = "2026-11-01T00:00:00.000Z"


def answer(model: str, **usage: int) -> dict[str, object]:
    return {"type": "assistant", "message": {"model": model, "usage": usage}}


def test_the_last_answer_that_was_counted_says_how_much_is_cached() -> None:
    entries = [
        answer("claude-sonnet-5-5", input_tokens=1, output_tokens=1),
        answer("claude-sonnet-5-5", input_tokens=5, cache_read_input_tokens=90, output_tokens=5),
        {"type": "assistant", "message": {"model": "<synthetic>", "usage": {"input_tokens": 0}}},
        {"type": "assistant", "message": {"model": "claude-sonnet-5-5"}},
        {"type": "user", "message": {"content": "x"}},
        {"type": "assistant", "message": "no object"},
    ]
    found = find_last_size(entries)
    assert found is not None
    assert found.total == 100
    assert find_last_size([]) is None


def test_it_is_said_what_is_sent_again_and_what_it_costs() -> None:
    last = TokenCounts(cache_read=999_000, output=1_000)
    cost = estimate_recaching(
        last, model="claude-opus-5-5", before="claude-sonnet-5-5", at=AT, catalog=CATALOG
    )
    assert cost.tokens == 1_000_000
    assert str(cost) == (
        "about 1,000,000 tokens will be sent and cached again: $5.0000 instead of $0.1000"
    )
    assert cost.extra_usd is not None
    assert round(cost.extra_usd, 4) == Decimal("4.9")
    unknown = estimate_recaching(
        last, model="of-tomorrow", before="of-tomorrow", at=AT, catalog=CATALOG
    )
    assert unknown.extra_usd is None
    assert str(unknown) == "about 1,000,000 tokens will be sent and cached again"
