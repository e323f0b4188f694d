"""Keep the prompt cache warm between requests, if this saves money at the session's prices.

At most one warming request is sent at a time. It reads what the last request left in the cache and
changes nothing in the conversation. It must never delay a turn: a request of the conversation
cancels it. The maximum cost of a warming request is recorded before it is sent, the actual cost
afterward.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from decimal import Decimal
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from clew.agent.charging import charge
from clew.core.catalog.lookup import ModelCatalog
from clew.core.catalog.models import find_price
from clew.core.json_object import Json
from clew.core.ledger.cache_miss import LIFETIME_S
from clew.core.ledger.ledger import Spend, find_charges, spend_of
from clew.core.ledger.spending import tokens_of
from clew.core.ledger.state import SessionTracker
from clew.core.ledger.warming import Cached, Waiting, WarmingWait, why_not_warm
from clew.core.messages.messages import AssistantMessage
from clew.providers.answer_events import Answered, Ended, GaveUp
from clew.providers.base import ModelRequest
from clew.providers.failure_kinds import find_effective_status
from clew.providers.watchdog import Clock
from clew.record.transcript.record import Recorder

# The number of waits of each kind that are remembered.
KNOWN_WAITS = 50
# If a warming request reads less than this fraction of the expected tokens, the cache was gone.
FOUND = 0.9
# After the cache was gone this many times, it is no longer kept warm in this session.
MAX_GONE = 2


class WarmingContext(Struct, frozen=True, kw_only=True):
    """The session's functions that warming needs."""

    # Sends one request, once.
    put: Callable[[ModelRequest], Awaitable[Ended]]
    # Returns why the next request will begin differently or must not be delayed, or an empty
    # string.
    hindrance: Callable[[ModelRequest], str]
    # Returns how much money may still be spent in total, or None if there is no limit.
    left_usd: Callable[[], Decimal | None]
    # Returns the budget for warming from the settings; 0 disables it.
    budget_usd: Callable[[], Decimal]
    # Called after the cache was read.
    touched: Callable[[], None]
    # Returns whether the user is compacting the conversation.
    is_compacting: Callable[[], bool]
    now: Callable[[], str]
    new_id: Callable[[], str]


class Warmer:
    """Keeps the cache warm from `answered` until the next `sent`.

    `recorded` contains the transcript lines of earlier runs.
    """

    def __init__(
        self,
        around: WarmingContext,
        *,
        clock: Clock,
        session: SessionTracker,
        recorder: Recorder,
        catalog: ModelCatalog,
        recorded: Iterable[Json] = (),
    ) -> None:
        self._around = around
        self._clock = clock
        self._session = session
        self._recorder = recorder
        self._catalog = catalog
        entries = list(recorded)
        # The known cost of warming, the cost not yet known, and the savings in this run.
        self.spend = sum(
            (spend_of(entry_charge) for entry_charge in find_charges(entries, catalog)), Spend()
        )
        self.reserved_usd = unsettled_usd(entries)
        self.saved_usd = Decimal(0)
        # Why warming stopped permanently.
        self.trouble = ""
        self._waits: dict[Waiting, deque[float]] = {
            "tools": deque(maxlen=KNOWN_WAITS),
            "user": deque(maxlen=KNOWN_WAITS),
        }
        self._request: ModelRequest | None = None
        self._began_s = 0.0
        self._touched_s = 0.0
        self._cached: Cached | None = None
        self._waiting: Waiting = "user"
        self._spent_usd = Decimal(0)
        self._hoped_usd = Decimal(0)
        self._gone = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None

    # -- events of the conversation

    def sent(self, request: ModelRequest) -> None:
        """Cancel warming, because a request of the conversation is being sent."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        now_s = self._clock.now_s()
        self._hoped_usd = Decimal(0)
        if self._cached is not None:
            self._waits[self._waiting].append(now_s - self._began_s)
            if self._spent_usd and now_s - self._began_s > self._cached.lifetime_s:
                self._hoped_usd = self._cached.saving_usd
        self._request, self._cached = request, None
        self._began_s = self._touched_s = now_s
        self._spent_usd = Decimal(0)

    def answered(self, message: Json, model: str) -> None:
        """Start waiting for the next request, because the response has arrived."""
        request, tokens = self._request, tokens_of(message.get("usage"))
        if self._hoped_usd and tokens.cache_read * 2 > tokens.prompt:
            self.saved_usd += self._hoped_usd
        self._hoped_usd = Decimal(0)
        if request is None or request.cache is None or model != request.model:
            return
        catalog_model = self._catalog.find(model)
        price = (
            None if catalog_model is None else find_price(catalog_model.prices, self._around.now())
        )
        if catalog_model is None or price is None:
            return
        calls = AssistantMessage({"type": "assistant", "message": message}).tool_uses
        self._waiting = "tools" if calls else "user"
        self._cached = Cached(
            tokens=tokens.cache_read + tokens.cache_write_5m + tokens.cache_write_1h,
            tail=tokens.input,
            lifetime_s=catalog_model.cache_seconds or LIFETIME_S[request.cache],
            is_long=request.cache == "1h",
            rates=price.for_prompt(tokens.prompt),
        )
        if self._around.budget_usd() > 0 and not self.trouble:
            self._task = asyncio.create_task(self._watch(request, self._cached))
            self._tasks.add(self._task)
            self._task.add_done_callback(self._tasks.discard)

    def as_json(self) -> Json:
        """Return the totals of warming as JSON, for programs."""
        return {
            "requests": self.spend.requests,
            "costUSD": float(self.spend.usd),
            "reservedUSD": float(self.reserved_usd),
            "savedUSD": float(self.saved_usd),
            **({"trouble": self.trouble} if self.trouble else {}),
        }

    async def aclose(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    # -- while waiting

    async def _watch(self, request: ModelRequest, cached: Cached) -> None:
        """Send a warming request shortly before each expiry, for as long as this saves money."""
        while True:
            due_s = self._touched_s + cached.due_s
            await self._clock.sleep(max(0.0, due_s - self._clock.now_s()))
            now_s = self._clock.now_s()
            if now_s >= self._touched_s + cached.lifetime_s:
                return  # the machine slept: too late
            wait = WarmingWait(
                waiting=self._waiting, elapsed_s=now_s - self._began_s, spent_usd=self._spent_usd
            )
            waits = tuple(self._waits[self._waiting])
            if why_not_warm(cached, wait, waits, self._left_usd()):
                return
            if self._around.is_compacting() or self._around.hindrance(request):
                return
            if not await self._warm(request, cached):
                return

    def _left_usd(self) -> Decimal:
        left = self._around.budget_usd() - self.spend.usd - self.reserved_usd
        of_all = self._around.left_usd()
        return left if of_all is None else min(left, of_all)

    async def _warm(self, request: ModelRequest, cached: Cached) -> bool:
        """Send one warming request; return whether the cache is warm now."""
        warming_id, begin_s = self._around.new_id(), self._clock.now_s()
        reserved = cached.worst_usd
        self.reserved_usd += reserved
        self._note(warming_id, request, outcome="sent", reservedUSD=float(reserved))
        try:
            ended = await self._around.put(
                replace(request, warms=True, stream=False, compares_with=None, in_thread=False)
            )
        except asyncio.CancelledError:
            # The cost is unknown, so the maximum is assumed.
            self._note(warming_id, request, outcome="cancelled")
            raise
        self.reserved_usd -= reserved
        if not isinstance(ended, Answered):
            why = ended.failure.message if isinstance(ended, GaveUp) else "no response"
            self._note(warming_id, request, outcome="failed", error=why)
            if isinstance(ended, GaveUp) and find_effective_status(ended.failure) in (
                400,
                404,
                422,
            ):
                self.trouble = f"the service rejected a warming request: {why}"
            return False
        self._charge(ended, warming_id, begin_s)
        tokens = tokens_of(ended.message.get("usage"))
        self._touched_s = begin_s
        self._around.touched()
        if tokens.cache_read < FOUND * cached.tokens:
            self._gone += 1
            if self._gone >= MAX_GONE:
                self.trouble = "the service dropped the cache before it expired"
            return False
        return True

    def _charge(self, ended: Answered, warming_id: str, begin_s: float) -> None:
        before = self._session.ledger.total
        charge(
            self._session,
            self._recorder,
            ended.message,
            request_id=ended.request_id,
            purpose="warming",
            duration_ms=(self._clock.now_s() - begin_s) * 1000,
            at=self._around.now(),
            catalog=self._catalog,
            warming_id=warming_id,
        )
        cost = self._session.ledger.total - before
        self.spend += cost
        self._spent_usd += cost.usd

    def _note(self, warming_id: str, request: ModelRequest, **about: Any) -> None:
        self._recorder.request_cost(
            purpose="warming", model=request.model, warmingId=warming_id, **about
        )


def unsettled_usd(lines: Iterable[Json]) -> Decimal:
    """Return the possible cost of warming requests whose end was never recorded."""
    open_usd: dict[str, Decimal] = {}
    for line in lines:
        name, reserved = str(line.get("warmingId")), line.get("reservedUSD")
        if line.get("outcome") == "sent" and isinstance(reserved, int | float):
            open_usd[name] = Decimal(str(reserved))
        elif line.get("outcome") != "cancelled":
            open_usd.pop(name, None)
    return sum(open_usd.values(), Decimal(0))
