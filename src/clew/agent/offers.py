"""What can be asked now: the models of services with a key, and of servers on this machine.

A service is asked for its list of models, which is free. If it does not answer, clew's own catalog
of its models takes its place.
"""

import asyncio

from msgspec import Struct
from msgspec.structs import replace

from clew.agent.services import Service
from clew.core.catalog.lookup import ALIASES
from clew.core.catalog.models import Model
from clew.core.catalog.services import ServiceRow
from clew.providers.local import find_local_servers, list_usual_servers
from clew.providers.model_lists import ListedModel, list_offered
from clew.system.clock import get_timestamp

# The models of one server on this machine that are asked what they can do.
MOST_ASKED = 8


class ServiceOffer(Struct, frozen=True, kw_only=True):
    """The models of one service, by the name under which clew uses each."""

    service: str
    title: str
    models: tuple[tuple[str, Model], ...]
    # How many models the service offers that the catalog does not know.
    unknown: int = 0
    # Whether the service itself listed the models.
    is_listed: bool = True


async def list_offers(service: Service, ollama_host: str | None = None) -> list[ServiceOffer]:
    """Return what each usable service offers, in the order of the table."""
    if service.keys is None:
        return []
    rows = [row for row in service.catalog.services.values() if not row.is_local]
    keyed = [row for row in rows if row.name != "anthropic" and service.can_ask(f"{row.name}/x")]
    offers = [offer for offer in [_offer_claude(service)] if offer is not None]
    asked, local = await asyncio.gather(
        asyncio.gather(*(_offer_row(service, row) for row in keyed)),
        _offer_local(service, ollama_host),
    )
    return [*offers, *asked, *local]


def _offer_claude(service: Service) -> ServiceOffer | None:
    """Return the models with an alias, which need no name of a service."""
    catalog, endpoint = service.catalog, service.provider.first.endpoint
    named = [(alias, catalog.entry(alias)) for alias in sorted(catalog.aliases)]
    models = [(alias, model) for alias, model in named if service.can_ask(alias)]
    if not endpoint.speaks_messages:
        # Only models from the settings can be at such an address.
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
    found = [(one, service.catalog.find(f"{row.name}/{one.id}")) for one in offered]
    known = [
        (one, model)
        for one, model in found
        if model is not None and model.tools is not False and not "" < model.retired < today
    ]
    if not names:
        # Nothing is known about this service's models, so all of them count.
        known = [
            (one, model or service.catalog.entry(f"{row.name}/{one.id}")) for one, model in found
        ]
    models = [
        (f"{row.name}/{one.id}", replace(model, context_window=model.context_window or one.window))
        for one, model in known
    ]
    first = f"{row.name}/{row.model}"
    models.sort(key=lambda pair: (pair[0] != first, pair[0]))
    return ServiceOffer(
        service=row.name,
        title=row.title,
        models=tuple(models),
        unknown=len(found) - len(known),
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
