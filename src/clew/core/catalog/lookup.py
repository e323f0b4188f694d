"""Find a model's entry by any of its names; `added` adds models from settings.

Owns the spelling of IDs on each platform. Must never guess: a name that only resembles a known one
is unknown, because a wrong context window loses a conversation and a wrong price misleads silently.

Decision: docs/decisions/081-cost-from-the-log.md
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec.structs import replace

from clew.core.catalog.models import (
    EffortLevel,
    Model,
    Price,
    Rates,
    ThinkingMode,
    make_rates,
    make_unknown_model,
    strip_version,
)
from clew.core.catalog.services import ROWS, ServiceRow, split_name
from clew.core.regex import lazy_pattern

if TYPE_CHECKING:
    from clew.core.catalog.known import KnownModels

# The models of the Messages API as of November 2026, one entry each, newest first.


ALWAYS = ""  # the price also applies to all earlier times

TO_HIGH: tuple[EffortLevel, ...] = ("low", "medium", "high")
TO_MAX: tuple[EffortLevel, ...] = ("low", "medium", "high", "max")
ALL_EFFORT: tuple[EffortLevel, ...] = ("low", "medium", "high", "xhigh", "max")

ALWAYS_THINKS: tuple[ThinkingMode, ...] = ("adaptive",)
BETWEEN: tuple[ThinkingMode, ...] = ("adaptive", "between_tools")
ADAPTIVE: tuple[ThinkingMode, ...] = ("adaptive", "disabled")
BOTH: tuple[ThinkingMode, ...] = ("adaptive", "enabled", "disabled")
BUDGET: tuple[ThinkingMode, ...] = ("enabled", "disabled")

# The models with preserved thinking, as the vendor's documentation lists them.
BINDING = frozenset({
    "claude-fable-5-2", "claude-mythos-5-2", "claude-haiku-5-5", "claude-sonnet-5-5",
    "claude-opus-5-5", "claude-fable-5-1", "claude-mythos-5-1",
})  # fmt: skip

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
    effort_without_thinking: EffortLevel | None = None,
    system_in_messages: bool = True,
    max_output: int = 128_000,
) -> Model:
    """Return an entry for a current model, with a 1M-token window and adaptive thinking."""
    return Model(
        id=model_id,
        name=name,
        family=model_id.split("-")[1],
        context_window=1_000_000,
        max_output=max_output,
        default_output=max_output,
        thinking=thinking,
        effort=effort,
        effort_without_thinking=effort_without_thinking,
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
    """Return an entry for an earlier model: a 200k-token window and, if it thinks, a budget."""
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


OPUS_5 = make_rates("5", "25")
OPUS_4 = make_rates("15", "75")
SONNET = make_rates("3", "15")
SONNET_LONG = make_rates("6", "22.5")
FABLE_5 = make_rates("10", "50")
FABLE_5_1 = make_rates("10", "50", read="0.25")

MODELS: tuple[Model, ...] = (
    _current(
        "claude-fable-5-2",
        "Fable 5.2",
        _price(make_rates("8", "40", read="0.2")),
        thinking=ALWAYS_THINKS,
    ),
    _current("claude-mythos-5-2", "Mythos 5.2", thinking=ALWAYS_THINKS),
    _current(
        "claude-haiku-5-5",
        "Haiku 5.5",
        _price(make_rates("0.1", "0.5"), long_above=100_000, long=make_rates("0.5", "2.5")),
    ),
    _current(
        "claude-sonnet-5-5",
        "Sonnet 5.5",
        _price(make_rates("2", "10", read="0.2")),
        _price(make_rates("2", "10", read="0.1"), since="2026-10-07"),
        thinking=BETWEEN,
    ),
    _current(
        "claude-opus-5-5",
        "Opus 5.5",
        _price(make_rates("4", "20", read="0.2"), fast="2"),
        thinking=ALWAYS_THINKS,
    ),
    _current("claude-fable-5-1", "Fable 5.1", _price(FABLE_5_1), thinking=ALWAYS_THINKS),
    _current("claude-mythos-5-1", "Mythos 5.1", _price(FABLE_5_1), thinking=ALWAYS_THINKS),
    _current("claude-opus-5", "Opus 5", _price(OPUS_5, fast="2"), effort_without_thinking="high"),
    _current(
        "claude-sonnet-5", "Sonnet 5", _price(make_rates("2", "10")), system_in_messages=False
    ),
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
        _price(make_rates("1", "5")),
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
        _price(make_rates("0.8", "4")),
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
        _price(make_rates("0.25", "1.25", write_5m="0.3", read="0.03")),
        max_output=4_096,
        thinking=(),
        betas=(),
        pdfs=False,
    ),
)

# The short names that users type; the request contains the model ID.
ALIASES: dict[str, str] = {
    "fable": "claude-fable-5-2",
    "opus": "claude-opus-5-5",
    "sonnet": "claude-sonnet-5-5",
    "haiku": "claude-haiku-5-5",
}

# Other IDs that the service accepts for a model; a request keeps them unchanged.
SPELLINGS: dict[str, str] = {
    "claude-opus-4-0": "claude-opus-4",
    "claude-sonnet-4-0": "claude-sonnet-4",
    "claude-4-opus": "claude-opus-4",
    "claude-4-sonnet": "claude-sonnet-4",
}


MILLION_SUFFIX = "[1m]"
MILLION_TOKENS = 1_000_000

# us.anthropic.claude-x-20250101-v1:0 (Bedrock), claude-x@20250101 (Vertex), claude-x-latest.
_PREFIX = lazy_pattern(r"^(?:[a-z-]+\.)?anthropic\.")


def plain_id(name: str) -> str:
    """Return a model ID without the parts that a platform or a date adds."""
    last = name.strip().rpartition("/")[2].lower()
    return strip_version(_PREFIX.sub("", last))


class ModelCatalog:
    """A set of model entries with their aliases, changed only by `learn`.

    A name may begin with a service (`openai/gpt-6-sol`). `home` is the service of names without a
    prefix; it is empty for Anthropic and for an address from environment variables.
    """

    def __init__(
        self,
        models: Iterable[Model],
        aliases: Mapping[str, str],
        *,
        services: Mapping[str, ServiceRow] = ROWS,
        home: str = "",
        updates: str = "",
    ) -> None:
        self._models = {model.id: model for model in models}
        self._aliases = {alias.lower(): model_id for alias, model_id in aliases.items()}
        self._services = services
        self._home = home
        self._updates = updates

    @cached_property
    def known(self) -> "KnownModels":
        """The generated table of other services' models, with its updates."""
        from clew.core.catalog.known import with_updates  # Most sessions use Anthropic's models.

        return with_updates(self._updates)

    @property
    def models(self) -> tuple[Model, ...]:
        """All models."""
        return tuple(self._models.values())

    @property
    def aliases(self) -> Mapping[str, str]:
        """The IDs of models by alias."""
        return dict(self._aliases)

    @property
    def services(self) -> Mapping[str, ServiceRow]:
        """The services that may be prefixes of model names."""
        return self._services

    def at(
        self, services: Mapping[str, ServiceRow], home: str, updates: str = ""
    ) -> "ModelCatalog":
        """Return a copy of the catalog with other services and another `home`.

        `updates` contains newer lines for the table of known models.
        """
        return ModelCatalog(
            self._models.values(), self._aliases, services=services, home=home, updates=updates
        )

    def learn(self, model: Model) -> None:
        """Add an entry, such as one with the properties that a local server reports."""
        self._models[model.id] = model

    def split(self, name: str) -> tuple[str, str]:
        """Return the service in a full name, or an empty string, and the model's ID there."""
        return split_name(name, self._services)

    def locate(self, name: str) -> tuple[str, str]:
        """Return the service that serves a model, and the model's ID there.

        If the model's full name has no service, return `anthropic`, or an empty string if `home` is
        empty too.
        """
        full_name = self.entry(name).id
        service, model = self.split(full_name)
        return (service, model) if service else ("anthropic" if self._home else "", full_name)

    def find(self, name: str) -> Model | None:
        """Return the entry for `name`, or None if unknown; the entry's `id` is its full name."""
        wanted, million = _without_million(name.strip())
        entry = self._find_plain(wanted)
        return _widened(entry) if entry is not None and million else entry

    def entry(self, name: str) -> Model:
        """Return the entry for `name`; for an unknown name, return an entry without any facts."""
        return self.find(name) or make_unknown_model(
            self._qualify(_without_million(name.strip())[0])
        )

    def _qualify(self, name: str) -> str:
        is_bare = bool(self._home) and not self.split(name)[0]
        return f"{self._home}/{name}" if is_bare else name

    def _find_plain(self, name: str) -> Model | None:
        meant = self._aliases.get(name.lower())
        service, rest = self.split(name)
        if service:
            return self._find_served(service, rest)
        if self._home and (meant is None or self._services[self._home].serves_claude):
            served = self._find_served(self._home, name)
            if served is not None:
                return served
        if meant is not None:
            return self._models.get(meant)
        entry = self._by_id(name)
        # A dated or platform ID pins a version, so send exactly this ID.
        return None if entry is None else replace(entry, id=name)

    def _find_served(self, service: str, name: str) -> Model | None:
        """Return the entry of a service's model under its full name, or None."""
        row = self._services[service]
        kind = row.kind or row.name
        meant = self._aliases.get(name.lower(), "")
        if kind == "anthropic" and service == kind:
            # The names of Anthropic's models need no prefix.
            entry = self._models.get(meant) or self._by_id(name)
            return None if entry is None else replace(entry, id=meant or name)
        if meant.startswith("claude-") and row.serves_claude:
            name = row.name_claude(meant)
        full = f"{service}/{name}"
        if full in self._models:
            return self._models[full]
        table_entry = self.known.find(row.catalog_name, name)
        if table_entry is not None:
            return replace(table_entry, id=full)
        claude = self._by_id(name) if row.serves_claude else None
        return None if claude is None else replace(claude, id=full)

    def _by_id(self, name: str) -> Model | None:
        plain = plain_id(name)
        return self._models.get(name) or self._models.get(SPELLINGS.get(plain, plain))


def _without_million(name: str) -> tuple[str, bool]:
    if name.lower().endswith(MILLION_SUFFIX):
        return name[: -len(MILLION_SUFFIX)], True
    return name, False


def _widened(entry: Model) -> Model:
    """Return the entry with the 1M-token window if a beta provides it."""
    if entry.million_beta is None:
        return entry
    return replace(entry, context_window=MILLION_TOKENS, betas=(*entry.betas, entry.million_beta))


CATALOG = ModelCatalog(MODELS, ALIASES)
