"""The thread of a session: where it is written, what was said so far, and what that cost."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial

from clew.agent.context.prompts import find_last_model
from clew.agent.deps import MoneyBudget
from clew.agent.models import choose_model, make_side_questions
from clew.agent.options import Options
from clew.agent.story import Story
from clew.agent.subagents.specs import AgentCatalog as SpecsCatalog
from clew.core.catalog.lookup import ModelCatalog
from clew.core.catalog.models import Model
from clew.core.ledger.ledger import Ledger, Sums
from clew.core.ledger.state import SessionState, find_last_todos
from clew.core.ledger.state import SessionTracker as Spending
from clew.core.ledger.totals import Past, make_cost_state, restore
from clew.core.messages.history import History
from clew.core.normalize.select import NO_EDITS, from_record
from clew.parts.agents.leading import Led, choose_leader, find_recorded_kind
from clew.parts.context import Ground, Thread
from clew.parts.recording import open_record
from clew.record.transcript.load import LoadedSession
from clew.record.transcript.record import Mirror, Recorder
from clew.system.clock import get_timestamp

# What a session costs: taken up from its log, held against a budget, left behind for the next run.


def spent_so_far(
    session_id: str,
    cwd: str,
    environ: Mapping[str, str],
    model: Model,
    loaded: LoadedSession | None,
    catalog: ModelCatalog,
) -> tuple[Spending, Past]:
    """Cost and time of a session: nothing yet, or what its log says."""
    ledger, past = (Ledger(), Past()) if loaded is None else restore_past(loaded, catalog)
    state = SessionState(
        session_id=session_id,
        original_cwd=cwd,
        cwd=cwd,
        started_at=get_timestamp(),
        initial_model=model.id,
        environment=environ,
        todos=() if loaded is None else find_last_todos(loaded.messages),
    )
    return Spending(state, Sums(ledger)), past


def restore_past(loaded: LoadedSession, catalog: ModelCatalog) -> tuple[Ledger, Past]:
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
        recorder.cost_state(**make_cost_state(spending, past, duration_ms=duration_ms))


def read_budget(options: Options, past: Past) -> MoneyBudget | None:
    usd = options.max_budget_usd
    return None if usd is None else MoneyBudget(usd=usd, before=past.spend.usd)


def check_budget(options: Options, model: Model) -> tuple[str, ...]:
    """A budget that cannot be held is said before anything is spent."""
    if options.max_budget_usd is None or model.prices:
        return ()
    return (f"--max-budget-usd: no price is known for {model.id}; nothing can use the budget up",)


async def load_thread(
    ground: Ground,
    kinds: SpecsCatalog,
    opened: AsyncExitStack,
    *,
    entrypoint: str,
    mirror: Mirror | None,
) -> tuple[Thread, Led]:
    """The thread of a new session, or of the one that the options name, and the agent that it is."""
    take = partial(_taken, ground, kinds, opened, entrypoint=entrypoint, mirror=mirror)
    if mirror is not None or (ground.options.resume is None and not ground.options.continues):
        return take()
    # A long one takes its time, and somebody may be typing meanwhile. Mirrors are the loop's own.
    taking = asyncio.get_running_loop().run_in_executor(None, take)
    try:
        return await asyncio.shield(taking)
    except asyncio.CancelledError:
        # What it holds by then is given back with everything else that was opened.
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
        side=make_side_questions(service, ground.environment, spending, recorder, main=model.id),
    )
    return thread, lead
