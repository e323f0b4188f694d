"""What every request of a session says: its model, its instructions, its tools."""

from typing import Any, TypeAlias

from msgspec.structs import replace

from clew.catalog.lookup import Catalog
from clew.catalog.models import Model
from clew.config.environment import Environment
from clew.context.output_styles import BUILTIN, Style
from clew.context.system_prompt import system_prompt
from clew.normalize.target import Target
from clew.options import Options
from clew.providers.base import Request
from clew.providers.endpoint import Endpoint

Json: TypeAlias = dict[str, Any]

DEFAULT_MODEL = "sonnet"


def chosen_model(
    options: Options,
    environment: Environment,
    settings: Json,
    catalog: Catalog,
    spoke: str | None = None,
) -> Model:
    """The model of this run; `spoke` is the one that a session which goes on spoke with."""
    wanted = options.model or spoke or environment.text("model") or settings.get("model")
    return catalog.entry(wanted or DEFAULT_MODEL)


def template(
    options: Options,
    model: Model,
    definitions: list[Json],
    session_id: str,
    style: Style = BUILTIN[0],
    language: str = "",
) -> Request:
    """A request without its messages: the same for every turn, and for the next run's."""
    return Request(
        model=model.id,
        messages=[],
        system=system_prompt(
            model.id,
            [tool["name"] for tool in definitions],
            instead=options.system_prompt,
            extra=options.append_system_prompt,
            style=style.text,
            keeps_work=style.keeps_work,
            language=language,
        ),
        tools=definitions,
        thinking=options.thinking,
        effort=options.effort,
        betas=options.betas,
        task_budget_tokens=options.task_budget,
        session_id=session_id,
    )


def binds_thinking(catalog: Catalog, name: str) -> bool:
    """Whether the model of this name binds its thoughts to what stands before them."""
    found = catalog.find(name)
    return found is not None and found.binds_thinking is True


def target_of(model: Model, endpoint: Endpoint) -> Target:
    """What the model's requests may hold, at this endpoint."""
    target = replace(Target.of(model), api_version=endpoint.api_version)
    if endpoint.speaks_chat:
        from clew.normalize.openai import for_chat  # most sessions speak the Messages API

        return for_chat(target)
    return replace(
        target,
        deferred_tools=target.deferred_tools and endpoint.betas_allowed,
        binding_control=target.binding_control and endpoint.betas_allowed,
    )
