"""The cost of one model response: its recorded usage times the prices in force.

Owns the arithmetic for a single response. An unknown price is None, never zero. All amounts
are decimals.
"""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from msgspec import Struct

from clew.core.catalog.lookup import ModelCatalog
from clew.core.catalog.models import (
    BATCH_FACTOR,
    RESIDENT_FACTOR,
    WEB_SEARCH_USD,
    Model,
    find_price,
)
from clew.core.json_object import Json, object_of, text_of
from clew.core.messages.text import SYNTHETIC_MODEL
from clew.core.messages.views import Usage
from clew.core.normalize.tokens import estimate_message_tokens


class TokenCounts(Struct, frozen=True, kw_only=True):
    """The billed tokens of a response. `input` excludes tokens read from or written to a cache.

    Fields:
        output: Tokens of the answer, thinking included.
        cache_read: Input tokens read from the cache.
        cache_write_5m: Input tokens written to the cache for five minutes.
        cache_write_1h: Input tokens written to the cache for an hour.
        web_searches: Searches that the service made.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    web_searches: int = 0

    def as_usage(self) -> Json:
        """Return the counts in the format of a response's usage."""
        return {
            "input_tokens": self.input,
            "output_tokens": self.output,
            "cache_read_input_tokens": self.cache_read,
            "cache_creation_input_tokens": self.cache_write_5m + self.cache_write_1h,
            "cache_creation": {
                "ephemeral_5m_input_tokens": self.cache_write_5m,
                "ephemeral_1h_input_tokens": self.cache_write_1h,
            },
            "server_tool_use": {
                "web_search_requests": self.web_searches,
                "web_fetch_requests": 0,
            },
        }

    @property
    def prompt(self) -> int:
        """All input tokens, including cached ones."""
        return self.input + self.cache_read + self.cache_write_5m + self.cache_write_1h

    @property
    def total(self) -> int:
        """All tokens, input and output."""
        return self.prompt + self.output

    def __add__(self, other: "TokenCounts") -> "TokenCounts":
        return TokenCounts(
            input=self.input + other.input,
            output=self.output + other.output,
            cache_read=self.cache_read + other.cache_read,
            cache_write_5m=self.cache_write_5m + other.cache_write_5m,
            cache_write_1h=self.cache_write_1h + other.cache_write_1h,
            web_searches=self.web_searches + other.web_searches,
        )

    def __sub__(self, other: "TokenCounts") -> "TokenCounts":
        return TokenCounts(
            **{f: getattr(self, f) - getattr(other, f) for f in TokenCounts.__struct_fields__}
        )


def tokens_of(usage: Any) -> TokenCounts:
    """Return the counts in a recorded usage object; missing or invalid ones are zero."""
    view = Usage(object_of(usage))
    searches = object_of(view.data.get("server_tool_use")).get("web_search_requests")
    writes = view.cache_write_tokens
    long_writes = min(view.cache_write_1h_tokens, writes) if writes else 0
    return TokenCounts(
        input=view.input_tokens,
        output=view.output_tokens,
        cache_read=view.cache_read_tokens,
        cache_write_5m=writes - long_writes,
        cache_write_1h=long_writes,
        web_searches=searches if type(searches) is int else 0,
    )


def compute_usd(usage: Any, model: str, at: str, catalog: ModelCatalog) -> Decimal | None:
    """Return the cost of a response with this usage, or None if the price is unknown."""
    return price_tokens(usage, tokens_of(usage), catalog.find(model), at)


def price_tokens(usage: Any, counts: TokenCounts, model: Model | None, at: str) -> Decimal | None:
    """Return the cost of `counts` for `model`, or None if the price is unknown.

    `usage` provides the other factors of the price: the speed, the service tier and the region.
    """
    price = None if model is None else find_price(model.prices, at)
    if price is None:
        return None
    fields = object_of(usage)
    amount = price.for_prompt(counts.prompt).usd(
        input_tokens=counts.input,
        output_tokens=counts.output,
        cache_write_5m_tokens=counts.cache_write_5m,
        cache_write_1h_tokens=counts.cache_write_1h,
        cache_read_tokens=counts.cache_read,
    )
    if fields.get("speed") == "fast":
        if price.fast_factor is None:
            return None
        amount *= price.fast_factor
    if fields.get("service_tier") == "batch":
        amount *= BATCH_FACTOR
    if text_of(fields.get("inference_geo")) not in ("", "global", "not_available"):
        amount *= RESIDENT_FACTOR
    return amount + counts.web_searches * WEB_SEARCH_USD


# The cost of a request that starts differently from the previous one: its cached part is sent
# again.


class Recached(Struct, frozen=True, kw_only=True):
    """The cost of losing the cache: `tokens` sent again cost `usd` instead of `cached_usd`.

    The amounts are None if the price is unknown.
    """

    tokens: int
    usd: Decimal | None
    cached_usd: Decimal | None

    @property
    def extra_usd(self) -> Decimal | None:
        """The additional cost, or None if the price is unknown."""
        if self.usd is None or self.cached_usd is None:
            return None
        return self.usd - self.cached_usd

    def __str__(self) -> str:
        text = f"about {self.tokens:,} tokens will be sent and cached again"
        if self.usd is None or self.cached_usd is None:
            return text
        return f"{text}: ${self.usd:.4f} instead of ${self.cached_usd:.4f}"


def find_last_size(entries: Sequence[dict[str, Any]]) -> TokenCounts | None:
    """Return the token counts of the last response for which the service reported them.

    Return None if there is no such response.
    """
    for entry in reversed(entries):
        message = entry.get("message")
        if entry.get("type") != "assistant" or type(message) is not dict:
            continue
        if message.get("model") != SYNTHETIC_MODEL and type(message.get("usage")) is dict:
            return tokens_of(message["usage"])
    return None


def estimate_recaching(
    last: TokenCounts, *, model: str, before: str, at: str, catalog: ModelCatalog
) -> Recached:
    """Estimate the cost of the next request to `model` if nothing can be read from the cache.

    `before` is the model whose cache would otherwise be read.
    """
    count = last.total
    return Recached(
        tokens=count,
        usd=compute_usd({"cache_creation_input_tokens": count}, model, at, catalog),
        cached_usd=compute_usd({"cache_read_input_tokens": count}, before, at, catalog),
    )


# Estimates the size of the next prompt.


class Estimator:
    """A token estimator that corrects itself: `factor` is the session's measured error."""

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor

    def learn(self, estimated: int, counted: int) -> None:
        """Adjust the factor, given an uncorrected estimate and the service's count."""
        if estimated < 200 or counted <= 0:
            return  # too small a sample
        seen = min(3.0, max(0.4, counted / estimated))
        self.factor += (seen - self.factor) * 0.4

    def tail(self, messages: Iterable[dict[str, Any]]) -> int:
        return round(estimate_message_tokens(messages) * self.factor)

    def next_prompt(self, usage: Any, tail: Sequence[dict[str, Any]]) -> int:
        """Estimate the size of the next prompt: the last request, its response and later text."""
        counts = tokens_of(usage)
        return counts.total + self.tail(tail)
