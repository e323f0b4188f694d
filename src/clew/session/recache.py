"""What it costs that a request begins otherwise than the one before: its cached part is sent anew."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from msgspec import Struct

from clew.catalog.lookup import Catalog
from clew.messages.wording import SYNTHETIC_MODEL
from clew.session.spending import Tokens, tokens_of, usd


class Recached(Struct, frozen=True, kw_only=True):
    """`tokens` leave the cache; sent anew they cost `usd`, from the cache they had cost `cached_usd`.
    None where no price is known."""

    tokens: int
    usd: Decimal | None
    cached_usd: Decimal | None

    def __str__(self) -> str:
        told = f"about {self.tokens:,} tokens are sent and cached anew"
        if self.usd is None or self.cached_usd is None:
            return told
        return f"{told}: ${self.usd:.4f} instead of ${self.cached_usd:.4f}"


def last_size(entries: Sequence[dict[str, Any]]) -> Tokens | None:
    """The usage of the last answer that the service counted."""
    for entry in reversed(entries):
        message = entry.get("message")
        if entry.get("type") != "assistant" or type(message) is not dict:
            continue
        if message.get("model") != SYNTHETIC_MODEL and type(message.get("usage")) is dict:
            return tokens_of(message["usage"])
    return None


def recached(last: Tokens, *, model: str, before: str, at: str, catalog: Catalog) -> Recached:
    """What the next request to `model` costs, because nothing of the last one's is cached for it."""
    count = last.total
    return Recached(
        tokens=count,
        usd=usd({"cache_creation_input_tokens": count}, model, at, catalog),
        cached_usd=usd({"cache_read_input_tokens": count}, before, at, catalog),
    )
