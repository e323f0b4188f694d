"""How requests outside the conversation change the session's state and ledger."""

from typing import Any

from clew.core.catalog.lookup import CATALOG
from clew.core.ledger.ledger import Charge, Ledger, find_charges
from clew.core.ledger.state import SessionState, SessionTracker, SideLedger, TodosSet, ToolTimed


def session() -> SessionTracker:
    return SessionTracker(
        SessionState(session_id="s", original_cwd="/", started_at="", initial_model="m")
    )


def cost(message_id: str, purpose: str = "turn") -> dict[str, Any]:
    usage = {"input_tokens": 10, "output_tokens": 5}
    return {
        "type": "request-cost",
        "messageId": message_id,
        "requestId": message_id,
        "model": "claude-haiku-4-5",
        "usage": usage,
        "purpose": purpose,
    }


def test_what_it_costs_is_the_sessions_and_told_apart() -> None:
    whole = session()
    beside = SideLedger(whole, "a1")
    heard: list[Any] = []
    beside.listen(lambda event, _: heard.append(event))
    (mine,), (review,) = (
        list(find_charges([cost(*c)], CATALOG)) for c in (("m1",), ("m2", "review"))
    )
    (others,) = find_charges([cost("m3")], CATALOG)
    whole.charge(others)
    beside.charge(mine)
    beside.charge(mine)
    beside.charge(review)
    assert beside.ledger is whole.ledger
    ledger = Ledger(event for event in heard if isinstance(event, Charge))
    assert ledger.by_agent()["a1"] == beside.spent
    assert (beside.spent.requests, whole.ledger.total.requests) == (2, 3)
    assert {c.purpose for c in ledger} == {"turn", "subagent", "review"}
    assert len(heard) == 4


def test_the_sessions_list_of_what_is_to_do_is_not_its() -> None:
    whole = session()
    beside = SideLedger(whole, "a1")
    beside.change(ToolTimed(duration_ms=5))
    beside.change(TodosSet(todos=()))
    assert beside.state is whole.state
    assert whole.state.tool_ms == 5
