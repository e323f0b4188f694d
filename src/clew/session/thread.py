"""The thread of a session: where it is written, what was said so far, and what that cost."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial

from clew.agent.context.prompts import spoke_with
from clew.agent.deps import MoneyBudget
from clew.agent.models import chosen_model, side_questions
from clew.agent.options import Options
from clew.agent.story import Story
from clew.agent.subagents.specs import AgentCatalog as SpecsCatalog
from clew.core.catalog.lookup import ModelCatalog
from clew.core.catalog.models import Model
from clew.core.ledger.ledger import Ledger, Sums
from clew.core.ledger.state import SessionState, last_todos
from clew.core.ledger.state import SessionTracker as Spending
from clew.core.ledger.totals import Past, cost_state, restore
from clew.core.messages.history import History
from clew.core.normalize.select import NO_EDITS, from_record
from clew.parts.agents.leading import Led, led, recorded
from clew.parts.context import Ground, Thread
from clew.parts.recording import open_record
from clew.record.transcript.load import LoadedSession
from clew.record.transcript.record import Mirror, Recorder
from clew.system.clock import now

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
    ledger, past = (Ledger(), Past()) if loaded is None else taken_up(loaded, catalog)
    state = SessionState(
        session_id=session_id,
        original_cwd=cwd,
        cwd=cwd,
        started_at=now(),
        initial_model=model.id,
        environment=environ,
        todos=() if loaded is None else last_todos(loaded.messages),
    )
    return Spending(state, Sums(ledger)), past


def taken_up(loaded: LoadedSession, catalog: ModelCatalog) -> tuple[Ledger, Past]:
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


def budget(options: Options, past: Past) -> MoneyBudget | None:
    usd = options.max_budget_usd
    return None if usd is None else MoneyBudget(usd=usd, before=past.spend.usd)


def unbounded(options: Options, model: Model) -> tuple[str, ...]:
    """A budget that cannot be held is said before anything is spent."""
    if options.max_budget_usd is None or model.prices:
        return ()
    return (f"--max-budget-usd: no price is known for {model.id}; nothing can use the budget up",)


async def taken_in_hand(
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
    lead = led(ground, kinds, loaded)
    ground = lead.ground
    options, service = ground.options, ground.service
    if options.lead is not None and recorded(loaded) != options.lead.name:
        recorder.agent_setting(options.lead.name)
    if options.worktree is not None:
        recorder.worktree_state(options.worktree)
    model = chosen_model(
        options,
        ground.environment,
        ground.began.settings,
        service.catalog,
        spoke_with(loaded, service.catalog),
    )
    session_id = recorder.paths.place.session_id
    place = recorder.paths.place
    before = [place]
    if loaded is not None:
        from clew.record.transcript.copies import origins

        before += origins(ground.began.places.config_home, place, loaded)
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
        side=side_questions(service, ground.environment, spending, recorder, main=model.id),
    )
    return thread, lead
