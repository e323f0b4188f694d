"""The models of the Messages API as of November 2026: one entry each, newest first.

Owns the facts only. Retired models stay: old sessions still name them and still have a cost.
"""

from decimal import Decimal

from clew.catalog.models import EffortLevel, Model, ThinkingMode
from clew.catalog.prices import Price, Rates, rates

ALWAYS = ""  # a price without an earlier one holds for all time before

TO_HIGH: tuple[EffortLevel, ...] = ("low", "medium", "high")
TO_MAX: tuple[EffortLevel, ...] = ("low", "medium", "high", "max")
ALL_EFFORT: tuple[EffortLevel, ...] = ("low", "medium", "high", "xhigh", "max")

ALWAYS_THINKS: tuple[ThinkingMode, ...] = ("adaptive",)
BETWEEN: tuple[ThinkingMode, ...] = ("adaptive", "between_tools")
ADAPTIVE: tuple[ThinkingMode, ...] = ("adaptive", "disabled")
BOTH: tuple[ThinkingMode, ...] = ("adaptive", "enabled", "disabled")
BUDGET: tuple[ThinkingMode, ...] = ("enabled", "disabled")

# The models with preserved thinking, as the vendor's page names them.
BINDING = frozenset(
    {
        "claude-fable-5-2",
        "claude-mythos-5-2",
        "claude-haiku-5-5",
        "claude-sonnet-5-5",
        "claude-opus-5-5",
        "claude-fable-5-1",
        "claude-mythos-5-1",
    }
)

INTERLEAVED = "interleaved-thinking-2025-05-14"
CONTEXT_MANAGEMENT = "context-management-2025-06-27"
MILLION_CONTEXT = "context-1m-2025-08-07"


def _price(
    base: Rates,
    *,
    since: str = ALWAYS,
    long_above: int | None = None,
    long: Rates | None = None,
    fast: str | None = None,
) -> Price:
    factor = None if fast is None else Decimal(fast)
    return Price(since=since, rates=base, long_above=long_above, long=long, fast_factor=factor)


def _current(
    model_id: str,
    name: str,
    *prices: Price,
    thinking: tuple[ThinkingMode, ...] = ADAPTIVE,
    effort: tuple[EffortLevel, ...] = ALL_EFFORT,
    system_in_messages: bool = True,
    max_output: int = 128_000,
) -> Model:
    """A model with a window of a million tokens that decides by itself how long it thinks."""
    return Model(
        id=model_id,
        name=name,
        family=model_id.split("-")[1],
        context_window=1_000_000,
        max_output=max_output,
        default_output=max_output,
        thinking=thinking,
        effort=effort,
        prefill=False,
        system_in_messages=system_in_messages,
        images=True,
        pdfs=True,
        deferred_tools=True,
        binds_thinking=model_id in BINDING,
        betas=(CONTEXT_MANAGEMENT,),
        prices=prices,
    )


def _earlier(
    model_id: str,
    name: str,
    family: str,
    price: Price,
    *,
    max_output: int,
    thinking: tuple[ThinkingMode, ...] = BUDGET,
    effort: tuple[EffortLevel, ...] = (),
    betas: tuple[str, ...] = (INTERLEAVED,),
    million_beta: str | None = None,
    pdfs: bool = True,
    deferred_tools: bool | None = None,
) -> Model:
    """A model with a window of 200,000 tokens that is told how long it may think, if at all."""
    return Model(
        id=model_id,
        name=name,
        family=family,
        context_window=200_000,
        max_output=max_output,
        default_output=min(max_output, 32_000),
        thinking=thinking,
        effort=effort,
        prefill=True,
        system_in_messages=False,
        images=True,
        pdfs=pdfs,
        deferred_tools=deferred_tools,
        binds_thinking=False,
        betas=betas,
        million_beta=million_beta,
        prices=(price,),
    )


OPUS_5 = rates("5", "25")
OPUS_4 = rates("15", "75")
SONNET = rates("3", "15")
SONNET_LONG = rates("6", "22.5")
FABLE_5 = rates("10", "50")
FABLE_5_1 = rates("10", "50", read="0.25")

MODELS: tuple[Model, ...] = (
    _current(
        "claude-fable-5-2",
        "Fable 5.2",
        _price(rates("8", "40", read="0.2")),
        thinking=ALWAYS_THINKS,
    ),
    _current("claude-mythos-5-2", "Mythos 5.2", thinking=ALWAYS_THINKS),
    _current(
        "claude-haiku-5-5",
        "Haiku 5.5",
        _price(rates("0.1", "0.5"), long_above=100_000, long=rates("0.5", "2.5")),
    ),
    _current(
        "claude-sonnet-5-5",
        "Sonnet 5.5",
        _price(rates("2", "10", read="0.2")),
        _price(rates("2", "10", read="0.1"), since="2026-10-07"),
        thinking=BETWEEN,
    ),
    _current(
        "claude-opus-5-5",
        "Opus 5.5",
        _price(rates("4", "20", read="0.2"), fast="2"),
        thinking=ALWAYS_THINKS,
    ),
    _current("claude-fable-5-1", "Fable 5.1", _price(FABLE_5_1), thinking=ALWAYS_THINKS),
    _current("claude-mythos-5-1", "Mythos 5.1", _price(FABLE_5_1), thinking=ALWAYS_THINKS),
    _current("claude-opus-5", "Opus 5", _price(OPUS_5, fast="2")),
    _current("claude-sonnet-5", "Sonnet 5", _price(rates("2", "10")), system_in_messages=False),
    _current("claude-fable-5", "Fable 5", _price(FABLE_5), thinking=ALWAYS_THINKS),
    _current("claude-mythos-5", "Mythos 5", _price(FABLE_5), thinking=ALWAYS_THINKS),
    _current("claude-opus-4-8", "Opus 4.8", _price(OPUS_5)),
    _current(
        "claude-mythos-preview",
        "Mythos Preview",
        thinking=ALWAYS_THINKS,
        effort=TO_MAX,
        system_in_messages=False,
    ),
    _current("claude-opus-4-7", "Opus 4.7", _price(OPUS_5), system_in_messages=False),
    _current(
        "claude-opus-4-6",
        "Opus 4.6",
        _price(OPUS_5),
        thinking=BOTH,
        effort=TO_MAX,
        system_in_messages=False,
    ),
    _current(
        "claude-sonnet-4-6",
        "Sonnet 4.6",
        _price(SONNET),
        thinking=BOTH,
        effort=TO_MAX,
        system_in_messages=False,
        max_output=64_000,
    ),
    _earlier(
        "claude-opus-4-5",
        "Opus 4.5",
        "opus",
        _price(OPUS_5),
        max_output=64_000,
        effort=TO_HIGH,
        betas=(INTERLEAVED, CONTEXT_MANAGEMENT),
        deferred_tools=True,
    ),
    _earlier(
        "claude-haiku-4-5",
        "Haiku 4.5",
        "haiku",
        _price(rates("1", "5")),
        max_output=64_000,
        betas=(INTERLEAVED, CONTEXT_MANAGEMENT),
    ),
    _earlier(
        "claude-sonnet-4-5",
        "Sonnet 4.5",
        "sonnet",
        _price(SONNET, long_above=200_000, long=SONNET_LONG),
        max_output=64_000,
        betas=(INTERLEAVED, CONTEXT_MANAGEMENT),
        deferred_tools=True,
        million_beta=MILLION_CONTEXT,
    ),
    _earlier("claude-opus-4-1", "Opus 4.1", "opus", _price(OPUS_4), max_output=32_000),
    _earlier("claude-opus-4", "Opus 4", "opus", _price(OPUS_4), max_output=32_000),
    _earlier(
        "claude-sonnet-4",
        "Sonnet 4",
        "sonnet",
        _price(SONNET, long_above=200_000, long=SONNET_LONG),
        max_output=64_000,
        million_beta=MILLION_CONTEXT,
    ),
    _earlier(
        "claude-3-7-sonnet", "Sonnet 3.7", "sonnet", _price(SONNET), max_output=64_000, betas=()
    ),
    _earlier(
        "claude-3-5-sonnet",
        "Sonnet 3.5",
        "sonnet",
        _price(SONNET),
        max_output=8_192,
        thinking=(),
        betas=(),
    ),
    _earlier(
        "claude-3-5-haiku",
        "Haiku 3.5",
        "haiku",
        _price(rates("0.8", "4")),
        max_output=8_192,
        thinking=(),
        betas=(),
    ),
    _earlier(
        "claude-3-opus",
        "Opus 3",
        "opus",
        _price(OPUS_4),
        max_output=4_096,
        thinking=(),
        betas=(),
        pdfs=False,
    ),
    _earlier(
        "claude-3-haiku",
        "Haiku 3",
        "haiku",
        _price(rates("0.25", "1.25", write_5m="0.3", read="0.03")),
        max_output=4_096,
        thinking=(),
        betas=(),
        pdfs=False,
    ),
)

# The words people type; a request then names the model.
ALIASES: dict[str, str] = {
    "fable": "claude-fable-5-2",
    "opus": "claude-opus-5-5",
    "sonnet": "claude-sonnet-5-5",
    "haiku": "claude-haiku-5-5",
}

# Other ids the service itself takes for a model; a request keeps them as they are.
SPELLINGS: dict[str, str] = {
    "claude-opus-4-0": "claude-opus-4",
    "claude-sonnet-4-0": "claude-sonnet-4",
    "claude-4-opus": "claude-opus-4",
    "claude-4-sonnet": "claude-sonnet-4",
}
