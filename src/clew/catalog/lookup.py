"""Finds a model's entry by any of the names it goes by, and takes in the ones a person adds.

Owns how ids are spelt on each platform. Must never guess: a name that only resembles a known one is
unknown, because a wrong window loses a conversation and a wrong price misleads quietly.
"""

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from clew.catalog.models import EffortLevel, Model, ThinkingMode, unknown_model
from clew.catalog.prices import Price, rates
from clew.catalog.table import ALIASES, MODELS, SPELLINGS

MILLION_SUFFIX = "[1m]"
MILLION_TOKENS = 1_000_000

# us.anthropic.claude-x-20250101-v1:0 (Bedrock), claude-x@20250101 (Vertex), claude-x-latest.
_PREFIX = re.compile(r"^(?:[a-z-]+\.)?anthropic\.")
_SUFFIX = re.compile(r"(?:@\w+|-v\d+(?::\d+)?|-latest|-\d{8})+$")


def plain_id(name: str) -> str:
    """A model's id without what a platform or a date adds to it."""
    last = name.strip().rpartition("/")[2].lower()
    return _SUFFIX.sub("", _PREFIX.sub("", last))


class Catalog:
    """Entries by name; never changes."""

    def __init__(self, models: Iterable[Model], aliases: Mapping[str, str]) -> None:
        self._models = {model.id: model for model in models}
        self._aliases = {alias.lower(): model_id for alias, model_id in aliases.items()}

    @property
    def models(self) -> tuple[Model, ...]:
        return tuple(self._models.values())

    @property
    def aliases(self) -> Mapping[str, str]:
        return dict(self._aliases)

    def find(self, name: str) -> Model | None:
        """The entry `name` means, its `id` being what to send; None if nobody knows it."""
        wanted, million = _without_million(name.strip())
        meant = self._aliases.get(wanted.lower())
        entry = self._by_id(wanted) if meant is None else self._models.get(meant)
        if entry is None:
            return None
        if meant is None:
            # Dates and platforms pin something: what was asked for is what is sent.
            entry = replace(entry, id=wanted)
        return _widened(entry) if million else entry

    def entry(self, name: str) -> Model:
        """Like `find`; an unknown name gets an entry that assumes nothing."""
        return self.find(name) or unknown_model(_without_million(name.strip())[0])

    def _by_id(self, name: str) -> Model | None:
        plain = plain_id(name)
        return self._models.get(name) or self._models.get(SPELLINGS.get(plain, plain))

    def with_models(self, settings: Mapping[str, Any]) -> "tuple[Catalog, list[str]]":
        """This catalog and a person's own models over it, and what was wrong with any of them.

        `settings` maps an id to its facts, see `UserModel`. An entry that cannot be read is left
        out and named; the others stand.
        """
        models = dict(self._models)
        aliases = dict(self._aliases)
        problems: list[str] = []
        for model_id, facts in settings.items():
            try:
                given = msgspec.convert(facts, UserModel, strict=False)
                models[model_id] = self._described(model_id, given)
            except (msgspec.ValidationError, InvalidOperation, UnknownBaseError) as error:
                why = "a price is not a number" if isinstance(error, InvalidOperation) else error
                problems.append(f"models.{model_id}: {why}")
                continue
            aliases |= dict.fromkeys((alias.lower() for alias in given.aliases), model_id)
        return Catalog(models.values(), aliases), problems

    def _described(self, model_id: str, given: "UserModel") -> Model:
        base = unknown_model(model_id)
        if given.like is not None:
            like = self.find(given.like)
            if like is None:
                raise UnknownBaseError(f"like: {given.like!r} is no model that is known")
            base = replace(like, id=model_id, name=model_id)
        said = {
            field: value
            for field in UserModel.__struct_fields__
            if field not in ("like", "aliases", "price")
            and (value := getattr(given, field)) is not None
        }
        if given.price is not None:
            said["prices"] = (_price(given.price),)
        return replace(base, **said)


class UnknownBaseError(ValueError):
    """A person's entry builds on a model that is not there."""


class UserPrice(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """US dollars per million tokens, as a person writes them."""

    input: float | str
    output: float | str
    cache_write_5m: float | str | None = msgspec.field(default=None, name="cacheWrite5m")
    cache_write_1h: float | str | None = msgspec.field(default=None, name="cacheWrite1h")
    cache_read: float | str | None = None


class UserModel(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What a person may say of a model in their settings; whatever is left out stays unknown."""

    like: str | None = None
    name: str | None = None
    aliases: tuple[str, ...] = ()
    context_window: int | None = None
    max_output: int | None = None
    default_output: int | None = None
    thinking: tuple[ThinkingMode, ...] | None = None
    effort: tuple[EffortLevel, ...] | None = None
    prefill: bool | None = None
    system_in_messages: bool | None = None
    images: bool | None = None
    pdfs: bool | None = None
    betas: tuple[str, ...] | None = None
    price: UserPrice | None = None


def _price(given: UserPrice) -> Price:
    def text(amount: float | str | None) -> str | None:
        if amount is None:
            return None
        if not Decimal(str(amount)).is_finite() or Decimal(str(amount)) < 0:
            raise InvalidOperation
        return str(amount)

    return Price(
        since="",
        rates=rates(
            text(given.input) or "",
            text(given.output) or "",
            write_5m=text(given.cache_write_5m),
            write_1h=text(given.cache_write_1h),
            read=text(given.cache_read),
        ),
    )


def _without_million(name: str) -> tuple[str, bool]:
    if name.lower().endswith(MILLION_SUFFIX):
        return name[: -len(MILLION_SUFFIX)], True
    return name, False


def _widened(entry: Model) -> Model:
    """The entry with the large window, where a beta gives it one."""
    if entry.million_beta is None:
        return entry
    return replace(entry, context_window=MILLION_TOKENS, betas=(*entry.betas, entry.million_beta))


CATALOG = Catalog(MODELS, ALIASES)
