"""Selection of a session's models, and changes of them between requests."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from msgspec.structs import replace

from clew.agent.context.output_styles import BUILTIN, Style
from clew.agent.context.system_prompt import system_prompt
from clew.agent.deps import Granted, Question, Verdict
from clew.agent.hooks.run import SessionHooks
from clew.agent.options import Options
from clew.agent.requests import Requests
from clew.agent.services import DEFAULT_MODEL, Service, target_named
from clew.agent.side_question import SMALL, SideQuestions
from clew.core.catalog.lookup import ModelCatalog
from clew.core.catalog.models import Model
from clew.core.catalog.services import ServiceRow
from clew.core.json_object import Json
from clew.core.ledger.state import ModelChosen
from clew.core.ledger.state import SessionTracker as Spending
from clew.core.messages.errors import UserError
from clew.core.normalize.target import Target
from clew.permissions.decision import Ask, Finding
from clew.providers.base import Cap, Effort, ModelRequest, Thinking
from clew.providers.preferences import limit_effort
from clew.record.transcript.record import Recorder
from clew.system.clock import get_timestamp
from clew.system.config.environment import Environment
from clew.system.config.settings import read_text

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


def choose_model(
    options: Options,
    environment: Environment,
    settings: Json,
    catalog: ModelCatalog,
    spoke: str | None = None,
    service: Service | None = None,
) -> Model:
    """Return the model for this run. `spoke` is the model that the resumed session used.

    If the settings don't allow the wanted model, return the default, or raise UserError if the
    command line names the model.
    """
    wanted = options.model or spoke or find_wanted_model(options, environment, settings)
    default = DEFAULT_MODEL if service is None else service.default_model
    refusal = service.describe_refusal(wanted) if service is not None and wanted else ""
    if refusal and options.model:
        raise UserError(f"--model: {refusal}")
    return catalog.entry(default if refusal or not wanted else wanted)


def find_wanted_model(options: Options, environment: Environment, settings: Json) -> str | None:
    """Return the model that the user selected for new sessions, or None."""
    return options.model or environment.text("model") or read_text(settings, "model")


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


# The model for small tasks, and the questions that it answers outside the conversation.


def choose_small_model(
    environment: Environment, settings: Json, service: Service, main: str
) -> str:
    """Return the model for small tasks in a session with this main model."""
    wanted = environment.text("small_model") or read_text(settings, "smallModel")
    names = filter(None, (wanted, service.choose_small(main)))
    return next((n for n in names if not service.describe_refusal(n, is_small=True)), main)


def make_side_questions(
    service: Service,
    environment: Environment,
    settings: Json,
    spending: Spending,
    recorder: Recorder,
    *,
    main: str,
    cap: Cap | None,
) -> SideQuestions:
    return SideQuestions(
        answer=lambda: service.answering(cap=cap),
        catalog=service.catalog,
        models={SMALL: choose_small_model(environment, settings, service, main)},
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
        service: Service,
        most_effort: Effort | None = None,
    ) -> None:
        self._most_effort = most_effort
        self.model = model
        self.catalog = service.catalog
        self.default_model = service.default_model
        self._service = service
        self._requests = requests
        self._spending = spending

    def describe_refusal(self, name: str) -> str:
        """Return why the settings do not allow a model, or an empty string."""
        return self._service.describe_refusal(name)

    @property
    def models(self) -> tuple[Model, ...]:
        """The catalog's models that the settings allow."""
        return tuple(m for m in self.catalog.models if not self.describe_refusal(m.id))

    def choose(self, name: str) -> Model:
        """Switch to another model. The next request sends it the conversation so far."""
        self.model = self.catalog.entry(name)
        template = replace(self._requests.template, model=self.model.id)
        self._requests.change(template, target_named(self._service, self.model.id))
        self._spending.change(ModelChosen(model=self.model.id))
        return self.model

    @property
    def target(self) -> Target:
        """The request target of the current model."""
        return target_named(self._service, self.model.id)

    def usable_services(self) -> list[ServiceRow]:
        """Return the table's services that have credentials."""
        rows = self.catalog.services.values()
        return [r for r in rows if r.name != "anthropic" and self._service.can_ask(f"{r.name}/x")]

    async def prepare(self, name: str) -> Model:
        """Prepare a model for its first use and return its catalog entry."""
        return await self._service.prepare(name)

    def think(self, thinking: Thinking | None) -> None:
        """Set the thinking for the next and later requests; None selects the model's default."""
        template = replace(self._requests.template, thinking=thinking)
        self._requests.change(template, target_named(self._service, self.model.id))

    @property
    def effort_now(self) -> Effort | None:
        return self._requests.template.effort

    def effort(self, effort: Effort | None) -> None:
        effort = limit_effort(effort, self._most_effort)
        template = replace(self._requests.template, effort=effort)
        self._requests.change(template, target_named(self._service, self.model.id))


# A change of the model at the user's request: hooks may block it, and are notified.


class Switching:
    """Switches the model at the user's request.

    A skill's temporary model is not treated as a switch.
    """

    def __init__(
        self, speaking: Speaking, hooks: SessionHooks, ask: AskPerson, new_id: Callable[[], str]
    ) -> None:
        self._speaking = speaking
        self._hooks = hooks
        self._ask = ask
        self._new_id = new_id

    async def to(self, name: str) -> Model:
        """Switch the model. Raise `UserError` if the settings don't allow it or a hook blocks it."""
        if refusal := self._speaking.describe_refusal(name):
            raise UserError(refusal)
        wanted = await self._speaking.prepare(name)
        fields = {"from_model": self._speaking.model.id, "to_model": wanted.id}
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
