"""The types of a model entry. The facts and the lookup are in `lookup`.

An entry describes what a request to the model may contain. Any fact may be unknown (None). Unknown
never means "no" or zero: the request then leaves the choice to the service.
"""

from decimal import Decimal
from typing import Literal, TypeAlias

from msgspec import Struct

from clew.core.regex import lazy_pattern

# Exact token prices in US dollars per million, with the dates they apply from.


# Per search run by the service. Fetching a page costs only its tokens.
WEB_SEARCH_USD = Decimal("0.01")
BATCH_FACTOR = Decimal("0.5")
# Applies to inference that is restricted to one country.
RESIDENT_FACTOR = Decimal("1.1")

MILLION = Decimal(1_000_000)


class Rates(Struct, frozen=True, kw_only=True):
    """The rate for each kind of token, in US dollars per million tokens.

    Fields:
        input: Input tokens that are not cached.
        output: Tokens of the answer, thinking included.
        cache_write_5m: Tokens written to the cache for five minutes.
        cache_write_1h: Tokens written to the cache for an hour.
        cache_read: Input tokens read from the cache.
    """

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
        """Return the cost of these tokens; the API's `input_tokens` excludes cached ones."""
        total = (
            self.input * input_tokens
            + self.output * output_tokens
            + self.cache_write_5m * cache_write_5m_tokens
            + self.cache_write_1h * cache_write_1h_tokens
            + self.cache_read * cache_read_tokens
        )
        return total / MILLION


class Price(Struct, frozen=True, kw_only=True):
    """The rates that apply from a certain date.

    A prompt of more than `long_above` tokens, including cached ones, is billed at the rates in
    `long`.

    Fields:
        since: The date, or an empty string for the first price.
        rates: The usual rates.
        fast_factor: The multiplier for every rate in fast mode, if the model has one.
    """

    since: str
    rates: Rates
    long_above: int | None = None
    long: Rates | None = None
    fast_factor: Decimal | None = None

    def for_prompt(self, prompt_tokens: int) -> Rates:
        """Return the rates for a prompt of this length."""
        if (
            self.long is not None
            and self.long_above is not None
            and prompt_tokens > self.long_above
        ):
            return self.long
        return self.rates


def find_price(prices: tuple[Price, ...], at: str) -> Price | None:
    """Return the price in force at an ISO date or time, or the first price for an earlier time.

    Return None only if there are no prices.
    """
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
    """Return rates parsed from decimal strings; omitted ones are derived from the input rate.

    Writing to the cache costs 1.25 times the input rate for five minutes and twice the input rate
    for an hour; reading costs a tenth. These factors apply to most models, and the table lists the
    exceptions.
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
    """One model. `id` is the ID to send; `prices` is ordered by date.

    Fields:
        name: The display name.
        family: The family, such as opus.
        context_window: The maximum number of tokens in a request and its answer.
        max_output: The maximum number of tokens in an answer.
        thinking: The kinds of thinking that it supports.
        effort: The effort levels that it supports.
        prefill: Whether a request may end with the beginning of the answer.
        system_in_messages: Whether messages may have the role system.
        images: Whether it accepts images.
        pdfs: Whether it accepts PDF files.
        tools: Whether it can call tools at all.
        retired: The date on which the service retires it, or empty.
        default_output: The output limit of a request when nothing else is set.
        effort_without_thinking: The highest effort level with thinking disabled, if lower
            than with thinking.
        cache_seconds: How long the service keeps its cache, if neither five minutes nor an
            hour.
        deferred_tools: Whether the model accepts tool definitions that load when a result
            refers to them.
        binds_thinking: Whether each thinking block is bound to everything before it and
            rejected after anything else.
        betas: Betas without which the model lacks a feature that clew uses.
        million_beta: The beta that gives this model a 1M-token window it does not have by
            default.
    """

    id: str
    name: str
    family: str | None = None
    context_window: int | None = None
    max_output: int | None = None
    default_output: int | None = None
    thinking: tuple[ThinkingMode, ...] | None = None
    effort: tuple[EffortLevel, ...] | None = None
    effort_without_thinking: EffortLevel | None = None
    cache_seconds: float | None = None
    prefill: bool | None = None
    system_in_messages: bool | None = None
    images: bool | None = None
    pdfs: bool | None = None
    tools: bool | None = None
    retired: str = ""
    deferred_tools: bool | None = None
    binds_thinking: bool | None = None
    betas: tuple[str, ...] = ()
    million_beta: str | None = None
    prices: tuple[Price, ...] = ()

    @property
    def known(self) -> bool:
        """True if the limits of the model are known."""
        return self.context_window is not None


def make_unknown_model(model_id: str) -> Model:
    """Return a usable entry for an unknown model, without any assumptions about it."""
    return Model(id=model_id, name=model_id)


# A date or a version at the end of a model's ID: @20250101, -v1:0, -latest, -2026-04-23.
_SUFFIX = lazy_pattern(r"(?:@\w+|-v\d+(?::\d+)?|-latest|-\d{8}|-\d{4}-\d{2}-\d{2})+$")


def strip_version(name: str) -> str:
    """Return a model ID without its date or version."""
    return _SUFFIX.sub("", name)


# The Messages API versions that clew supports, and the fields that the later one rejects.


EARLIER = "2023-06-01"
LATER = "2026-10-21"
# The version assumed for a request without one: the official SDK's default.
USUAL = LATER

# Request fields that the later version no longer accepts.
SAMPLING = ("temperature", "top_p", "top_k")

_FORM = lazy_pattern(r"\d{4}-\d{2}-\d{2}")


def is_version(text: str) -> bool:
    """Return whether the text has the form of an API version."""
    return _FORM.fullmatch(text) is not None


def is_later(version: str) -> bool:
    """Return whether the rules of 2026-10-21, the latest version known here, apply to `version`."""
    return version >= LATER


def choose_other_version(version: str) -> str:
    """Return the other supported version, for an endpoint that rejects this one."""
    return EARLIER if is_later(version) else LATER
