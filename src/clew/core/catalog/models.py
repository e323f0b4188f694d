"""The shape of a model's entry. Owns the types only; the facts and the search are in `lookup`.

An entry says what a request to the model may hold. Every fact may be unknown (None), and unknown is
never read as nothing, nor as zero: a request then leaves the choice to the service.
"""

import re
from decimal import Decimal
from typing import Literal, TypeAlias

from msgspec import Struct

# What tokens cost, in US dollars per million, exact, and since when.


# A search on the service's side; fetching costs its tokens only.
WEB_SEARCH_USD = Decimal("0.01")
BATCH_FACTOR = Decimal("0.5")
# Inference that is held in one country.
RESIDENT_FACTOR = Decimal("1.1")

MILLION = Decimal(1_000_000)


class Rates(Struct, frozen=True, kw_only=True):
    """US dollars per million tokens of each kind."""

    input: Decimal
    output: Decimal
    cache_write_5m: Decimal
    cache_write_1h: Decimal
    cache_read: Decimal

    def usd(
        self,
        *,
        input_tokens: int = 0,
        output_tokens: int = 0,
        cache_write_5m_tokens: int = 0,
        cache_write_1h_tokens: int = 0,
        cache_read_tokens: int = 0,
    ) -> Decimal:
        """What these tokens cost; the API's `input_tokens` already leaves out cached ones."""
        total = (
            self.input * input_tokens
            + self.output * output_tokens
            + self.cache_write_5m * cache_write_5m_tokens
            + self.cache_write_1h * cache_write_1h_tokens
            + self.cache_read * cache_read_tokens
        )
        return total / MILLION


class Price(Struct, frozen=True, kw_only=True):
    """Rates from a date on; prompts longer than `long_above` tokens (caches counted in) cost `long`."""

    since: str
    rates: Rates
    long_above: int | None = None
    long: Rates | None = None
    # What the fast mode multiplies every rate by, where there is one.
    fast_factor: Decimal | None = None

    def for_prompt(self, prompt_tokens: int) -> Rates:
        if (
            self.long is not None
            and self.long_above is not None
            and prompt_tokens > self.long_above
        ):
            return self.long
        return self.rates


def find_price(prices: tuple[Price, ...], at: str) -> Price | None:
    """The price in force at an ISO date or time; before the first one, the first; None if none."""
    in_force: Price | None = None
    for price in prices:
        if in_force is None or price.since <= at:
            in_force = price
    return in_force


def make_rates(
    given_input: str,
    output: str,
    *,
    write_5m: str | None = None,
    write_1h: str | None = None,
    read: str | None = None,
) -> Rates:
    """Rates from their decimal text; what is not given follows from the input rate.

    A write for five minutes costs 1.25 of the input, for an hour twice, a read a tenth: the rule
    for most models, and where a model breaks it the table says so.
    """
    base = Decimal(given_input)
    return Rates(
        input=base,
        output=Decimal(output),
        cache_write_5m=base * Decimal("1.25") if write_5m is None else Decimal(write_5m),
        cache_write_1h=base * 2 if write_1h is None else Decimal(write_1h),
        cache_read=base * Decimal("0.1") if read is None else Decimal(read),
    )


ThinkingMode: TypeAlias = Literal["adaptive", "enabled", "disabled", "between_tools"]
EffortLevel: TypeAlias = Literal["low", "medium", "high", "xhigh", "max"]


class Model(Struct, frozen=True, kw_only=True):
    """One model; `id` is what a request names, `prices` are in the order of their dates."""

    id: str
    name: str
    family: str | None = None
    context_window: int | None = None
    max_output: int | None = None
    # What a request asks for when nobody says otherwise.
    default_output: int | None = None
    thinking: tuple[ThinkingMode, ...] | None = None
    effort: tuple[EffortLevel, ...] | None = None
    # The highest level that it takes with its thinking switched off, where that is a lower one.
    effort_without_thinking: EffortLevel | None = None
    # How long its service keeps what it cached, where that is neither five minutes nor an hour.
    cache_seconds: float | None = None
    prefill: bool | None = None
    system_in_messages: bool | None = None
    images: bool | None = None
    pdfs: bool | None = None
    # Whether it takes definitions of tools that are loaded when a result refers to them.
    deferred_tools: bool | None = None
    # Whether each of its thoughts is bound to all that stood before it, and refused behind anything else.
    binds_thinking: bool | None = None
    # Betas without which the model lacks something that clew uses.
    betas: tuple[str, ...] = ()
    # The beta that gives this model a window of a million tokens, where it has none of itself.
    million_beta: str | None = None
    prices: tuple[Price, ...] = ()

    @property
    def known(self) -> bool:
        return self.context_window is not None


def make_unknown_model(model_id: str) -> Model:
    """A model nobody has described: usable, with nothing assumed of it."""
    return Model(id=model_id, name=model_id)


# The versions of the Messages API that clew speaks, and what the later one no longer takes.


EARLIER = "2023-06-01"
LATER = "2026-10-21"
# What a request says that names none: the official SDK's own default.
USUAL = LATER

# Members of a body that the later version knows no more.
SAMPLING = ("temperature", "top_p", "top_k")

_FORM = re.compile(r"\d{4}-\d{2}-\d{2}")


def is_version(text: str) -> bool:
    """Whether a text has the form of a version."""
    return _FORM.fullmatch(text) is not None


def is_later(version: str) -> bool:
    """Whether the rules of 2026-10-21 hold; those of versions after it are not known here."""
    return version >= LATER


def choose_other_version(version: str) -> str:
    """Return the version to speak with an endpoint that refuses this one."""
    return EARLIER if is_later(version) else LATER
