"""The thread of a session: its location, its history, and its cost so far."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING

from clew.agent.context.prompts import find_last_model
from clew.agent.models import choose_model, make_side_questions
from clew.agent.story import Story
from clew.agent.subagents.specs import AgentCatalog as SpecsCatalog
from clew.core.catalog.lookup import ModelCatalog
from clew.core.catalog.models import Model
from clew.core.ledger.ledger import Ledger
from clew.core.ledger.state import SessionState, find_last_todos
from clew.core.ledger.state import SessionTracker as Spending
from clew.core.ledger.totals import Past, make_cost_state, restore
from clew.core.messages.history import History
from clew.core.normalize.select import NO_EDITS, from_record
from clew.parts.agents.leading import Led, choose_leader, find_recorded_kind
from clew.parts.context import Ground, Thread
from clew.parts.recording import open_record
from clew.record.transcript.loaded import LoadedSession
from clew.record.transcript.record import Mirror, Recorder
from clew.system.clock import get_timestamp
from clew.system.config.settings import read_number

if TYPE_CHECKING:
    from clew.agent.spending_cap import SpendingCap

# The cost of a session: restored from its transcript, limited by a budget, saved for later runs.


def spent_so_far(
    session_id: str,
    cwd: str,
    environ: Mapping[str, str],
    model: Model,
    loaded: LoadedSession | None,
    catalog: ModelCatalog,
) -> tuple[Spending, Past]:
    """Return a session's cost and time so far: zero for a new one, or from its transcript."""
    ledger, past = (Ledger(), Past()) if loaded is None else restore_past(loaded, catalog)
    state = SessionState(
        session_id=session_id,
        original_cwd=cwd,
        started_at=get_timestamp(),
        initial_model=model.id,
        environment=environ,
        todos=() if loaded is None else find_last_todos(loaded.messages),
    )
    return Spending(state, ledger.copy_sums()), past


def restore_past(loaded: LoadedSession, catalog: ModelCatalog) -> tuple[Ledger, Past]:
    """Return the totals saved by the last run, plus the cost of later entries in the transcript."""
    line = loaded.side.current.get("cost-state", {})
    at = loaded.side.current_at.get("cost-state", -1)
    placed = list(zip(loaded.chain.nodes(), loaded.messages, strict=True))
    placed_all = [(node.at, message) for node, message in placed] + loaded.side.warming
    covered = [message for place, message in placed_all if place < at]
    after = [message for place, message in placed_all if place >= at]
    return restore(line, covered, after, catalog)


def leave_totals(recorder: Recorder, spending: Spending, past: Past, begin_s: float) -> None:
    """Save the session's totals for the next run, if this run made any requests."""
    if spending.state.api_ms:
        duration_ms = (time.monotonic() - begin_s) * 1000
        recorder.cost_state(**make_cost_state(spending, past, duration_ms=duration_ms))


def read_cap(ground: Ground, spending: Spending) -> "SpendingCap | None":
    """Return the session's spending limit from the option or the setting; None means no limit."""
    usd = ground.options.max_budget_usd
    if usd is None:
        amount = read_number(ground.began.settings, "maxBudgetUsd")
        usd = Decimal(str(amount)) if amount and amount > 0 else None
    if usd is None:
        return None
    from clew.agent.spending_cap import SpendingCap  # Most sessions have no limit.

    return SpendingCap(
        usd,
        spent=lambda: spending.ledger.total.usd,
        catalog=ground.service.catalog,
        now=get_timestamp,
    )


async def load_thread(
    ground: Ground,
    kinds: SpecsCatalog,
    opened: AsyncExitStack,
    *,
    entrypoint: str,
    mirror: Mirror | None,
) -> tuple[Thread, Led]:
    """Return the thread of a new or resumed session, and the agent that leads the session."""
    take = partial(_taken, ground, kinds, opened, entrypoint=entrypoint, mirror=mirror)
    if mirror is not None or (ground.options.resume is None and not ground.options.continues):
        return take()
    # Loading a long session takes time, and the user may already be typing. Mirrors must stay on
    # the event loop.
    taking = asyncio.get_running_loop().run_in_executor(None, take)
    try:
        return await asyncio.shield(taking)
    except asyncio.CancelledError:
        # Whatever was opened in the meantime is then released with everything else.
        await asyncio.wait([taking])
        raise


def _taken(
    ground: Ground,
    kinds: SpecsCatalog,
    opened: AsyncExitStack,
    *,
    entrypoint: str,
    mirror: Mirror | None,
) -> tuple[Thread, Led]:
    recorder, loaded, lost = open_record(
        ground.options, ground.began.places, opened, entrypoint=entrypoint, mirror=mirror
    )
    lead = choose_leader(ground, kinds, loaded)
    ground = lead.ground
    options, service = ground.options, ground.service
    if options.lead is not None and find_recorded_kind(loaded) != options.lead.name:
        recorder.agent_setting(options.lead.name)
    if options.worktree is not None:
        recorder.worktree_state(options.worktree)
    model = choose_model(
        options,
        ground.environment,
        ground.began.settings,
        service.catalog,
        find_last_model(loaded, service.catalog),
        service,
    )
    session_id = recorder.paths.place.session_id
    place = recorder.paths.place
    before = [place]
    if loaded is not None:
        from clew.record.transcript.copies import find_origins

        before += find_origins(ground.began.places.config_home, place, loaded)
    earlier = (copied.tool_results for copied in before)
    ground.rules.keeps_results_in(recorder.paths.results, *earlier)
    ground.rules.keeps_plan_of(session_id)
    spending, past = spent_so_far(
        session_id, ground.cwd, ground.environ, model, loaded, service.catalog
    )
    cap = read_cap(ground, spending)
    thread = Thread(
        recorder=recorder,
        loaded=loaded,
        story=Story(
            recorder,
            History(loaded.messages if loaded else ()),
            from_record(loaded.side.current.get("context-edits", {})) if loaded else NO_EDITS,
        ),
        model=model,
        spending=spending,
        past=past,
        lost=tuple(lost),
        side=make_side_questions(
            service,
            ground.environment,
            ground.began.settings,
            spending,
            recorder,
            main=model.id,
            cap=cap,
        ),
        cap=cap,
    )
    return thread, lead
