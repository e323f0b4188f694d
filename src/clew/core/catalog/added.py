"""Add the models that the user describes in settings to a catalog.

An entry with an invalid field is not added at all.
"""

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from clew.core.catalog.lookup import CATALOG, ModelCatalog
from clew.core.catalog.models import (
    EffortLevel,
    Model,
    Price,
    ThinkingMode,
    make_rates,
    make_unknown_model,
)


def load_models(settings: Mapping[str, Any]) -> tuple[ModelCatalog, tuple[str, ...]]:
    """Return the catalog including the models from settings, and the problems found."""
    described = settings.get("models")
    if not isinstance(described, dict) or not described:
        return CATALOG, ()
    catalog, problems = with_models(CATALOG, described)
    return catalog, tuple(problems)


def with_models(
    catalog: ModelCatalog, settings: Mapping[str, Any]
) -> tuple[ModelCatalog, list[str]]:
    """Return the catalog extended with the user's models, and a list of problems.

    `settings` maps each model ID to its facts (see `UserModel`). An invalid entry is reported and
    skipped; the others still apply.
    """
    models = {model.id: model for model in catalog.models}
    aliases = dict(catalog.aliases)
    problems: list[str] = []
    for model_id, facts in settings.items():
        try:
            user_model = msgspec.convert(facts, UserModel, strict=False)
            models[model_id] = _described(catalog, model_id, user_model)
        except (msgspec.ValidationError, InvalidOperation, UnknownBaseError) as error:
            why = (
                "price: must contain only non-negative numbers"
                if isinstance(error, InvalidOperation)
                else error
            )
            problems.append(f"models.{model_id}: {why}")
            continue
        aliases |= dict.fromkeys((alias.lower() for alias in user_model.aliases), model_id)
    return ModelCatalog(models.values(), aliases), problems


def _described(catalog: ModelCatalog, model_id: str, user_model: "UserModel") -> Model:
    base = make_unknown_model(model_id)
    if user_model.like is not None:
        like = catalog.find(user_model.like)
        if like is None:
            raise UnknownBaseError(f'like: unknown model "{user_model.like}"')
        base = replace(like, id=model_id, name=model_id)
    fields = {
        field: value
        for field in UserModel.__struct_fields__
        if field not in ("like", "aliases", "price")
        and (value := getattr(user_model, field)) is not None
    }
    if user_model.price is not None:
        fields["prices"] = (_price(user_model.price),)
    return replace(base, **fields)


class UnknownBaseError(ValueError):
    """The `like` of a user's model entry names an unknown model."""


class UserPrice(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A price in settings, in US dollars per million tokens."""

    input: float | str
    output: float | str
    cache_write_5m: float | str | None = msgspec.field(default=None, name="cacheWrite5m")
    cache_write_1h: float | str | None = msgspec.field(default=None, name="cacheWrite1h")
    cache_read: float | str | None = None


class UserModel(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A model as described in settings; an omitted fact stays unknown."""

    like: str | None = None
    name: str | None = None
    aliases: tuple[str, ...] = ()
    context_window: int | None = None
    max_output: int | None = None
    default_output: int | None = None
    thinking: tuple[ThinkingMode, ...] | None = None
    effort: tuple[EffortLevel, ...] | None = None
    cache_seconds: float | None = None
    prefill: bool | None = None
    system_in_messages: bool | None = None
    images: bool | None = None
    pdfs: bool | None = None
    tools: bool | None = None
    betas: tuple[str, ...] | None = None
    price: UserPrice | None = None


def _price(user_price: UserPrice) -> Price:
    def text(amount: float | str | None) -> str | None:
        if amount is None:
            return None
        if not Decimal(str(amount)).is_finite() or Decimal(str(amount)) < 0:
            raise InvalidOperation
        return str(amount)

    return Price(
        since="",
        rates=make_rates(
            text(user_price.input) or "",
            text(user_price.output) or "",
            write_5m=text(user_price.cache_write_5m),
            write_1h=text(user_price.cache_write_1h),
            read=text(user_price.cache_read),
        ),
    )
