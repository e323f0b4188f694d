"""Keep the cost of a session below a limit by reserving the cost of each request in advance.

The reservation is the highest possible cost: none of the input is cached, and the response is as
long as allowed. If it exceeds the remaining budget, the response is limited accordingly. Requests
in flight keep their reservation until their cost is charged.
"""

import asyncio
from collections.abc import Callable
from decimal import Decimal

from msgspec import Struct
from msgspec.structs import replace

from clew.agent.requests import anchored, estimate_input_tokens
from clew.core.catalog.lookup import ModelCatalog
from clew.core.catalog.models import MILLION, WEB_SEARCH_USD, Model, Price, find_price
from clew.core.json_object import Json
from clew.core.messages.history import History
from clew.core.normalize.tokens import estimate_message_tokens
from clew.providers.base import Failure, ModelRequest
from clew.providers.failure_kinds import with_output
from clew.providers.request_body import choose_output_limit

# A shorter response would be cut before it says anything, so it is not worth the cost of its input.
LEAST_OUTPUT_TOKENS = 1_024
# The factor for the part of a request that the service has not counted yet.
UNCOUNTED = 1.5
# The input that one search by the service adds to a request.
SEARCH_TOKENS = 5_000
# The longest wait for the cost of other requests.
MAX_WAIT_S = 600.0


class HighestCost(Struct, frozen=True, kw_only=True):
    """The highest cost of a request: of its input, and of each token of its response."""

    input_usd: Decimal
    output_usd: Decimal


class SpendingCap:
    """The maximum cost of a session in dollars, including subagents and side questions.

    `spent` returns the cost so far. Each reservation belongs to the driver of one response.
    """

    def __init__(
        self,
        usd: Decimal,
        *,
        spent: Callable[[], Decimal],
        catalog: ModelCatalog,
        now: Callable[[], str],
    ) -> None:
        self.usd = usd
        self._spent = spent
        self._catalog = catalog
        self._now = now
        self._held: dict[object, Decimal] = {}
        # Set when a reservation ends, and then replaced.
        self._freed = asyncio.Event()
        self._reported: set[str] = set()

    @property
    def left_usd(self) -> Decimal:
        """The part of the budget that is neither spent nor reserved."""
        return self.usd - self._spent() - sum(self._held.values(), Decimal(0))

    @property
    def is_spent(self) -> bool:
        return self._spent() >= self.usd

    def measure(self, request: ModelRequest, history: History) -> ModelRequest:
        """Set the maximum input size on a conversation's request."""
        counts, since, freed = anchored(history)
        if counts is None:
            return request
        tokens = max(0, counts.total - freed) + round(estimate_message_tokens(since) * UNCOUNTED)
        return replace(request, most_input_tokens=tokens)

    def find_unpriced(self, model: str) -> str:
        """Return a warning if the price of a model is unknown, once for each model."""
        if model in self._reported or self._find_price(model) is not None:
            return ""
        self._reported.add(model)
        return (
            f"the price of {model} is unknown, so the budget of ${self.usd} does not limit its cost"
        )

    async def hold(self, owner: object, request: ModelRequest) -> ModelRequest | Failure:
        """Reserve the cost of a request; return the request, its response limited if necessary.

        If the budget is not sufficient, wait until the cost of the requests in flight is known. If
        it is still not sufficient, return a Failure. An earlier reservation by the same owner ends.
        Requests to models whose price is unknown are not limited.
        """
        self.release(owner)
        cost = self._find_highest_cost(request)
        if cost is None:
            return request
        wanted = 1 if request.warms else choose_output_limit(request, self._entry(request.model))
        try:
            async with asyncio.timeout(MAX_WAIT_S):
                while self._held and self.left_usd < cost.input_usd + cost.output_usd * wanted:
                    await self._freed.wait()
        except TimeoutError:
            pass  # The rest of the budget must then suffice.
        left_usd = self.left_usd
        fitting = wanted
        if cost.output_usd:
            fitting = min(wanted, int((left_usd - cost.input_usd) / cost.output_usd))
        if left_usd < cost.input_usd or fitting < min(LEAST_OUTPUT_TOKENS, wanted):
            return Failure(kind="budget", message=self._describe(cost))
        self._held[owner] = cost.input_usd + cost.output_usd * fitting
        return request if fitting == wanted else with_output(request, fitting)

    def release(self, owner: object) -> None:
        """End a reservation, because the cost is charged or nothing was sent."""
        if self._held.pop(owner, None) is not None:
            self._freed.set()
            self._freed = asyncio.Event()

    def _describe(self, cost: HighestCost) -> str:
        next_usd = cost.input_usd + cost.output_usd * LEAST_OUTPUT_TOKENS
        return (
            f"Reached maximum budget (${self.usd}): the session has cost ${self._spent():.4f}, and "
            f"the next request could cost ${next_usd:.4f} or more. To continue, raise "
            "--max-budget-usd or the maxBudgetUsd setting"
        )

    def _entry(self, model: str) -> Model:
        return self._catalog.entry(model)

    def _find_price(self, model: str) -> Price | None:
        return find_price(self._entry(model).prices, self._now())

    def _find_highest_cost(self, request: ModelRequest) -> HighestCost | None:
        price = self._find_price(request.model)
        if price is None:
            return None
        tokens = request.most_input_tokens
        if tokens is None:
            tokens = round(estimate_input_tokens(request) * UNCOUNTED)
        searches = sum(map(count_searches, request.tools or ()))
        tokens += searches * SEARCH_TOKENS
        rates = price.for_prompt(tokens)
        # Without a cache, all input has the plain price; otherwise, it may all be written.
        writes = {"5m": rates.cache_write_5m, "1h": rates.cache_write_1h}
        dearest = max(rates.input, writes.get(request.cache or "", rates.input))
        return HighestCost(
            input_usd=dearest * tokens / MILLION + searches * WEB_SEARCH_USD,
            output_usd=rates.output / MILLION,
        )


def count_searches(tool: Json) -> int:
    """Return how many searches the service's search tool may run for a request."""
    count = tool.get("max_uses")
    return count if type(count) is int else 0
