"""Explain why a request missed the prompt cache.

The usage reveals a miss: the request read fewer tokens than the previous one left in the cache. The
service's `diagnostics` state what differed. Without them, the time since the last request and
clew's own comparison provide the reason. This module does no I/O.
"""

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from operator import is_
from typing import Any

from msgspec import Struct

from clew.core.catalog.lookup import ModelCatalog
from clew.core.catalog.models import find_price
from clew.core.json_object import Json, text_of
from clew.core.ledger.spending import TokenCounts, tokens_of
from clew.core.messages.text import format_count
from clew.core.normalize.target import MARK

# Describes what differs between the beginnings of two requests.


SHOWN_TOOLS = 3


class CachedParts(Struct, frozen=True, kw_only=True):
    """The parts of a request that the service caches, in the order in which it caches them."""

    model: str
    tools: Sequence[Json]
    system: Sequence[Json] | str | None
    messages: Sequence[Json]


def describe_change(before: CachedParts, after: CachedParts) -> str:
    """Describe the first change; return an empty string if `after` only extends `before`."""
    if before.model != after.model:
        return f"the model changed from {before.model} to {after.model}"
    return (
        _tools_change(_by_name(before.tools), _by_name(after.tools))
        or ("the system prompt changed" if before.system != after.system else "")
        or _messages_change(before.messages, after.messages)
    )


def _by_name(tools: Sequence[Json]) -> dict[str, Json]:
    """Return the tools by name, without deferred ones, which are not in the cached prefix."""
    return {str(tool.get("name")): tool for tool in tools if not tool.get(MARK)}


def _tools_change(before: dict[str, Json], after: dict[str, Json]) -> str:
    parts = (
        ("added", [name for name in after if name not in before]),
        ("removed", [name for name in before if name not in after]),
        ("changed", [n for n in after if n in before and after[n] != before[n]]),
    )
    summary = "; ".join(f"{_listed(names)} {what}" for what, names in parts if names)
    if summary:
        return f"tools: {summary}"
    return "the order of the tools changed" if list(before) != list(after) else ""


def _listed(names: list[str]) -> str:
    omitted_count = len(names) - SHOWN_TOOLS
    return ", ".join(names[:SHOWN_TOOLS]) + (
        f" and {omitted_count} more" if omitted_count > 0 else ""
    )


def _messages_change(before: Sequence[Json], after: Sequence[Json]) -> str:
    for number, (old, new) in enumerate(zip(before, after, strict=False), 1):
        if is_(old, new) or old == new:
            continue
        if number == len(before) and _continues(old, new):
            continue
        role = str(new.get("role"))
        return f"message {number} of {len(after)} changed ({role})"
    if len(after) < len(before):
        now = format_count(len(after), "message")
        return f"the conversation is shorter: {now} instead of {len(before)}"
    return ""


def _continues(old: Json, new: Json) -> bool:
    """Return whether `new` is `old` with content added, such as later results and text."""
    old_blocks, now = _blocks(old), _blocks(new)
    return old.get("role") == new.get("role") and now[: len(old_blocks)] == old_blocks


def _blocks(message: Json) -> list[Any]:
    content = message.get("content")
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


# The field of an assistant entry that contains the cache miss.
RECORD = "cacheMiss"
# The service does not cache shorter prefixes. A smaller difference comes from a moved cache marker.
LEAST_TOKENS = 512
LIFETIME_S = {"5m": 300.0, "1h": 3600.0}
EXPIRED, COMPACTED, UNKNOWN = "expired", "compacted", "unknown"
PENDING = "pending"
# Explanations by reason. The first six reasons are the service's, the others are clew's.
MEANINGS = {
    "model_changed": "the model changed; each model has its own cache",
    "system_changed": "the system prompt changed",
    "tools_changed": "the tools changed",
    "messages_changed": "an earlier message changed",
    "previous_message_not_found": "the service no longer has the previous request",
    "unavailable": "reason unavailable; a parameter such as thinking or effort may have changed",
    EXPIRED: "the cache expired",
    COMPACTED: "the conversation was compacted",
    PENDING: "the service had not finished comparing the requests",
    UNKNOWN: "no reason given; the cache may have been evicted, or a gateway changed the request",
}
# Reasons that are less specific than clew's own comparison.
_VAGUE = ("previous_message_not_found", "unavailable", PENDING, UNKNOWN)


class CacheMiss(Struct, frozen=True, kw_only=True):
    """A cache miss: `tokens` of input were not read from the cache; `reason` states why.

    `extra_usd` is the additional cost compared with a cache read, or None if the price is unknown.
    """

    reason: str
    tokens: int
    # What clew found changed; empty if nothing did.
    changed: str = ""
    idle_s: float = 0.0
    extra_usd: Decimal | None = None
    at: str = ""

    def __str__(self) -> str:
        why = MEANINGS.get(self.reason, self.reason)
        if self.reason == EXPIRED:
            why = f"{why}: {span(self.idle_s)} without a request"
        elif self.changed and self.reason != COMPACTED:
            why = self.changed if self.reason in MEANINGS else f"{why}: {self.changed}"
        cost = "" if self.extra_usd is None else f", ${self.extra_usd:.4f} more than a cache read"
        return f"{why} ({self.tokens:,} tokens{cost})"

    def as_json(self) -> Json:
        """Return the form used in transcripts and JSON output."""
        fields: Json = {"reason": self.reason, "tokens": self.tokens}
        if self.changed:
            fields["changed"] = self.changed
        if self.idle_s:
            fields["idleSeconds"] = round(self.idle_s)
        if self.extra_usd is not None:
            fields["extraCostUSD"] = float(self.extra_usd)
        return fields


def span(seconds: float) -> str:
    """Format a duration."""
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{round(seconds)} s"
    hours, rest = divmod(minutes, 60)
    return f"{minutes} min" if not hours else f"{hours} h {rest} min" if rest else f"{hours} h"


def find_miss(
    before: TokenCounts,
    now: TokenCounts,
    diagnostics: Any,
    *,
    changed: str = "",
    idle_s: float = 0.0,
    lifetime_s: float = LIFETIME_S["5m"],
    is_compacted: bool = False,
) -> tuple[str, int] | None:
    """Return the reason for a cache miss and the number of missed tokens, or None for a hit."""
    cached = before.cache_read + before.cache_write_5m + before.cache_write_1h
    missed = min(cached, now.prompt) - now.cache_read
    if missed < LEAST_TOKENS:
        return None
    cache_miss_reason = (
        diagnostics.get("cache_miss_reason") if isinstance(diagnostics, dict) else None
    )
    reason = cache_miss_reason.get("type") if isinstance(cache_miss_reason, dict) else None
    if (
        isinstance(diagnostics, dict)
        and "cache_miss_reason" in diagnostics
        and cache_miss_reason is None
    ):
        reason = PENDING
    if is_compacted:
        return COMPACTED, missed
    if isinstance(reason, str) and reason not in _VAGUE:
        return reason, missed
    if changed:
        return _reason_of(changed), missed
    if idle_s > lifetime_s:
        return EXPIRED, missed
    return (reason if isinstance(reason, str) else UNKNOWN), missed


def _reason_of(changed: str) -> str:
    """Return the service's name for the reason that corresponds to a change found by clew."""
    for beginning, reason in (
        ("the model", "model_changed"),
        ("tools", "tools_changed"),
        ("the order of the tools", "tools_changed"),
        ("the system", "system_changed"),
    ):
        if changed.startswith(beginning):
            return reason
    return "messages_changed"


def compute_extra_usd(
    now: TokenCounts, missed: int, model: str, at: str, catalog: ModelCatalog
) -> Decimal | None:
    """Return the additional cost compared with a cache read, or None if the price is unknown.

    Missed tokens are priced as cache writes as far as the request wrote to the cache, and otherwise
    as input.
    """
    catalog_model = catalog.find(model)
    price = None if catalog_model is None else find_price(catalog_model.prices, at)
    if price is None:
        return None
    rates = price.for_prompt(now.prompt)
    long = min(missed, now.cache_write_1h)
    short = min(missed - long, now.cache_write_5m)
    paid = rates.usd(
        cache_write_1h_tokens=long,
        cache_write_5m_tokens=short,
        input_tokens=missed - long - short,
    )
    return paid - rates.usd(cache_read_tokens=missed)


def find_recorded_misses(entries: Iterable[Json]) -> Iterator[CacheMiss]:
    """Yield the cache misses recorded in entries, in order."""
    for entry in entries:
        record = entry.get(RECORD) if entry.get("type") == "assistant" else None
        if isinstance(record, dict) and isinstance(record.get("reason"), str):
            yield _read(record, str(entry.get("timestamp", "")))


def _read(record: Json, at: str) -> CacheMiss:
    tokens, usd, idle_s = (
        record.get("tokens"),
        record.get("extraCostUSD"),
        record.get("idleSeconds"),
    )
    return CacheMiss(
        reason=record["reason"],
        tokens=tokens if type(tokens) is int else 0,
        changed=text_of(record.get("changed")),
        idle_s=float(idle_s) if isinstance(idle_s, int | float) else 0.0,
        extra_usd=Decimal(str(usd)) if type(usd) in (int, float) else None,
        at=at,
    )


def sum_up(misses: Sequence[CacheMiss]) -> str:
    """Summarize the misses in one sentence."""
    tokens = sum(miss.tokens for miss in misses)
    amounts = [miss.extra_usd for miss in misses if miss.extra_usd is not None]
    cost = f"; ${sum(amounts, Decimal(0)):.4f} more than cache reads" if amounts else ""
    return (
        f"{format_count(len(misses), 'request')}, {tokens:,} tokens not read from the cache{cost}"
    )


def read_usage_tokens(message: Json) -> TokenCounts | None:
    """Return the service's token counts for a response, or None if it reported none."""
    usage = message.get("usage")
    tokens = tokens_of(usage)
    return tokens if isinstance(usage, dict) and tokens.prompt else None
