"""Track how a conversation's requests use the service's prompt cache, and explain cache misses.

Record how the last request began and what it left in the cache. This module only observes and must
never delay a request.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

from clew.agent.warming import Warmer
from clew.core.catalog.lookup import CATALOG, ModelCatalog
from clew.core.json_object import Json
from clew.core.ledger.cache_miss import (
    LIFETIME_S,
    CachedParts,
    CacheMiss,
    compute_extra_usd,
    describe_change,
    find_miss,
    find_recorded_misses,
    read_usage_tokens,
)
from clew.core.ledger.spending import TokenCounts, find_last_size
from clew.core.messages.history import History
from clew.core.messages.messages import AssistantMessage
from clew.core.normalize.select import is_boundary
from clew.providers.base import ModelRequest


class Watch(Protocol):
    """Observes the requests of a conversation (see `CacheWatch`)."""

    def sent(self, request: ModelRequest, history: History, at: str) -> None:
        """Note that a request is being sent."""
        ...

    def answered(self, message: Json, model: str, at: str) -> CacheMiss | None:
        """Note the response from `model`. Return why the request missed the cache, if it did."""
        ...


class CacheWatch:
    """Compares each request with the previous one to explain cache misses."""

    def __init__(
        self,
        entries: Iterable[Json] = (),
        *,
        catalog: ModelCatalog = CATALOG,
        warmer: Warmer | None = None,
    ) -> None:
        """Start from the recorded `entries` of a resumed session.

        `warmer` keeps the cache warm between requests.
        """
        self.warmer = warmer
        recorded_entries = list(entries)
        self.misses = list(find_recorded_misses(recorded_entries))
        self._catalog = catalog
        self._cached: TokenCounts | None = find_last_size(recorded_entries)
        self._touched_at = last_time(recorded_entries)
        self._before: CachedParts | None = None
        self._now: CachedParts | None = None
        self._boundary = boundary_of(recorded_entries)
        self._is_compacted = False
        self._idle_s = 0.0
        self._lifetime_s = LIFETIME_S["5m"]

    def sent(self, request: ModelRequest, history: History, at: str) -> None:
        boundary = boundary_of(history)
        self._is_compacted = boundary != self._boundary
        self._boundary = boundary
        self._now = CachedParts(
            model=request.model,
            tools=request.tools or (),
            system=request.system,
            messages=request.messages,
        )
        self._idle_s = seconds_between(self._touched_at, at)
        model = self._catalog.find(request.model)
        lifetime_s = None if model is None else model.cache_seconds
        self._lifetime_s = lifetime_s or LIFETIME_S[request.cache or "5m"]
        self._touched_at = at
        if self.warmer is not None:
            self.warmer.sent(request)

    def touched(self, at: str) -> None:
        """Restart the cache's lifetime, because the cached content was read."""
        self._touched_at = at

    def answered(self, message: Json, model: str, at: str) -> CacheMiss | None:
        if self.warmer is not None:
            self.warmer.answered(message, model)
        tokens = read_usage_tokens(message)
        if tokens is None or self._now is None:
            return None
        before, self._before = self._before, self._now
        cached, self._cached = self._cached, tokens
        # Most requests miss nothing, and long conversations take long to compare.
        if cached is None or find_miss(cached, tokens, None) is None:
            return None
        changed = "" if before is None else describe_change(before, self._now)
        if model != self._now.model:
            changed = f"the model changed from {self._now.model} to {model}"
        cache_miss = find_miss(
            cached,
            tokens,
            message.get("diagnostics"),
            changed=changed,
            idle_s=self._idle_s,
            lifetime_s=self._lifetime_s,
            is_compacted=self._is_compacted,
        )
        if cache_miss is None:
            return None
        reason, missed = cache_miss
        miss = CacheMiss(
            reason=reason,
            tokens=missed,
            changed=changed,
            idle_s=self._idle_s,
            extra_usd=compute_extra_usd(tokens, missed, model, at, self._catalog),
            at=at,
        )
        self.misses.append(miss)
        return miss


def boundary_of(entries: Iterable[Json]) -> str:
    """Return the UUID of the compaction boundary that begins the entries, or an empty string."""
    first = next(iter(entries), None)
    return str(first.get("uuid")) if first is not None and is_boundary(first) else ""


def last_answer_id(history: History) -> str:
    """Return the ID of the last message that a service sent, or an empty string."""
    for place in range(len(history) - 1, -1, -1):
        if history[place].get("type") == "assistant":
            message = AssistantMessage(history[place])
            if not message.is_synthetic:
                return message.message_id or ""
    return ""


def last_time(entries: list[Json]) -> str:
    answers = (entry for entry in reversed(entries) if entry.get("type") == "assistant")
    return str(next(answers, {}).get("timestamp", ""))


def seconds_between(before: str, now: str) -> float:
    """Return the seconds between two timestamps, or 0 if one is invalid."""
    try:
        passed = datetime.fromisoformat(now) - datetime.fromisoformat(before)
    except (ValueError, TypeError):
        return 0.0
    return max(0.0, passed.total_seconds())
