"""The thread of a session: where it is written, what was said so far, and what that cost."""

import asyncio
from contextlib import AsyncExitStack
from functools import partial

from msgspec import Struct

from clew.app.asking import chosen_model
from clew.app.costs import spent_so_far
from clew.app.ground import Ground
from clew.app.leading import Led, led, recorded
from clew.app.record import open_record
from clew.app.side import side_questions
from clew.app.standing import spoke_with
from clew.catalog.models import Model
from clew.engine.side_question import SideQuestions
from clew.engine.story import Story
from clew.messages.history import History
from clew.normalize.edits import NO_EDITS, from_record
from clew.session.state import Session as Spending
from clew.session.totals import Past
from clew.subagents.catalog import Catalog
from clew.transcript.lineage import origins
from clew.transcript.load import Loaded
from clew.transcript.record import Mirror, Recorder


class Thread(Struct, frozen=True, kw_only=True):
    """One conversation's record, and who it is spoken with."""

    recorder: Recorder
    # What the session held when it was gone on with; None for a new one.
    loaded: Loaded | None
    story: Story
    model: Model
    # Cost and time: of this run as they come, and of the runs before.
    spending: Spending
    past: Past
    side: SideQuestions
    # What of a session that this is a copy of could not be copied.
    lost: tuple[str, ...] = ()

    @property
    def session_id(self) -> str:
        return self.recorder.paths.place.session_id


async def taken_in_hand(
    ground: Ground,
    kinds: Catalog,
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
    kinds: Catalog,
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
    before = () if loaded is None else origins(ground.began.places.config_home, place, loaded)
    earlier = (one.tool_results for one in (place, *before))
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
