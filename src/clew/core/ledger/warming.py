"""Decide whether keeping the prompt cache warm pays off while waiting for the next request.

A warming request reads the cache and so restarts its lifetime, for the price of a read. Without it,
a request after the lifetime pays for writing everything again. Prices come from the ledger. This
module does no I/O.
"""

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Literal, TypeAlias

from msgspec import Struct

from clew.core.catalog.models import Rates

# Why a cache is not kept warm.
NOTHING_CACHED = "nothing is cached"
SPENT = "the warming budget is used up"
TOO_LONG = "the wait has lasted too long"
NO_GAIN = "warming during this wait would cost as much as a cache miss"
TOO_LATE = "the next request is not expected soon enough"

# The reason for waiting: running tool calls or the user's next prompt.
Waiting: TypeAlias = Literal["tools", "user"]

# Assumed distribution of waits before the session has its own: after a wait of t, the chance that
# it lasts beyond x is (t / x) ** PATIENCE. Users stay away longer than tools.
PATIENCE: dict[Waiting, float] = {"tools": 1.0, "user": 0.6}
# After this long, the end of the wait is not expected soon.
LONGEST_S: dict[Waiting, float] = {"tools": 36_000.0, "user": 3_600.0}
# The assumption has the same weight as this many waits of the session.
WEIGHT = 2.0
# A warming request is sent when this fraction of the lifetime is left.
LEAD = 0.1
# The smallest prefix that the service caches. A smaller one is not worth a request.
LEAST_TOKENS = 512


class Cached(Struct, frozen=True, kw_only=True):
    """The contents of the cache after the last request.

    `tail` is the number of tokens after the last cache marker, which each warming request pays for
    as input.
    """

    tokens: int
    tail: int
    lifetime_s: float
    is_long: bool
    rates: Rates

    @property
    def read_usd(self) -> Decimal:
        """The cost of a warming request while the cache exists."""
        return self.rates.usd(cache_read_tokens=self.tokens, input_tokens=self.tail)

    @property
    def worst_usd(self) -> Decimal:
        """The cost of a warming request if the service has dropped the cache."""
        return max(self.read_usd, self.write_usd)

    @property
    def write_usd(self) -> Decimal:
        total = self.tokens + self.tail
        if self.is_long:
            return self.rates.usd(cache_write_1h_tokens=total)
        return self.rates.usd(cache_write_5m_tokens=total)

    @property
    def saving_usd(self) -> Decimal:
        """The amount saved if the next request reads the cache instead of missing it."""
        long, short = (self.tokens, 0) if self.is_long else (0, self.tokens)
        miss = self.rates.usd(cache_write_1h_tokens=long, cache_write_5m_tokens=short)
        return miss - self.rates.usd(cache_read_tokens=self.tokens)

    @property
    def due_s(self) -> float:
        """The seconds from the last cache read or write until a warming request is due."""
        return self.lifetime_s * (1 - LEAD)


class WarmingWait(Struct, frozen=True, kw_only=True):
    """A wait that has lasted `elapsed_s` and in which warming has cost `spent_usd`."""

    waiting: Waiting
    elapsed_s: float
    spent_usd: Decimal = Decimal(0)


def chance(wait: WarmingWait, begin_s: float, end_s: float, waits: Sequence[float]) -> float:
    """Return the probability that the wait ends between two points in time.

    `waits` lists the durations of the session's earlier waits of the same kind.
    """
    now_s = max(wait.elapsed_s, 1.0)
    patience = PATIENCE[wait.waiting]
    usual = _lasts(now_s, begin_s, patience) - _lasts(now_s, end_s, patience)
    longer = [seconds for seconds in waits if seconds > wait.elapsed_s]
    within = sum(begin_s < seconds <= end_s for seconds in longer)
    return (WEIGHT * usual + within) / (WEIGHT + len(longer))


def _lasts(now_s: float, until_s: float, patience: float) -> float:
    """Return the assumed probability that a wait that has lasted `now_s` lasts until `until_s`."""
    return math.pow(now_s / max(until_s, now_s), patience)


def expected_gain_usd(cached: Cached, wait: WarmingWait, waits: Sequence[float]) -> Decimal:
    """Return the expected saving (negative: loss) from warming now and for as long as it pays."""
    lead_s = cached.lifetime_s - cached.due_s
    expires_s, warmed_s = wait.elapsed_s + lead_s, wait.elapsed_s
    saving, read = float(cached.saving_usd), float(cached.read_usd)
    gain = 0.0
    best = -float("inf")
    for _ in range(most_requests(cached)):
        still = 1.0 - chance(wait, wait.elapsed_s, warmed_s, waits)
        covered_s = warmed_s + cached.lifetime_s
        gain += saving * chance(wait, expires_s, covered_s, waits) - read * still
        best = max(best, gain)
        expires_s, warmed_s = covered_s, covered_s - lead_s
    return Decimal(str(best)) if best > -float("inf") else Decimal("-Infinity")


def most_requests(cached: Cached) -> int:
    """Return the largest number of warming requests that together cost less than one miss."""
    read, saving = cached.read_usd, cached.saving_usd
    if read <= 0 or saving <= 0:
        return 0
    count = int(saving / read)
    return count if count * read < saving else count - 1


def why_not_warm(
    cached: Cached, wait: WarmingWait, waits: Sequence[float], left_usd: Decimal
) -> str:
    """Return the reason not to warm now, or an empty string if warming pays.

    `left_usd` is the remaining budget. It must cover the request even if the cache is gone.
    """
    if cached.tokens < LEAST_TOKENS:
        return NOTHING_CACHED
    if cached.worst_usd > left_usd:
        return SPENT
    if wait.elapsed_s > LONGEST_S[wait.waiting]:
        return TOO_LONG
    if wait.spent_usd + cached.read_usd >= cached.saving_usd:
        return NO_GAIN
    if expected_gain_usd(cached, wait, waits) <= 0:
        return TOO_LATE
    return ""
