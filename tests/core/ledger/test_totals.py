"""The totals that a session saves: restored by the next run, and never counted twice."""

from decimal import Decimal
from typing import Any

from clew.core.catalog.lookup import CATALOG
from clew.core.ledger.ledger import Charge, Ledger
from clew.core.ledger.spending import TokenCounts
from clew.core.ledger.state import ApiTimed, LinesChanged, SessionState, SessionTracker, ToolTimed
from clew.core.ledger.totals import Past, count_changed_lines, make_cost_state, restore
from clew.core.messages import factories
from tests.requirements import requirement

WHEN = "2026-11-01T00:00:00.000Z"
MODEL = "claude-sonnet-4-5"


def answered(number: int, model: str = MODEL) -> list[dict[str, Any]]:
    usage = {"input_tokens": 100, "output_tokens": 10, "cache_creation_input_tokens": 5}
    message = {"id": f"m{number}", "model": model, "usage": usage}
    message["content"] = [{"type": "text", "text": "x"}]
    return factories.make_assistant(message, uuids=[str(number)], at=WHEN, request_id=f"r{number}")


def run(ledger: Ledger) -> SessionTracker:
    state = SessionState(session_id="s", original_cwd="/", started_at=WHEN, initial_model=MODEL)
    session = SessionTracker(state, ledger)
    session.change(ApiTimed(duration_ms=30, without_retries_ms=20))
    session.change(ToolTimed(duration_ms=7))
    session.change(LinesChanged(added=3, removed=1))
    return session


@requirement("R104", "R112")
def test_what_a_run_left_is_what_the_next_takes_up() -> None:
    session = run(Ledger())
    entries = [*answered(1), *answered(2, "mine")]
    ledger, past = restore({}, [], entries, CATALOG)
    left = make_cost_state(run(ledger), past, duration_ms=100)
    assert left["hasUnknownModelCost"] is True
    assert left["modelUsage"]["mine"]["costUSD"] is None
    again, before = restore(left, entries, answered(3), CATALOG)
    assert len(again) == 3
    assert before.spend == again.total
    twice = make_cost_state(session, before, duration_ms=100)
    assert (twice["totalAPIDuration"], twice["totalAPIDurationWithoutRetries"]) == (60, 40)
    assert (twice["totalToolDuration"], twice["totalDuration"]) == (14, 200)
    assert (twice["totalLinesAdded"], twice["totalLinesRemoved"]) == (6, 2)
    assert twice["startTime"] == WHEN


@requirement("R104")
def test_what_the_entries_no_longer_show_counts_as_one_charge_from_before() -> None:
    line = {"modelUsage": {MODEL: {"inputTokens": 400, "outputTokens": 10, "costUSD": 5}}}
    ledger, _ = restore(line, answered(1), [], CATALOG)
    assert ledger.total.tokens == TokenCounts(input=400, output=10, cache_write_5m=5)
    assert ledger.total.usd == Decimal(5)
    unknown = {"modelUsage": {MODEL: {"inputTokens": 400, "costUSD": None}}}
    assert restore(unknown, answered(1), [], CATALOG)[0].total.unpriced == 1


def test_a_line_that_is_odd_takes_nothing_away() -> None:
    for said in (3, {MODEL: 3}, {MODEL: {"inputTokens": "x", "outputTokens": float("nan")}}):
        ledger, past = restore({"modelUsage": said, "totalDuration": "x"}, [], answered(1), CATALOG)
        assert (len(ledger), past.duration_ms) == (1, 0)


def test_an_edit_is_counted_by_its_patch() -> None:
    patch = [{"lines": ["+a", "-b", " c", "+d"]}]
    assert count_changed_lines({"structuredPatch": patch}) == LinesChanged(added=2, removed=1)
    for other in (None, {}, {"structuredPatch": []}, {"structuredPatch": [{"lines": [" a"]}]}):
        assert count_changed_lines(other) is None


def test_all_lines_of_a_new_file_are_added() -> None:
    outcome = {"type": "create", "content": "a\nb\n", "structuredPatch": []}
    assert count_changed_lines(outcome) == LinesChanged(added=2, removed=0)
    assert count_changed_lines(outcome | {"content": ""}) is None


def test_the_past_of_a_new_session_is_nothing() -> None:
    charge = Charge(
        message_id="m",
        request_id="r",
        model=MODEL,
        at=WHEN,
        tokens=TokenCounts(input=1),
        usd=Decimal(1),
    )
    left = make_cost_state(run(Ledger([charge])), Past(), duration_ms=1)
    assert (left["totalCostUSD"], left["hasUnknownModelCost"]) == (1.0, False)
