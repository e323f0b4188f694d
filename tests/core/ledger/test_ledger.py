"""Cost equals the recorded usage, each response counted once, and every sum adds up."""

import pickle
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.catalog.lookup import CATALOG
from clew.core.catalog.models import make_rates
from clew.core.ledger.ledger import (
    ANSWER,
    Charge,
    Ledger,
    Spend,
    Sums,
    find_charges,
    is_spent,
    server_of,
    shares,
    spend_of,
)
from clew.core.ledger.spending import TokenCounts, compute_usd, tokens_of
from clew.core.messages import factories
from tests.requirements import requirement

WHEN = "2026-11-01T00:00:00.000Z"
MODEL = "claude-sonnet-4-5"
UNKNOWN = "somebody/else-1"


def charge(number: int, **more: Any) -> Charge:
    return Charge(
        **{
            "message_id": f"m{number}",
            "request_id": f"r{number}",
            "model": MODEL,
            "at": WHEN,
            "tokens": TokenCounts(input=10 * number, output=number),
            "usd": Decimal(number),
        }
        | more
    )


def answered(usage: dict[str, Any], *blocks: Any, model: str = MODEL, number: int = 1) -> Any:
    message = {"id": f"m{number}", "model": model, "content": list(blocks), "usage": usage}
    uuids = [f"{number}-{i}" for i in range(len(blocks))]
    return factories.make_assistant(message, uuids=uuids, at=WHEN, request_id=f"r{number}")


def words(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def call(name: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": name, "input": {}}


@requirement("W13", "R110", "V7")
def test_cached_tokens_stand_beside_the_input_and_never_in_it() -> None:
    usage = {"input_tokens": 50, "cache_read_input_tokens": 100_000, "output_tokens": 500}
    assert compute_usd(usage, MODEL, WHEN, CATALOG) == Decimal("0.03765")
    assert tokens_of(usage).prompt == 100_050
    assert tokens_of(usage).total == 100_550


@requirement("R110", "W13")
@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        ({"input_tokens": 1_000_000}, "6"),  # long prompts cost more with this model
        ({"input_tokens": 100_000}, "0.3"),
        ({"output_tokens": 100_000}, "1.5"),
        ({"cache_creation_input_tokens": 100_000}, "0.375"),
        ({"cache_creation_input_tokens": 100_000, "cache_creation": {"ephemeral_1h_input_tokens": 100_000}}, "0.6"),
        ({"cache_read_input_tokens": 100_000}, "0.03"),
        ({"server_tool_use": {"web_search_requests": 3}}, "0.03"),
        ({"input_tokens": 100_000, "service_tier": "batch"}, "0.15"),
        ({"input_tokens": 100_000, "inference_geo": "us"}, "0.33"),
        ({"input_tokens": 100_000, "inference_geo": "global"}, "0.3"),
        ({"input_tokens": None, "output_tokens": "x", "server_tool_use": {"web_search_requests": "x"}}, "0"),
    ],
)  # fmt: skip
def test_each_kind_of_token_has_its_price(usage: dict[str, Any], cost: str) -> None:
    assert compute_usd(usage, MODEL, WHEN, CATALOG) == Decimal(cost)


@requirement("W13")
def test_what_has_no_price_is_unknown_and_never_nothing() -> None:
    usage = {"input_tokens": 1000}
    assert compute_usd(usage, UNKNOWN, WHEN, CATALOG) is None
    assert compute_usd(usage | {"speed": "fast"}, MODEL, WHEN, CATALOG) is None
    assert compute_usd("odd", MODEL, WHEN, CATALOG) == 0
    ledger = Ledger([charge(1), charge(2, usd=None)])
    assert ledger.total.unpriced == 1
    assert not ledger.total.is_complete
    assert ledger.total.usd == 1


def test_a_fast_answer_costs_its_factor() -> None:
    fast = next(m for m in CATALOG.models if any(p.fast_factor for p in m.prices))
    usage = {"input_tokens": 1_000}
    plain = compute_usd(usage, fast.id, WHEN, CATALOG)
    quick = compute_usd(usage | {"speed": "fast"}, fast.id, WHEN, CATALOG)
    assert plain is not None
    assert quick == plain * (fast.prices[-1].fast_factor or 0)


@requirement("W13", "R104", "R105")
def test_a_response_is_counted_once_however_many_lines_repeat_it() -> None:
    usage = {"input_tokens": 100, "output_tokens": 20, "cache_read_input_tokens": 7}
    entries = [
        factories.make_user("hi", uuid="0", at=WHEN),
        *answered(usage, words("a"), call("Bash"), call("Read")),
        factories.make_tool_answer("Bash", "x", uuid="8", at=WHEN, source_uuid=None),
        factories.make_user("note", uuid="9", at=WHEN, is_meta=True),
        *answered({"input_tokens": 1}, words("b"), number=2),
        factories.make_user("more", uuid="10", at=WHEN),
        *answered({"output_tokens": 5}, words("c"), model="claude-haiku-4-5", number=3),
    ]
    ledger = Ledger(find_charges(entries, CATALOG))
    assert len(ledger) == 3
    assert ledger.total.tokens == TokenCounts(input=101, output=25, cache_read=7)
    assert {k: v.requests for k, v in ledger.by_turn().items()} == {"1": 2, "2": 1}
    assert {k: v.requests for k, v in ledger.by_model().items()} == {
        MODEL: 2,
        "claude-haiku-4-5": 1,
    }
    assert {k: v.requests for k, v in ledger.by_tool().items()} == {"Bash": 1, "Read": 0, ANSWER: 2}
    assert [c.calls for c in ledger] == [("Bash", "Read"), (), ()]


@requirement("W13")
def test_usage_that_grows_from_line_to_line_counts_as_said_last() -> None:
    first, last = answered({"output_tokens": 1}, words("a"), words("b"))
    last["message"]["usage"] = {"input_tokens": 0, "output_tokens": 44}
    assert Ledger(find_charges([first, last], CATALOG)).total.tokens == TokenCounts(output=44)


def test_failures_and_lines_without_usage_cost_nothing() -> None:
    failed = factories.make_api_error("no", uuid="1", at=WHEN, message_id="x", error="unknown")
    odd: list[dict[str, Any]] = [
        {"type": "assistant"},
        {"type": "assistant", "message": {"usage": 3}},
        {"type": "request-cost"},
        {"type": "user", "message": 3},
        {"type": "user", "message": {"content": "x"}, "isVirtual": True},
        {"type": "mode"},
    ]
    assert Ledger(find_charges([failed, *odd], CATALOG)).total == Spend()


def test_an_answer_without_ids_is_known_by_its_entry() -> None:
    entry = {
        "type": "assistant",
        "uuid": "u",
        "message": {"model": MODEL, "usage": {}, "content": "x"},
    }
    assert [c.message_id for c in find_charges([entry], CATALOG)] == ["u"]


@requirement("R105")
def test_what_no_answer_shows_is_recorded_beside_the_chain() -> None:
    record = {
        "type": "request-cost",
        "requestId": "r9",
        "message_id": "m9",
        "model": MODEL,
        "timestamp": WHEN,
    }
    usage = {"input_tokens": 1000, "output_tokens": 10}
    entries = [
        record | {"usage": usage, "purpose": "compaction", "durationMs": 1200},
        record | {"requestId": "r10", "usage": usage, "purpose": "odd"},
        answered(usage, words("x"))[0] | {"isSidechain": True, "agentId": "a1", "durationMs": 5},
        record | {"requestId": "r1", "message_id": "m1", "usage": usage, "durationMs": 900},
    ]
    ledger = Ledger(find_charges(entries, CATALOG))
    counted = {k: v.requests for k, v in ledger.by_purpose().items()}
    assert counted == {"compaction": 1, "other": 1, "subagent": 1}
    assert ledger.in_turns.tokens == TokenCounts(input=1000, output=10)
    assert ledger.total.duration_ms == 2100
    assert ledger.by_agent()["a1"].requests == 1


def test_a_price_that_the_line_says_counts_for_a_model_nobody_knows() -> None:
    line = answered({"input_tokens": 5}, words("x"), model=UNKNOWN)[0] | {"costUSD": 0.5}
    assert Ledger(find_charges([line], CATALOG)).total.usd == Decimal("0.5")
    assert Ledger(find_charges([line | {"costUSD": "x"}], CATALOG)).total.unpriced == 1


def test_a_known_price_is_not_forgotten_when_the_response_is_said_again() -> None:
    ledger = Ledger(
        [charge(1, purpose="title", agent="a"), charge(1, usd=None, tokens=TokenCounts(output=9))]
    )
    assert [(c.usd, c.purpose, c.agent) for c in ledger] == [(Decimal(1), "title", "a")]
    assert ledger.total.tokens == TokenCounts(output=9)
    again = Ledger([charge(1, purpose="turn"), charge(1, purpose="compaction")])
    assert [c.purpose for c in again] == ["compaction"]


COUNTS = st.integers(0, 10**9)
SPENDS = st.builds(
    TokenCounts, input=COUNTS, output=COUNTS, cache_read=COUNTS, cache_write_5m=COUNTS, web_searches=st.integers(0, 9)
)  # fmt: skip
CHARGES = st.lists(
    st.builds(
        charge,
        st.integers(0, 5),
        tokens=SPENDS,
        usd=st.none() | st.decimals(0, 1000, places=9),
        model=st.sampled_from([MODEL, "b", "c"]),
        purpose=st.sampled_from(["turn", "title", "compaction"]),
        calls=st.lists(st.sampled_from(["Bash", "mcp__git__log", "mcp__git__show"]), max_size=4).map(tuple),
    ),
    max_size=12,
)  # fmt: skip


@requirement("W13", "R113", "R111")
@given(CHARGES)
def test_every_sum_is_the_total(given_charges: list[Charge]) -> None:
    ledger = Ledger(given_charges)
    alone = sum(map(spend_of, ledger), Spend())
    assert ledger.total == alone
    sums = (
        ledger.by_model,
        ledger.by_purpose,
        ledger.by_turn,
        ledger.by_agent,
        ledger.by_tool,
        ledger.by_server,
    )
    for by in sums:
        assert sum(by().values(), Spend()) == ledger.total


@given(SPENDS, st.decimals(0, 1000, places=12), st.integers(1, 7))
def test_shares_add_up_to_what_is_shared(tokens: TokenCounts, amount: Decimal, parts: int) -> None:
    spend = Spend(requests=1, tokens=tokens, usd=amount, duration_ms=7)
    assert sum(shares(spend, parts), Spend()) == spend


@requirement("R236", "R249")
def test_writes_and_reads_follow_from_the_price_of_the_input() -> None:
    sonnet = make_rates("3", "15")
    assert (sonnet.cache_read, sonnet.cache_write_5m) == (Decimal("0.30"), Decimal("3.75"))
    assert sonnet.cache_write_1h == 6


def test_a_tool_of_an_mcp_server_names_it() -> None:
    assert server_of("mcp__git__log") == "git"
    assert server_of("Bash") == ""


def test_a_budget_is_spent_when_it_is_reached() -> None:
    assert not is_spent(Spend(usd=Decimal("0.9")), Decimal(1))
    assert is_spent(Spend(usd=Decimal(1)), Decimal(1))
    assert not is_spent(Spend(usd=Decimal(9)), None)


@requirement("W13")
@given(CHARGES, st.integers(1, 3))
def test_the_sums_of_a_running_session_are_those_of_its_ledger(
    given_charges: list[Charge], times: int
) -> None:
    sums = Sums(charge for charge in given_charges for _ in range(times))
    ledger = Ledger(given_charges)
    assert (sums.total, sums.by_model()) == (ledger.total, ledger.by_model())


def test_the_sums_of_a_running_session_do_not_grow_with_it() -> None:
    ledger = Ledger([charge(number) for number in range(2_000)])
    sums = Sums(ledger)
    assert sums.total == ledger.total
    known = len(pickle.dumps(Sums([charge(number) for number in range(200)])))
    assert len(pickle.dumps(sums)) <= known * 1.1
