"""Why the prompt cache missed.

From usage, the service's diagnostics, the time, and clew's comparison.
"""

from decimal import Decimal
from typing import Any

import pytest

from clew.core.catalog.lookup import CATALOG
from clew.core.ledger.cache_miss import (
    MEANINGS,
    CacheMiss,
    compute_extra_usd,
    find_miss,
    find_recorded_misses,
    read_usage_tokens,
    span,
    sum_up,
)
from clew.core.ledger.spending import TokenCounts
from clew.core.normalize.prefix import SYSTEM

AT = "2026-11-01T00:00:00.000Z"
CACHED = TokenCounts(cache_read=30_000, cache_write_5m=10_000)
COLD = TokenCounts(input=500, cache_write_5m=45_000)


def said(kind: str | None, **more: Any) -> dict[str, Any]:
    return {"cache_miss_reason": None if kind is None else {"type": kind, **more}}


def test_what_was_read_is_no_miss_whatever_the_service_compares() -> None:
    """Diagnostics compare requests; only the usage tells whether the cache was read."""
    whole = TokenCounts(cache_read=40_000, cache_write_5m=900)
    assert find_miss(CACHED, whole, said("messages_changed")) is None
    almost = TokenCounts(cache_read=39_900, cache_write_5m=900)
    assert find_miss(CACHED, almost, None, idle_s=9_999) is None


@pytest.mark.parametrize(
    ("diagnostics", "more", "reason"),
    [
        (said("tools_changed", cache_missed_input_tokens=39_000), {}, "tools_changed"),
        (said("model_changed"), {"idle_s": 999.0}, "model_changed"),
        (said("a_new_one"), {}, "a_new_one"),
        (said("tools_changed"), {"is_compacted": True}, "compacted"),
        (said(None), {}, "pending"),
        (said(None), {"idle_s": 301.0}, "expired"),
        (said(None), {"idle_s": 301.0, "lifetime_s": 3600.0}, "pending"),
        (said("unavailable"), {}, "unavailable"),
        (said("previous_message_not_found"), {"idle_s": 900.0}, "expired"),
        (said("unavailable"), {"changed": "tools: A added"}, "tools_changed"),
        (None, {"changed": "the order of the tools changed"}, "tools_changed"),
        (None, {"changed": "the model changed from a to b"}, "model_changed"),
        (None, {"changed": SYSTEM}, "system_changed"),
        (None, {"changed": "message 3 of 9 changed (user)"}, "messages_changed"),
        (None, {}, "unknown"),
        ({"cache_miss_reason": "text"}, {}, "unknown"),
        ("text", {}, "unknown"),
    ],
)
def test_the_reason_is_the_most_certain_one(
    diagnostics: Any, more: dict[str, Any], reason: str
) -> None:
    assert find_miss(CACHED, COLD, diagnostics, **more) == (reason, 40_000)


def test_no_more_is_missed_than_was_sent() -> None:
    assert find_miss(CACHED, TokenCounts(input=2_000), None) == ("unknown", 2_000)


def test_it_costs_what_was_paid_less_a_read() -> None:
    model = "claude-sonnet-4-5"  # $3 a million, a read $0.30, a write $3.75 or $6
    assert compute_extra_usd(COLD, 40_000, model, AT, CATALOG) == Decimal("0.138")
    long = TokenCounts(cache_write_1h=10_000, cache_write_5m=10_000, input=20_000)
    assert compute_extra_usd(long, 40_000, model, AT, CATALOG) == Decimal("0.1455")
    assert compute_extra_usd(COLD, 40_000, "of-tomorrow", AT, CATALOG) is None


def test_a_miss_is_told_sum_up_with_what_it_cost() -> None:
    usd = Decimal("0.138")
    tools = CacheMiss(
        reason="tools_changed", tokens=40_000, changed="tools: A added", extra_usd=usd
    )
    assert str(tools) == "tools: A added (40,000 tokens, $0.1380 more than a cache read)"
    late = CacheMiss(reason="expired", tokens=40_000, idle_s=725)
    assert str(late) == "the cache expired: 12 min without a request (40,000 tokens)"
    short = CacheMiss(reason="compacted", tokens=9, changed="message 1 of 2 changed (user)")
    assert str(short) == "the conversation was compacted (9 tokens)"
    new = CacheMiss(reason="a_new_one", tokens=9, changed="tools: A added")
    assert str(new) == "a_new_one: tools: A added (9 tokens)"
    assert str(CacheMiss(reason="unavailable", tokens=9)).startswith("reason unavailable")
    assert (
        sum_up([tools, late])
        == "2 requests, 80,000 tokens not read from the cache; $0.1380 more than cache reads"
    )
    assert sum_up([late]) == "1 request, 40,000 tokens not read from the cache"
    assert set(MEANINGS) >= {"expired", "compacted", "unknown", "pending"}


@pytest.mark.parametrize(
    ("seconds", "words"), [(20, "20 s"), (301, "5 min"), (7200, "2 h"), (8100, "2 h 15 min")]
)
def test_a_pause_has_words(seconds: float, words: str) -> None:
    assert span(seconds) == words


def test_what_is_recorded_is_read_again() -> None:
    miss = CacheMiss(
        reason="tools_changed",
        tokens=40_000,
        changed="tools: A added",
        idle_s=12.0,
        extra_usd=Decimal("0.138"),
        at=AT,
    )
    bare = CacheMiss(reason="unknown", tokens=7, at=AT)
    entries = [
        {"type": "assistant", "timestamp": AT, "cacheMiss": miss.as_json()},
        {"type": "assistant", "timestamp": AT, "cacheMiss": bare.as_json()},
        {"type": "user", "timestamp": AT, "cacheMiss": bare.as_json()},
        {"type": "assistant", "timestamp": AT, "cacheMiss": "text"},
        {"type": "assistant", "timestamp": AT},
    ]
    odd = {"reason": "x", "tokens": "1", "changed": 2, "idleSeconds": "3", "extraCostUSD": "4"}
    assert list(find_recorded_misses(entries)) == [miss, bare]
    assert list(find_recorded_misses([{"type": "assistant", "cacheMiss": odd}])) == [
        CacheMiss(reason="x", tokens=0)
    ]


def test_an_answer_that_was_not_counted_says_nothing_of_the_cache() -> None:
    assert read_usage_tokens({"usage": {"input_tokens": 5}}) == TokenCounts(input=5)
    assert read_usage_tokens({"usage": {"output_tokens": 5}}) is None
    assert read_usage_tokens({}) is None
