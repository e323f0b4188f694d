"""What tokens cost, in US dollars per million, exact, and since when.

Owns the arithmetic of a rate, not of a session: who adds up lives elsewhere. A price that is not
known is None and never zero.
"""

from decimal import Decimal

from msgspec import Struct

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


def price_at(prices: tuple[Price, ...], at: str) -> Price | None:
    """The price in force at an ISO date or time; before the first one, the first; None if none."""
    in_force: Price | None = None
    for price in prices:
        if in_force is None or price.since <= at:
            in_force = price
    return in_force


def rates(
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
