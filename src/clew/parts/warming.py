"""Keep the session's prompt cache warm, within a budget that a setting provides."""

from collections.abc import Callable
from decimal import Decimal
from uuid import uuid4

from msgspec.structs import replace

from clew.agent.cache_watch import CacheWatch
from clew.agent.warming import Warmer, WarmingContext
from clew.parts.compaction import SessionCompaction
from clew.parts.context import Ground, Thread
from clew.parts.part import Part, PartContext
from clew.providers.answer import Answering
from clew.providers.answer_events import DriverEvent, Ended
from clew.providers.base import ModelRequest
from clew.providers.request_body import why_not_warm
from clew.providers.watchdog import MonotonicClock
from clew.system.clock import get_timestamp, make_id
from clew.system.config.flags import is_feature_on
from clew.system.config.settings import read_number


class SessionCache(CacheWatch, Part):
    """The session part for the prompt cache, which is kept warm if a setting provides a budget."""

    name = "prompt cache"

    def __init__(self, ground: Ground, thread: Thread, compaction: SessionCompaction) -> None:
        super().__init__(thread.story.history, catalog=ground.service.catalog)
        self._compaction = compaction

    async def open(self, context: PartContext, /) -> None:
        self.warmer = warmer_of(context, self._compaction, self._read_again)

    def _read_again(self) -> None:
        self._compaction.spoke()
        self.touched(get_timestamp())

    async def aclose(self) -> None:
        if self.warmer is not None:
            await self.warmer.aclose()


def warmer_of(
    context: PartContext, compaction: SessionCompaction, touched: Callable[[], None]
) -> Warmer | None:
    """Return the cache warmer, or None if the service's protocol does not support it."""
    ground, thread, requests = context.ground, context.thread, context.requests
    cap, conversation = thread.cap, context.conversation
    service = ground.service
    if service.provider.is_function:
        return None
    clock = MonotonicClock()

    async def put(request: ModelRequest) -> Ended:
        policy = replace(service.preferences.policy, max_attempts=1, counts_overloads=True)
        answering = Answering(
            service.provider,
            new_tool_id=lambda: f"toolu_{uuid4().hex}",
            policy=replace(policy, unattended=False),
            limits=service.limits,
            catalog=service.catalog,
            gate=service.gate,
            cap=cap,
        )
        try:
            return await answering.run(request, unheard)
        finally:
            # The warmer charges the cost before anything else can run.
            answering.release()

    def hindrance(request: ModelRequest) -> str:
        if not service.provider.endpoint_for(request.model).speaks_messages:
            return "the service has no cache that requests can keep warm"
        if service.gate.left_s(clock.now_s(), request.model) > 0:
            return "the service requested a pause"
        if service.provider.threads_for(request.model) is not None and request.in_thread:
            return "the service stores the conversation in a message thread"
        if not requests.continues(thread.story, request):
            return "the next request has a different beginning"
        if compaction.is_due(request, thread.story.history):
            return "the conversation is about to be compacted"
        return why_not_warm(request, service.catalog.entry(request.model))

    def left_usd() -> Decimal | None:
        return None if cap is None else cap.left_usd

    def budget_usd() -> Decimal:
        if not is_feature_on("warming", ground.rules.standing.settings, ground.environment):
            return Decimal(0)
        return Decimal(str(read_number(ground.rules.standing.settings, "cacheWarmingBudgetUsd")))

    loaded = thread.loaded
    return Warmer(
        WarmingContext(
            put=put,
            hindrance=hindrance,
            left_usd=left_usd,
            budget_usd=budget_usd,
            touched=touched,
            is_compacting=lambda: conversation.is_running and not conversation.has_steps,
            now=get_timestamp,
            new_id=make_id,
        ),
        clock=clock,
        session=thread.spending,
        recorder=thread.recorder,
        catalog=service.catalog,
        recorded=() if loaded is None else [line for _, line in loaded.side.warming],
    )


async def unheard(_: DriverEvent) -> None:
    """Ignore events of a warming request; only its cost matters."""
