"""Chooses the service for a session's requests: endpoint, key, connection, models, timeouts."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import TypeAlias
from uuid import uuid4

from msgspec import Struct
from msgspec.structs import replace

from clew.agent.context.output_styles import BUILTIN, Style
from clew.agent.context.system_prompt import system_prompt
from clew.agent.deps import Granted, Question, Verdict
from clew.agent.hooks.run import SessionHooks
from clew.agent.options import Options
from clew.agent.requests import Requests
from clew.agent.side_question import SMALL, SideQuestions
from clew.core.catalog.lookup import CATALOG, ModelCatalog
from clew.core.catalog.models import Model
from clew.core.json_object import Json
from clew.core.ledger.state import ModelChosen
from clew.core.ledger.state import SessionTracker as Spending
from clew.core.messages.errors import UserError
from clew.core.normalize.target import Target
from clew.permissions.decision import Ask, Finding
from clew.providers.answer import Answering, Gate
from clew.providers.anthropic import MAX_STREAM_BYTES, AnthropicProvider
from clew.providers.base import Cap, Effort, ModelRequest, ProviderFunction, Thinking
from clew.providers.credentials import make_endpoint, open_memory, run_helper
from clew.providers.endpoint import Endpoint
from clew.providers.message_threads import Threads
from clew.providers.preferences import (
    Preferences,
    limit_effort,
    read_preferences,
    wants_threads,
)
from clew.providers.watchdog import SilenceLimits, read_limits
from clew.record.transcript.record import Recorder
from clew.system.clock import get_timestamp
from clew.system.config.environment import Environment
from clew.system.config.paths import Places
from clew.system.config.settings import read_object, read_text
from clew.system.process.spawn import Launcher
from clew.system.transport.http import HttpTransport
from clew.system.transport.network import read_network

# The user answers one question at a time, whether it comes from a call or from a server.


AskPerson: TypeAlias = Callable[[Question], Awaitable[Verdict]]


def serialise_questions(ask: AskPerson) -> AskPerson:
    """Return a function that calls `ask` for one question at a time."""
    lock = asyncio.Lock()

    async def asking(question: Question) -> Verdict:
        async with lock:
            return await ask(question)

    return asking


# The fixed part of a session's requests: the model, the instructions, the tools.


DEFAULT_MODEL = "sonnet"


def choose_model(
    options: Options,
    environment: Environment,
    settings: Json,
    catalog: ModelCatalog,
    spoke: str | None = None,
) -> Model:
    """Return the model for this run. `spoke` is the model that the resumed session used."""
    wanted = options.model or spoke or environment.text("model") or read_text(settings, "model")
    return catalog.entry(wanted or DEFAULT_MODEL)


def make_template(
    options: Options,
    model: Model,
    definitions: list[Json],
    session_id: str,
    style: Style = BUILTIN[0],
    language: str = "",
    attribution: str = "",
) -> ModelRequest:
    """Return a request without messages; it is the same for every turn and for later runs."""
    return ModelRequest(
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
            attribution=attribution,
        ),
        tools=definitions,
        thinking=options.thinking,
        effort=options.effort,
        betas=options.betas,
        task_budget_tokens=options.task_budget,
        session_id=session_id,
    )


def binds_thinking(catalog: ModelCatalog, name: str) -> bool:
    """Return whether the model binds its thinking to the preceding messages."""
    model = catalog.find(name)
    return model is not None and model.binds_thinking is True


def target_of(model: Model, endpoint: Endpoint) -> Target:
    """Return what requests to the model may contain at this endpoint."""
    target = replace(Target.of(model), api_version=endpoint.api_version)
    if not endpoint.speaks_messages:
        from clew.providers.wires import narrow_target  # Most sessions use the Messages API.

        return narrow_target(target, model, endpoint)
    return replace(
        target,
        deferred_tools=target.deferred_tools and endpoint.betas_allowed,
        binding_control=target.binding_control and endpoint.betas_allowed,
    )


class Service(Struct, frozen=True, kw_only=True):
    """The service that all requests of a session are sent to, with the preferences for them."""

    provider: AnthropicProvider
    catalog: ModelCatalog
    preferences: Preferences
    limits: SilenceLimits
    gate: Gate
    # Settings that could not be read.
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
            fallbacks=fallbacks,
            catalog=self.catalog,
            gate=self.gate,
            with_events=with_events,
            cap=cap,
        )


def target_named(service: Service, name: str) -> Target:
    """Return what requests to the model with this name may contain."""
    return target_of(service.catalog.entry(name), service.provider.endpoint)


def speaker(endpoint: Endpoint) -> type[AnthropicProvider]:
    """Return the provider class for the endpoint's protocol."""
    if endpoint.speaks_messages and not endpoint.frames:
        return AnthropicProvider
    from clew.providers.wires import find_provider

    return find_provider(endpoint)


async def open_service(
    environ: Mapping[str, str],
    environment: Environment,
    settings: Json,
    places: Places,
    launcher: Launcher,
    opened: AsyncExitStack,
    function: ProviderFunction | None = None,
) -> Service:
    """Open the service. `opened` closes its connections later; the TLS handshake starts at once.

    A `function` of the program answers instead of a service.
    """
    catalog = CATALOG
    problems: tuple[str, ...] = ()
    if read_object(settings, "models"):  # Most users add no models.
        from clew.core.catalog.added import load_models

        catalog, problems = load_models(settings)
    transport = HttpTransport(read_network(environment))
    opened.push_async_callback(transport.aclose)
    provider: AnthropicProvider
    if function is None:
        endpoint = await make_endpoint(environ, settings, places, launcher)
        provider = speaker(endpoint)(endpoint, transport, catalog=catalog)
        if endpoint.key_helper:
            from clew.providers.renewal import renew_key  # Most users have no helper.

            command = endpoint.key_helper
            renew_key(provider, lambda: run_helper(launcher, command, places.root, environ))
    else:
        from clew.providers.function import FunctionProvider

        provider = FunctionProvider(function, transport, catalog=catalog)
    provider.max_stream_bytes = environment.number("max_answer_bytes") or MAX_STREAM_BYTES
    memory = open_memory(places)
    provider.remember_version, provider.remember_refusal = memory.learn, memory.learn_refusal
    if wants_threads(environment, settings):
        provider.threads = Threads()
    provider.warm()
    preferences = read_preferences(environment, settings)
    return Service(
        provider=provider,
        catalog=catalog,
        preferences=preferences,
        limits=read_limits(environment),
        gate=Gate(),
        problems=(*problems, *preferences.problems),
    )


# The model for small work, and the questions that it answers outside the conversation.


SMALL_MODEL = "haiku"


def choose_small_model(environment: Environment, service: Service, main: str) -> str:
    """Return the model for small work.

    For an endpoint of another wire or a program's provider, whose models are unknown, this is the
    main model by default.
    """
    provider = service.provider
    knows_main = not provider.endpoint.speaks_messages or provider.is_function
    default = main if knows_main else SMALL_MODEL
    return environment.text("small_model") or default


def make_side_questions(
    service: Service,
    environment: Environment,
    spending: Spending,
    recorder: Recorder,
    *,
    main: str,
    cap: Cap | None,
) -> SideQuestions:
    return SideQuestions(
        answer=lambda: service.answering(cap=cap),
        catalog=service.catalog,
        models={SMALL: choose_small_model(environment, service, main)},
        session=spending,
        recorder=recorder,
        now=get_timestamp,
        monotonic_s=time.monotonic,
    )


# The session's model and its thinking, which can change between requests.


class Speaking:
    """The session's model, thinking and effort, as the next request will use them."""

    def __init__(
        self,
        model: Model,
        requests: Requests,
        spending: Spending,
        catalog: ModelCatalog,
        endpoint: Endpoint,
        most_effort: Effort | None = None,
    ) -> None:
        self._most_effort = most_effort
        self.model = model
        self.catalog = catalog
        self._endpoint = endpoint
        self._requests = requests
        self._spending = spending

    def choose(self, name: str) -> Model:
        """Switch to another model. The next request sends it the conversation so far."""
        self.model = self.catalog.entry(name)
        template = replace(self._requests.template, model=self.model.id)
        self._requests.change(template, target_of(self.model, self._endpoint))
        self._spending.change(ModelChosen(model=self.model.id))
        return self.model

    def think(self, thinking: Thinking | None) -> None:
        """Set the thinking for the next and later requests; None selects the model's default."""
        template = replace(self._requests.template, thinking=thinking)
        self._requests.change(template, target_of(self.model, self._endpoint))

    @property
    def effort_now(self) -> Effort | None:
        return self._requests.template.effort

    def effort(self, effort: Effort | None) -> None:
        effort = limit_effort(effort, self._most_effort)
        template = replace(self._requests.template, effort=effort)
        self._requests.change(template, target_of(self.model, self._endpoint))


# A change of the model at the user's request: hooks may block it, and are notified.


class Switching:
    """Switches the model at the user's request.

    A skill's temporary model does not count as a switch.
    """

    def __init__(
        self, speaking: Speaking, hooks: SessionHooks, ask: AskPerson, new_id: Callable[[], str]
    ) -> None:
        self._speaking = speaking
        self._hooks = hooks
        self._ask = ask
        self._new_id = new_id

    async def to(self, name: str) -> Model:
        """Switch the model. Raise `UserError` with the reason if a hook blocks it."""
        fields = {
            "from_model": self._speaking.model.id,
            "to_model": self._speaking.catalog.entry(name).id,
        }
        if fields["from_model"] == fields["to_model"]:
            return self._speaking.model
        outcome = await self._hooks.aside("PreModelSwitch", fields)
        refused = outcome.reason or outcome.block or outcome.halt or "no reason given"
        if (
            outcome.permission in ("deny", "defer")
            or outcome.block is not None
            or outcome.halt is not None
        ):
            raise UserError(f"a hook blocked the model change: {refused}")
        if outcome.permission == "ask" and not await self._may(fields, outcome.reason):
            raise UserError("the model was not changed")
        chosen = self._speaking.choose(name)
        await self._hooks.aside("PostModelSwitch", fields)
        return chosen

    async def _may(self, fields: dict[str, str], why: str) -> bool:
        words = why or "a hook requires your approval"
        finding = Finding(subject="hook", verdict="ask", reason=words)
        block = {
            "type": "tool_use", "id": f"toolu_{self._new_id()}", "name": "SwitchModel",
            "input": fields,
        }  # fmt: skip
        title = f"change the model to {fields['to_model']}"
        question = Question(block=block, title=title, decision=Ask(findings=(finding,)), why=words)
        return isinstance(await self._ask(question), Granted)
