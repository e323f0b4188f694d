"""Whether it pays to keep the prompt cache warm while the next request is waited for.

A warming request reads what is cached and so restarts its lifetime. It costs a read; without it, a
request that comes after the lifetime pays for writing everything again. Prices are the ledger's. PURE.
"""

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Literal, TypeAlias

from msgspec import Struct

from clew.core.catalog.models import Rates

# What is waited for: the calls of an answer, or the user's next prompt.
Waiting: TypeAlias = Literal["tools", "user"]

# How fast waits end that have lasted for some time, where the session knows none: after a wait of t, the
# chance that it lasts beyond x is (t / x) ** PATIENCE. Users stay away longer than tools.
PATIENCE: dict[Waiting, float] = {"tools": 1.0, "user": 0.6}
# Who stays away longer than this is not expected back soon.
LONGEST_S: dict[Waiting, float] = {"tools": 36_000.0, "user": 3_600.0}
# So many waits of the session count as much as that assumption.
WEIGHT = 2.0
# This part of the lifetime before its end, a warming request is sent.
LEAD = 0.1
# What the service caches at least; nothing smaller is worth a request.
LEAST_TOKENS = 512


class Cached(Struct, frozen=True, kw_only=True):
    """What the last request left in the cache: so many tokens, for so long, at these rates. `tail` are
    tokens after the last mark, which each warming request pays as input."""

    tokens: int
    tail: int
    lifetime_s: float
    is_long: bool
    rates: Rates

    @property
    def read_usd(self) -> Decimal:
        """What a warming request costs while the cache is there."""
        return self.rates.usd(cache_read_tokens=self.tokens, input_tokens=self.tail)

    @property
    def worst_usd(self) -> Decimal:
        """What one costs if the service has dropped the cache: all of it is written again."""
        return max(self.read_usd, self.write_usd)

    @property
    def write_usd(self) -> Decimal:
        total = self.tokens + self.tail
        if self.is_long:
            return self.rates.usd(cache_write_1h_tokens=total)
        return self.rates.usd(cache_write_5m_tokens=total)

    @property
    def saving_usd(self) -> Decimal:
        """What a read in place of a miss saves the next request."""
        long, short = (self.tokens, 0) if self.is_long else (0, self.tokens)
        miss = self.rates.usd(cache_write_1h_tokens=long, cache_write_5m_tokens=short)
        return miss - self.rates.usd(cache_read_tokens=self.tokens)

    @property
    def due_s(self) -> float:
        """How long after the last read or write a warming request is due."""
        return self.lifetime_s * (1 - LEAD)


class WarmingWait(Struct, frozen=True, kw_only=True):
    """A wait that has lasted for `elapsed_s`; `spent_usd` went into warming during it."""

    waiting: Waiting
    elapsed_s: float
    spent_usd: Decimal = Decimal(0)


def chance(wait: WarmingWait, begin_s: float, end_s: float, waits: Sequence[float]) -> float:
    """How likely the wait ends between two moments of it; `waits` are the session's waits of its kind."""
    now_s = max(wait.elapsed_s, 1.0)
    patience = PATIENCE[wait.waiting]
    usual = _lasts(now_s, begin_s, patience) - _lasts(now_s, end_s, patience)
    longer = [seconds for seconds in waits if seconds > wait.elapsed_s]
    within = sum(begin_s < seconds <= end_s for seconds in longer)
    return (WEIGHT * usual + within) / (WEIGHT + len(longer))


def _lasts(now_s: float, until_s: float, patience: float) -> float:
    """How likely a wait of so long lasts until then, where nothing else is known of it."""
    return math.pow(now_s / max(until_s, now_s), patience)


def expected_gain_usd(cached: Cached, wait: WarmingWait, waits: Sequence[float]) -> Decimal:
    """What warming now, and again as long as that pays, saves on average; negative if it loses."""
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
    """How many warming requests of one wait cost together less than a miss."""
    read, saving = cached.read_usd, cached.saving_usd
    if read <= 0 or saving <= 0:
        return 0
    count = int(saving / read)
    return count if count * read < saving else count - 1


def why_not_warm(
    cached: Cached, wait: WarmingWait, waits: Sequence[float], left_usd: Decimal
) -> str:
    """Say why not to warm now; empty if it pays. `left_usd` is what may still be spent, and covers the
    request even if the cache is gone."""
    if cached.tokens < LEAST_TOKENS:
        return "nothing is cached"
    if cached.worst_usd > left_usd:
        return "the budget is used up"
    if wait.elapsed_s > LONGEST_S[wait.waiting]:
        return "it has been waited for too long"
    if wait.spent_usd + cached.read_usd >= cached.saving_usd:
        return "this wait has cost as much as a miss"
    if expected_gain_usd(cached, wait, waits) <= 0:
        return "the next request is not expected soon enough"
    return ""
