"""A session's state changes only by events, and each is sent to the listeners."""

from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import asdict

from clew.core.ledger.ledger import Charge
from clew.core.ledger.spending import TokenCounts
from clew.core.ledger.state import (
    ApiTimed,
    Change,
    FallbackChanged,
    Interacted,
    LinesChanged,
    ModelChosen,
    SessionState,
    SessionTracker,
    Shipped,
    TodoItem,
    TodosSet,
    ToolTimed,
    apply,
    find_last_todos,
)
from tests.requirements import requirement

START = SessionState(
    session_id="s",
    original_cwd="/a",
    started_at="2026-01-01T00:00:00.000Z",
    initial_model="claude-sonnet-4-20250514",
    environment={"LANG": "C"},
)
TODO = TodoItem(content="test", status="in_progress")
CHANGES: list[tuple[Change, dict[str, object]]] = [
    (ModelChosen(model="x"), {"model_override": "x"}),
    (ApiTimed(duration_ms=5), {"api_ms": 5}),
    (ToolTimed(duration_ms=7), {"tool_ms": 7}),
    (LinesChanged(added=3, removed=1), {"lines_added": 3, "lines_removed": 1}),
    (Shipped(commits=1), {"commits": 1}),
    (TodosSet(todos=(TODO,)), {"todos": (TODO,)}),
    (Interacted(at="now"), {"last_interaction_at": "now"}),
    (FallbackChanged(active=True), {"is_on_fallback": True}),
]


@requirement("R106", "R107", "R108", "R112", "R222", "C13")
@pytest.mark.parametrize(("change", "told"), CHANGES)
def test_a_change_touches_what_it_says_and_nothing_else(
    change: Change, told: dict[str, object]
) -> None:
    after = apply(START, change)
    assert asdict(after) == asdict(START) | told


@requirement("R106", "R248")
def test_the_model_is_the_chosen_one_or_the_first() -> None:
    chosen = apply(START, ModelChosen(model="x"))
    assert (START.model, chosen.model) == ("claude-sonnet-4-20250514", "x")
    assert apply(chosen, ModelChosen(model=None)).model == START.model


@requirement("R109", "R111", "R113", "R114")
def test_every_change_and_charge_is_told_in_order_with_the_state_it_made() -> None:
    session = SessionTracker(START)
    heard: list[tuple[object, SessionState]] = []
    session.listen(lambda event, state: heard.append((event, state)))
    for change, _ in CHANGES:
        session.change(change)
    cost = Charge(message_id="m", request_id="r", model="?", at="", tokens=TokenCounts(), usd=None)
    session.charge(cost)
    assert [event for event, _ in heard] == [*(change for change, _ in CHANGES), cost]
    assert heard[-1][1] is session.state
    assert not session.ledger.total.is_complete
    assert session.ledger.total.usd == Decimal(0)
    assert session.ledger.total.requests == 1


def test_the_list_of_a_conversation_is_the_last_one_that_was_written() -> None:
    todo = {"content": "look", "status": "pending"}
    written = [
        {"toolUseResult": {"newTodos": [todo]}},
        {"toolUseResult": {"newTodos": [todo, {"content": 3}, "odd"]}},
        {"toolUseResult": {"newTodos": "none"}},
        {"toolUseResult": "text"},
    ]
    assert find_last_todos(written) == (TodoItem(content="look", status="pending"),)
    assert find_last_todos(written[2:]) == ()
    done = {"toolUseResult": {"newTodos": [todo | {"status": "completed"}]}}
    assert find_last_todos([*written, done]) == ()


def test_the_list_told_again_after_a_summary_counts_until_it_is_written_again() -> None:
    todo = {"content": "look", "status": "pending", "activeForm": "Looking"}

    def told(content: object) -> dict[str, Any]:
        return {"type": "attachment", "attachment": {"type": "todo", "content": content}}

    kept = (TodoItem(content="look", status="pending", active_form="Looking"),)
    assert find_last_todos([told([todo])]) == kept
    assert find_last_todos([told([todo]), {"toolUseResult": {"newTodos": []}}]) == ()
    # What another tool keeps, and what is no list.
    assert find_last_todos([told([{"content": "#1 look", "status": "pending"}])]) == ()
    assert find_last_todos([told("odd"), {"attachment": {"type": "date"}}]) == ()
