"""Who answers a session: the endpoint with its key, the way there, the models, and how patient clew is."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any, TypeAlias
from uuid import uuid4

from msgspec import Struct

from clew.catalog.lookup import Catalog, known_models
from clew.config.environment import Environment
from clew.config.paths import Places
from clew.process.spawn import Launcher
from clew.providers.answer import Answering, Gate
from clew.providers.anthropic import MAX_STREAM_BYTES, AnthropicProvider
from clew.providers.credentials import endpoint_with_key, memory_in
from clew.providers.endpoint import Endpoint
from clew.providers.message_threads import Threads
from clew.providers.preferences import Preferences, preferences_from, wants_threads
from clew.providers.watchdog import Limits, limits_from
from clew.transport.choose import transport_for
from clew.transport.network import network_from

Json: TypeAlias = dict[str, Any]


class Service(Struct, frozen=True, kw_only=True):
    """What every request of a session goes to, and what was asked of all of them."""

    provider: AnthropicProvider
    catalog: Catalog
    preferences: Preferences
    limits: Limits
    gate: Gate
    # What of the settings could not be read.
    problems: tuple[str, ...] = ()

    def answering(self, fallbacks: tuple[str, ...] = (), *, with_events: bool = False) -> Answering:
        """The way to one answer."""
        return Answering(
            self.provider,
            new_tool_id=lambda: f"toolu_{uuid4().hex}",
            policy=self.preferences.policy,
            limits=self.limits,
            fallbacks=fallbacks,
            catalog=self.catalog,
            gate=self.gate,
            with_events=with_events,
        )


def speaker(endpoint: Endpoint) -> type[AnthropicProvider]:
    """Who speaks what is spoken there."""
    if not endpoint.speaks_chat:
        return AnthropicProvider
    from clew.providers.chat import ChatProvider

    return ChatProvider


async def open_service(
    environ: Mapping[str, str],
    environment: Environment,
    settings: Json,
    places: Places,
    launcher: Launcher,
    opened: AsyncExitStack,
) -> Service:
    """Its connections are closed with `opened`; TLS is begun at once."""
    catalog, problems = known_models(settings)
    endpoint = await endpoint_with_key(environ, settings, places, launcher)
    transport = transport_for(network_from(environment))
    opened.push_async_callback(transport.aclose)
    provider = speaker(endpoint)(endpoint, transport, catalog=catalog)
    provider.max_stream_bytes = environment.number("max_answer_bytes") or MAX_STREAM_BYTES
    memory = memory_in(places)
    provider.remember_version, provider.remember_refusal = memory.learn, memory.learn_refusal
    if wants_threads(environment, settings):
        provider.threads = Threads()
    provider.warm()
    preferences = preferences_from(environment, settings)
    return Service(
        provider=provider,
        catalog=catalog,
        preferences=preferences,
        limits=limits_from(environment),
        gate=Gate(),
        problems=(*problems, *preferences.problems),
    )
