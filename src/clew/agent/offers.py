"""The models that are available now: those of services with a key, and of local servers.

Each service is asked for its list of models, which costs nothing. If a service does not answer,
clew's catalog of its models is used instead.
"""

import asyncio
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from clew.agent.services import Service
from clew.core.catalog.lookup import ALIASES
from clew.core.catalog.models import Model
from clew.core.catalog.services import ServiceRow
from clew.providers.local import find_local_servers, list_usual_servers
from clew.providers.model_lists import ListedModel, list_offered
from clew.system.clock import get_timestamp

NamedModels: TypeAlias = tuple[tuple[str, Model], ...]

# How many models of a local server are queried for their properties.
MOST_ASKED = 8


class ServiceOffer(Struct, frozen=True, kw_only=True):
    """The models of one service, by the full name that selects each."""

    service: str
    title: str
    models: NamedModels
    # How many of the service's models are not in the catalog.
    unknown: int = 0
    # Whether the service itself listed the models.
    is_listed: bool = True


async def list_offers(service: Service, ollama_host: str | None = None) -> list[ServiceOffer]:
    """Return the offer of each usable service, in table order."""
    if service.keys is None:
        return []
    rows = [row for row in service.catalog.services.values() if not row.is_local]
    keyed = [row for row in rows if row.name != "anthropic" and service.can_ask(f"{row.name}/x")]
    offers = [offer for offer in [_offer_claude(service)] if offer is not None]
    service_offers, local = await asyncio.gather(
        asyncio.gather(*(_offer_row(service, row) for row in keyed)),
        _offer_local(service, ollama_host),
    )
    found = (*offers, *service_offers, *local)
    return [replace(offer, models=_keep_allowed(service, offer.models)) for offer in found]


def _keep_allowed(service: Service, models: NamedModels) -> NamedModels:
    return tuple((name, model) for name, model in models if not service.describe_refusal(name))


def _offer_claude(service: Service) -> ServiceOffer | None:
    """Return the models that have an alias, or None if there are none.

    Their names have no service prefix.
    """
    catalog, endpoint = service.catalog, service.provider.first.endpoint
    aliases = [(alias, catalog.entry(alias)) for alias in sorted(catalog.aliases)]
    models = [(alias, model) for alias, model in aliases if service.can_ask(alias)]
    if not endpoint.speaks_messages:
        # Such an address can only have models from the settings.
        models = [(a, model) for a, model in models if a not in ALIASES]
    title = "Anthropic" if endpoint.is_default else endpoint.shown
    plain = [(alias, model) for alias, model in models if not catalog.split(model.id)[0]]
    return ServiceOffer(service="", title=title, models=tuple(plain)) if plain else None


async def _offer_row(service: Service, row: ServiceRow) -> ServiceOffer:
    endpoint = service.provider.endpoint_for(f"{row.name}/x")
    listed = await list_offered(endpoint, service.provider.transport)
    names = service.catalog.known.names(row.catalog_name)
    offered = [ListedModel(id=name) for name in names] if listed is None else listed
    today = get_timestamp()
    pairs = [(item, service.catalog.find(f"{row.name}/{item.id}")) for item in offered]
    usable = [
        (item, model)
        for item, model in pairs
        if model is not None and model.tools is not False and not "" < model.retired < today
    ]
    if not names:
        # The catalog has no models of this service, so all of them are listed.
        usable = [
            (item, model or service.catalog.entry(f"{row.name}/{item.id}")) for item, model in pairs
        ]
    models = [
        (
            f"{row.name}/{item.id}",
            replace(model, context_window=model.context_window or item.window),
        )
        for item, model in usable
    ]
    first = f"{row.name}/{row.model}"
    models.sort(key=lambda pair: (pair[0] != first, pair[0]))
    return ServiceOffer(
        service=row.name,
        title=row.title,
        models=tuple(models),
        unknown=len(pairs) - len(usable),
        is_listed=listed is not None,
    )


async def _offer_local(service: Service, ollama_host: str | None) -> list[ServiceOffer]:
    offers = []
    for server in await find_local_servers(list_usual_servers(ollama_host)):
        row = service.catalog.services.get(server.service)
        if row is None:
            continue
        names = [f"{row.name}/{model}" for model in server.models]
        entries = await asyncio.gather(*(service.prepare(name) for name in names[:MOST_ASKED]))
        entries += [service.catalog.entry(name) for name in names[MOST_ASKED:]]
        pairs = tuple(zip(names, entries, strict=True))
        offers.append(ServiceOffer(service=row.name, title=row.title, models=pairs))
    return offers
