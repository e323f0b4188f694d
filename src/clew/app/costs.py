"""What a session costs: taken up from its log, held against a budget, left behind for the next run."""

import time
from collections.abc import Mapping
from typing import Any, TypeAlias

from clew.app.stamps import now
from clew.catalog.lookup import Catalog
from clew.catalog.models import Model
from clew.engine.deps import Budget
from clew.options import Options
from clew.session.ledger import Ledger, Sums
from clew.session.state import Session as Spending
from clew.session.state import State, last_todos
from clew.session.totals import Past, cost_state, restore
from clew.transcript.load import Loaded
from clew.transcript.record import Recorder

Json: TypeAlias = dict[str, Any]


def spent_so_far(
    session_id: str,
    cwd: str,
    environ: Mapping[str, str],
    model: Model,
    loaded: Loaded | None,
    catalog: Catalog,
) -> tuple[Spending, Past]:
    """Cost and time of a session: nothing yet, or what its log says."""
    ledger, past = (Ledger(), Past()) if loaded is None else taken_up(loaded, catalog)
    state = State(
        session_id=session_id,
        original_cwd=cwd,
        cwd=cwd,
        started_at=now(),
        initial_model=model.id,
        environment=environ,
        todos=() if loaded is None else last_todos(loaded.messages),
    )
    return Spending(state, Sums(ledger)), past


def taken_up(loaded: Loaded, catalog: Catalog) -> tuple[Ledger, Past]:
    """The totals that the last run left, and what the log holds behind them."""
    line = loaded.side.current.get("cost-state", {})
    at = loaded.side.current_at.get("cost-state", -1)
    placed = list(zip(loaded.chain.nodes(), loaded.messages, strict=True))
    placed_all = [(node.at, message) for node, message in placed] + loaded.side.warming
    covered = [message for place, message in placed_all if place < at]
    after = [message for place, message in placed_all if place >= at]
    return restore(line, covered, after, catalog)


def leave_totals(recorder: Recorder, spending: Spending, past: Past, begin_s: float) -> None:
    """At the end of a run in which something was asked: the session's totals, for the next one."""
    if spending.state.api_ms:
        duration_ms = (time.monotonic() - begin_s) * 1000
        recorder.cost_state(**cost_state(spending, past, duration_ms=duration_ms))


def budget(options: Options, past: Past) -> Budget | None:
    usd = options.max_budget_usd
    return None if usd is None else Budget(usd=usd, before=past.spend.usd)


def unbounded(options: Options, model: Model) -> tuple[str, ...]:
    """A budget that cannot be held is said before anything is spent."""
    if options.max_budget_usd is None or model.prices:
        return ()
    return (f"--max-budget-usd: no price is known for {model.id}; nothing can use the budget up",)
