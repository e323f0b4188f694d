"""Open the services of a session: the main service at the start, the others on first use.

The environment variables for a single service (`CLEW_BASE_URL`, `CLEW_DIALECT`,
`CLAUDE_CODE_USE_BEDROCK` and others) select the main service. Without them, it is the first service
in the table that has a key, or else a server on this machine. This module makes no decisions about
requests.

Decision: docs/decisions/332-services.md
"""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from http import HTTPStatus
from uuid import uuid4

from msgspec import Struct
from msgspec.structs import replace

from clew.agent.requests import estimate_input_tokens
from clew.core.catalog.limits import ModelLimits
from clew.core.catalog.lookup import CATALOG, ModelCatalog
from clew.core.catalog.models import Model
from clew.core.catalog.services import CUSTOM, ROWS, ServiceRow, find_keyed_row, read_services
from clew.core.json_object import Json
from clew.core.ledger.spending import tokens_of
from clew.core.messages.errors import UserError
from clew.core.normalize.target import Target
from clew.providers.answer import Answering, Gate
from clew.providers.anthropic import MAX_STREAM_BYTES, AnthropicProvider
from clew.providers.base import Cap, Failure, ModelRequest, ProviderFunction
from clew.providers.credentials import (
    make_endpoint,
    open_memory,
    run_helper,
    with_diagnostics,
    with_version,
)
from clew.providers.endpoint import Endpoint
from clew.providers.failure_kinds import is_missing_model, is_unauthenticated
from clew.providers.message_threads import Threads
from clew.providers.opening import (
    CLOUDS,
    RowKeys,
    find_provider_class,
    is_usable,
    make_row_endpoint,
)
from clew.providers.preferences import Preferences, read_preferences, wants_threads
from clew.providers.router import Router, ServedCatalog
from clew.providers.watchdog import SilenceLimits, read_limits
from clew.system.config.environment import Environment
from clew.system.config.paths import Places
from clew.system.config.settings import read_object
from clew.system.process.spawn import Launcher
from clew.system.transport.http import HttpTransport
from clew.system.transport.network import read_network
from clew.system.transport.seam import Transport

# The service that each of the variables `CLAUDE_CODE_USE_...` selects.
PLATFORMS = {"bedrock": "bedrock-runtime", "vertex": "vertex", "foundry": "foundry"}
SMALL_MODEL = "haiku"
DEFAULT_MODEL = "sonnet"
LOGIN = "run `clew login` or set ANTHROPIC_API_KEY"
MODEL_ADVICE = "Choose another model with /model or --model; `clew models` lists them."
MODEL_OTHERWISE = "Otherwise, choose another model with /model or --model."
# The names of the protocols in advice for the user.
APIS = {
    "messages": "the Messages API",
    "chat": "chat completions",
    "responses": "OpenAI's Responses API",
    "gemini": "Gemini's API",
}


class Service(Struct, frozen=True, kw_only=True):
    """The services of a session, with the preferences for its requests."""

    provider: Router
    catalog: ModelCatalog
    preferences: Preferences
    limits: SilenceLimits
    gate: Gate
    # The default models; the model for small tasks depends on the service.
    default_model: str = DEFAULT_MODEL
    keys: RowKeys | None = None
    environ: Mapping[str, str] = {}
    model_limits: ModelLimits = ModelLimits()
    # Problems in the settings.
    problems: tuple[str, ...] = ()

    def answering(
        self,
        fallbacks: tuple[str, ...] = (),
        *,
        with_events: bool = False,
        cap: Cap | None = None,
    ) -> Answering:
        """Return a driver for one response."""
        return Answering(
            self.provider,
            new_tool_id=lambda: f"toolu_{uuid4().hex}",
            policy=self.preferences.policy,
            limits=self.limits,
            fallbacks=tuple(name for name in fallbacks if not self.describe_refusal(name)),
            catalog=self.catalog,
            gate=self.gate,
            with_events=with_events,
            cap=cap,
            describe_refusal=partial(self.describe_refusal, is_small=True),
        )

    def describe_refusal(self, name: str, *, is_small: bool = False) -> str:
        """Return why the settings do not allow a model, or an empty string.

        The default model does not have to be in the list of allowed models. With `is_small`, the
        same applies to the model for small tasks.
        """
        limits = self.model_limits
        exempt = [] if limits.binds_default else [self.default_model]
        if is_small:
            exempt.append(self.choose_small(self.default_model))
        return limits.describe_refusal(self.catalog, name, exempt=exempt)

    def can_ask(self, name: str) -> bool:
        """Return whether the credentials for a model's service are available."""
        service, _ = self.catalog.locate(name)
        if not service:
            return not self.provider.first.endpoint.lacks_credentials
        row = self.catalog.services[service]
        return self.keys is None or is_usable(row, self.environ, self.keys)

    async def prepare(self, name: str) -> Model:
        """Return a model's catalog entry; query a local server for the model's properties first."""
        service, model = self.catalog.locate(name)
        row = self.catalog.services.get(service)
        if row is None or not row.is_local:
            return self.catalog.entry(name)
        from clew.providers.local import find_wire
        from clew.providers.model_lists import ask_about

        endpoint, transport = self.provider.endpoint_for(name), self.provider.transport
        wire = await find_wire(transport, endpoint.base_url)
        if wire is not None and wire != endpoint.dialect:
            self.provider.reopen(replace(row, wire=wire))
        stated = await ask_about(row.kind or row.name, model, endpoint, transport)
        self.catalog.learn(replace(self.catalog.entry(name), **facts_of(stated)))
        return self.catalog.entry(name)

    def find_flaw(self, request: ModelRequest, message: Json) -> str:
        """Return a warning about what a service did with a request, or an empty string.

        The model may have refused tools, or a server on this machine may have cut the first
        request. Later requests are not checked for cuts, because servers count cached tokens
        in different ways.
        """
        if self.provider.without_tools:
            name = self.provider.without_tools.pop()
            return f"{name} does not support tool calls; clew now describes the tools in text"
        service, _ = self.catalog.locate(request.model)
        row = self.catalog.services.get(service)
        is_first = all(message["role"] != "assistant" for message in request.messages)
        if row is None or not row.is_local or not is_first:
            return ""
        from clew.providers.silent import describe_cut

        counted = tokens_of(message.get("usage")).prompt
        return describe_cut(
            counted, estimate_input_tokens(request), row.title, row.kind or row.name
        )

    def advise(self, failure: Failure, name: str) -> str:
        """Return what the user can do about a failed request to a model; empty if nothing is known."""
        endpoint = self.provider.endpoint_for(name)
        if is_unauthenticated(failure):
            row = self.catalog.services.get(endpoint.service)
            return f"Check the API key: {LOGIN if row is None else row.described_key}."
        if is_missing_model(failure):
            return MODEL_ADVICE
        if failure.kind == "no_server":
            row = self.catalog.services.get(endpoint.service)
            server = row.title if row is not None and row.is_local else "the server"
            return f"No server is running there. Start {server}. {MODEL_OTHERWISE}"
        is_elsewhere = failure.kind == "content" or failure.status == HTTPStatus.NOT_FOUND
        if endpoint.is_default or not is_elsewhere:
            return ""
        api = APIS[endpoint.dialect]
        return f"Check the base URL {endpoint.shown}: clew expects {api} there (see CLEW_DIALECT)."

    def choose_small(self, main: str) -> str:
        """Return the model for small tasks in a session with this main model.

        This is the main model itself if the service's models are unknown, or if the host program
        supplies the provider.
        """
        service, _ = self.catalog.split(main)
        if service:
            small = self.catalog.services[service].small_model
            return f"{service}/{small}" if small else main
        first = self.provider.first
        return main if first.is_function or not first.endpoint.speaks_messages else SMALL_MODEL


def facts_of(stated: Model) -> Json:
    """Return the properties that a server reported."""
    names = ("context_window", "images", "pdfs", "tools", "thinking")
    return {name: value for name in names if (value := getattr(stated, name)) is not None}


def target_of(model: Model, endpoint: Endpoint) -> Target:
    """Return the request target of a model at this endpoint."""
    target = replace(Target.of(model), api_version=endpoint.api_version)
    if not endpoint.speaks_messages:
        from clew.providers.wires import narrow_target  # Most sessions use the Messages API.

        return narrow_target(target, model, endpoint)
    return replace(
        target,
        deferred_tools=target.deferred_tools and endpoint.betas_allowed,
        binding_control=target.binding_control and endpoint.betas_allowed,
    )


def target_named(service: Service, name: str) -> Target:
    """Return the request target of the model with this name."""
    return target_of(service.catalog.entry(name), service.provider.endpoint_for(name))


def binds_thinking(catalog: ModelCatalog, name: str) -> bool:
    """Return whether the model binds its thinking to the preceding messages."""
    model = catalog.find(name)
    return model is not None and model.binds_thinking is True


class ServiceOpener:
    """Opens the services of one session over one transport."""

    def __init__(
        self,
        environ: Mapping[str, str],
        environment: Environment,
        settings: Json,
        places: Places,
        launcher: Launcher,
        transport: Transport,
    ) -> None:
        self.environ = environ
        self.environment = environment
        self.settings = settings
        self.places = places
        self.launcher = launcher
        self.transport = transport
        self.keys = RowKeys(environ, places)
        self.memory = open_memory(places)
        self.catalog = CATALOG

    def configured(self, provider: AnthropicProvider) -> AnthropicProvider:
        provider.max_stream_bytes = self.environment.number("max_answer_bytes") or MAX_STREAM_BYTES
        provider.remember_version = self.memory.learn
        provider.remember_refusal = self.memory.learn_refusal
        return provider

    def open_row(self, row: ServiceRow) -> AnthropicProvider:
        """Open a service in the table, and start connecting to it."""
        environ = self.environ
        if row.authentication == "aws":
            from clew.providers.clouds import with_region

            environ = with_region(environ)
        endpoint = make_row_endpoint(row, environ, self.keys.find(row))
        if endpoint.speaks_messages:
            endpoint = with_version(endpoint, self.settings, self.memory)
            endpoint = with_diagnostics(endpoint, self.settings, self.memory)
        if self.environment.switch("betas_disabled"):
            endpoint = replace(endpoint, betas_allowed=False)
        catalog = ServedCatalog(self.catalog, row.name)
        provider = find_provider_class(endpoint)(endpoint, self.transport, catalog=catalog)
        if row.key_helper:
            self.renew_by(provider, row.key_helper)
        elif row.authentication in CLOUDS and not endpoint.api_key:
            from clew.providers.clouds import authorize_in_cloud  # Most services need only a key.

            authorize_in_cloud(
                provider,
                row,
                environ,
                self.transport,
                self.launcher,
                self.places.root,
                self.settings,
            )
        provider = self.configured(provider)
        provider.warm()
        return provider

    def open_variables(self, endpoint: Endpoint, home: str) -> AnthropicProvider:
        """Open the service that the variables for a single service describe."""
        catalog = ServedCatalog(self.catalog, home) if home else self.catalog
        provider = find_provider_class(endpoint)(endpoint, self.transport, catalog=catalog)
        if endpoint.key_helper:
            self.renew_by(provider, endpoint.key_helper)
        provider = self.configured(provider)
        if wants_threads(self.environment, self.settings):
            provider.threads = Threads()
        provider.warm()
        return provider

    def renew_by(self, provider: AnthropicProvider, command: str) -> None:
        """Use a command to get the provider's key whenever a new one is needed."""
        from clew.providers.renewal import renew_key  # Most users have no helper.

        fetch = partial(run_helper, self.launcher, command, self.places.root, self.environ)
        renew_key(provider, fetch)


async def open_service(
    environ: Mapping[str, str],
    environment: Environment,
    settings: Json,
    places: Places,
    launcher: Launcher,
    opened: AsyncExitStack,
    function: ProviderFunction | None = None,
    *,
    wanted: str | None = None,
    model_limits: ModelLimits | None = None,
) -> Service:
    """Open the services; the TLS handshake starts at once.

    `opened` closes their connections later. A program's `function` replaces the services. `wanted`
    is the model that the user selected, if any.
    """
    catalog: ModelCatalog = CATALOG
    problems: tuple[str, ...] = ()
    if read_object(settings, "models"):  # Most users add no models.
        from clew.core.catalog.added import load_models

        catalog, problems = load_models(settings)
    transport = HttpTransport(read_network(environment))
    opened.push_async_callback(transport.aclose)
    preferences = read_preferences(environment, settings)
    opener = ServiceOpener(environ, environment, settings, places, launcher, transport)
    if function is not None:
        from clew.providers.function import FunctionProvider

        first: AnthropicProvider = FunctionProvider(function, transport, catalog=catalog)
        router, default = Router(opener.configured(first), catalog), DEFAULT_MODEL
    else:
        rows, faults = read_services(read_object(settings, "services"))
        problems = (*problems, *faults)
        router, catalog, default = await open_router(opener, catalog, rows, wanted)
    model_limits = model_limits or ModelLimits()
    permitted = model_limits.choose_default(catalog, default)
    if permitted is None:
        raise UserError(
            "the settings allow no model: availableModels and deniedModels exclude every known model"
        )
    return Service(
        provider=router,
        catalog=catalog,
        preferences=preferences,
        limits=read_limits(environment),
        gate=Gate(router.gate_key),
        default_model=permitted,
        model_limits=model_limits,
        keys=None if function is not None else opener.keys,
        environ=environ,
        problems=(*problems, *preferences.problems),
    )


def read_updates(places: Places) -> str:
    """Return the newer lines of the model table that `clew models update` saved."""
    try:
        return places.known_models.read_text("utf-8")
    except (OSError, ValueError):
        return ""


async def open_router(
    opener: ServiceOpener,
    catalog: ModelCatalog,
    rows: Mapping[str, ServiceRow],
    wanted: str | None,
) -> tuple[Router, ModelCatalog, str]:
    """Return the services, the catalog of their models, and the default model."""
    environ = opener.environ
    endpoint = await make_endpoint(environ, opener.settings, opener.places, opener.launcher)
    home = next((row for field, row in PLATFORMS.items() if opener.environment.switch(field)), "")
    is_of_row = not home and endpoint.service not in (CUSTOM, "", "anthropic")
    if is_of_row:
        home = endpoint.service
    elif not home and endpoint.lacks_credentials:
        row = find_keyed_row(rows, environ, opener.keys.has)
        home = "" if row is None else row.name
        if not home and not (wanted and catalog.split(wanted)[0]):
            local = await find_local_home(opener, rows, wanted)
            if local is not None:
                rows, home = {**rows, local.name: local}, local.name
    rows = without_keys_of(endpoint, rows)
    if endpoint.service == CUSTOM:
        # A gateway's model IDs may begin like service names, so these services need their own keys.
        rows = {n: r for n, r in rows.items() if n == home or n not in ROWS or opener.keys.has(r)}
    opener.catalog = catalog.at(rows, home, read_updates(opener.places))
    row_model = rows[home].model if home else ""
    if home and not is_of_row:
        first = opener.open_row(rows[home])
    else:
        first = opener.open_variables(endpoint, home)
    default = f"{home}/{row_model}" if row_model else DEFAULT_MODEL
    return Router(first, opener.catalog, opener.open_row, home), opener.catalog, default


def without_keys_of(endpoint: Endpoint, rows: Mapping[str, ServiceRow]) -> Mapping[str, ServiceRow]:
    """Return the services; Anthropic's row lacks the key variables that `endpoint` uses."""
    if endpoint.is_default:
        return rows
    own = rows["anthropic"]
    used = own.key_variables if endpoint.speaks_messages else ("CLEW_API_KEY",)
    left = tuple(name for name in own.key_variables if name not in used)
    return {**rows, "anthropic": replace(own, key_variables=left)}


async def find_local_home(
    opener: ServiceOpener, rows: Mapping[str, ServiceRow], wanted: str | None
) -> ServiceRow | None:
    """Return the row of a local server that has the model `wanted` (if None, any model)."""
    from clew.providers.local import find_local_servers, list_usual_servers

    for server in await find_local_servers(list_usual_servers(opener.environ.get("OLLAMA_HOST"))):
        model = wanted if wanted in server.models else next(iter(server.models), None)
        if model is not None and (wanted is None or model == wanted):
            row = rows[server.service]
            return replace(row, url=server.url, wire=server.wire, model=model, small_model=model)
    return None
