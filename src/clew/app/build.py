"""The only place that builds everything: from options and an environment to a session that can talk.

Reads in the order in which things are made. Owns the life of what it opens: leaving `session` flushes
the log, ends every child and gives the locks back.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct

from clew.app import hooks as app_hooks
from clew.app.asking import chosen_model, target_of, template
from clew.app.background import news
from clew.app.brought import NOTHING, Brought
from clew.app.costs import budget, leave_totals, spent_so_far, unbounded
from clew.app.file_record import file_record
from clew.app.judging import Judging
from clew.app.mcp import Connected, servers_of
from clew.app.offering import offered_tools, private_hosts
from clew.app.one_person import one_at_a_time
from clew.app.own import OwnSession
from clew.app.planning import planning
from clew.app.record import open_record
from clew.app.sandbox import session_sandbox
from clew.app.service import open_service
from clew.app.side import side_questions
from clew.app.speaking import Speaking
from clew.app.stamps import new_id, now
from clew.app.standing import spoke_with, taken_up
from clew.app.taking import intake
from clew.catalog.models import Model
from clew.commands.outcome import Outcome
from clew.commands.parse import Command as Typed
from clew.commands.registry import Command
from clew.config.environment import for_programs, freeze
from clew.config.keys import in_environment
from clew.context.facts import Fact
from clew.context.nearby import Nearby
from clew.context.opening import Opening
from clew.context.prompts import Prompts
from clew.context.tool_listing import listing_fact, told
from clew.engine.conversation import Conversation, Inbox
from clew.engine.deps import Deps, Emit, Question, Verdict
from clew.engine.intake import Intake, Raw, Taken, Turn
from clew.engine.measuring import Measure
from clew.engine.requests import Requests
from clew.engine.story import Story
from clew.engine.toolset import SessionTools
from clew.hooks.run import Hooks
from clew.messages import factories
from clew.messages.history import History
from clew.normalize.repairs import from_record
from clew.options import SOURCES, Options
from clew.permissions.in_session import SessionRules
from clew.permissions.request import Mode
from clew.permissions.session_rules import given
from clew.process.spawn import Launcher
from clew.providers.preferences import preferred
from clew.session.ledger import Ledger
from clew.session.state import Session as Spending
from clew.session.totals import Past
from clew.tasks.registry import Tasks
from clew.tools.base import Surroundings, ToolSession
from clew.tools.limits import limits_from
from clew.tools.registry import Toolbox
from clew.transcript.load import Loaded
from clew.transcript.record import Mirror
from clew.transport.network import network_from
from clew.web.fetch import Web

Json: TypeAlias = dict[str, Any]
Ask: TypeAlias = Callable[[Question], Awaitable[Verdict]]


class Session(Struct, frozen=True, kw_only=True):
    """A session that is open: what a front talks to, and what it may show about it."""

    conversation: Conversation
    story: Story
    opening: Opening
    session_id: str
    speaking: Speaking
    rules: SessionRules
    toolbox: Toolbox
    mcp: Connected
    # What people should know at the start: settings with faults, rules that do not count, repairs.
    notices: tuple[str, ...]
    resumed: Loaded | None = None
    # Cost and time: of this run as they come, and of the runs before.
    spending: Spending
    past: Past
    # What lines of input go through, and the slash commands that were found for this session.
    intake: Intake
    commands: list[Command["Session"]]
    own: OwnSession
    requests: Requests
    # What runs in the background; a front that listens can say so, and begin a turn.
    tasks: Tasks
    tools: SessionTools
    hooks: Hooks
    cwd: str
    # Where the key comes from, in the words of hosts.
    key_source: str

    @property
    def model(self) -> Model:
        return self.speaking.model

    @property
    def mode(self) -> Mode:
        return self.rules.mode

    async def context(self) -> list[Json]:
        """What goes with the next prompt: all around a new conversation, else what has changed."""
        history = self.story.history
        facts = []
        if not len(history):
            facts = await self.opening.facts(model=self.model.id, day=now()[:10])
        deferred = [name for name in self.requests.deferred() if self.toolbox.get(name)]
        listing = listing_fact(told(history), deferred)
        return attachments([*facts, *filter(None, [listing, planning(self.rules, history)])])

    async def take(self, raw: Raw, emit: Emit) -> Taken:
        """What was typed or piped in, as a turn for `conversation.submit` or as an outcome."""

        async def run_command(typed: Typed) -> Outcome | None:
            from clew.app.slash import run

            return await run(self, typed, raw)

        taken = await self.intake.take(raw, emit, run_command)
        if isinstance(taken, Turn):
            return Turn(prompt=taken.prompt, context=[*taken.context, *await self.context()])
        return taken

    def ledger(self) -> Ledger:
        """What the conversation cost so far, by its record."""
        return self.spending.ledger


def attachments(facts: Iterable[Fact]) -> list[Json]:
    """Facts as the entries that will say so from now on."""
    return [
        factories.attachment(
            fact.payload, uuid=new_id(), at=now(), rendered=fact.rendered, role=fact.role
        )
        for fact in facts
    ]


def told_of(mcp: Connected, story: Story) -> Callable[[], Awaitable[list[Json]]]:
    """What a request is told about servers, as entries."""

    async def latecomers() -> list[Json]:
        return attachments(await mcp.news(lambda: story.history))

    return latecomers


@asynccontextmanager
async def session(
    options: Options,
    environ: Mapping[str, str],
    cwd: str,
    ask: Ask,
    *,
    entrypoint: str,
    brought: Brought = NOTHING,
    mirror: Mirror | None = None,
) -> AsyncIterator[Session]:
    """Opens a session, new or gone on with; everything it holds is given back at the end."""
    rules = SessionRules(
        environ,
        Path(cwd),
        mode=options.mode,
        given=given(
            options.settings,
            allow=options.allow,
            deny=options.deny,
            directories=options.directories,
        ),
        sources=SOURCES if options.sources is None else options.sources,
    )
    ask = one_at_a_time(ask)
    began = rules.standing
    environ = began.environ
    environment = freeze(environ)
    async with AsyncExitStack() as opened:
        launcher = Launcher()
        opened.push_async_callback(launcher.aclose)
        service = await open_service(
            environ, environment, began.settings, began.places, launcher, opened
        )
        endpoint = service.provider.endpoint
        opening = Opening(
            launcher,
            cwd=Path(cwd),
            environ=environ,
            folders=began.context.directories,
        )
        opened.push_async_callback(opening.aclose)
        recorder, loaded = open_record(
            options, began.places, opened, entrypoint=entrypoint, mirror=mirror
        )
        model = chosen_model(
            options,
            environment,
            began.settings,
            service.catalog,
            spoke_with(loaded, service.catalog),
        )
        rules.keeps_results_in(recorder.paths.place.tool_results)
        rules.keeps_plan_of(recorder.paths.place.session_id)
        story = Story(recorder, History(loaded.messages if loaded else ()))
        spending, past = spent_so_far(
            recorder.paths.place.session_id, cwd, environ, model, loaded, service.catalog
        )
        side = side_questions(service, environment, spending, recorder)
        own = OwnSession(rules, recorder)
        tool_session = ToolSession(
            cwd=cwd,
            launcher=launcher,
            spill_folder=recorder.paths.place.tool_results,
            environment=for_programs(environ),
            limits=limits_from(environment.number),
            may_read=rules.may_read,
            ask_model=side.ask_model,
            ask_service=side.ask_service,
            own=own,
        )
        tool_session.in_conversation = story.holds
        opened.push_async_callback(tool_session.tasks.aclose)
        tool_session.todos = [
            {"content": t.content, "status": t.status, "activeForm": t.active_form}
            for t in spending.state.todos
        ]
        secrets = (*in_environment(environ), *filter(None, [endpoint.api_key]))
        sandbox, sandbox_faults = session_sandbox(rules, launcher, tool_session, hidden=secrets)
        opened.push_async_callback(sandbox.aclose)
        rules.is_walled = lambda: sandbox.is_wanted
        tool_session.env_file = app_hooks.env_file(recorder.paths.place.tool_results)
        hook_settings = app_hooks.Settings(rules)
        hooks = app_hooks.session_hooks(
            hook_settings,
            rules,
            recorder,
            tool_session,
            launcher,
            service.provider.transport,
            side,
            environ=environ,
            masked=secrets,
            call_tool=app_hooks.calling(lambda: mcp, tool_session),
        )
        hooks.add(brought.hooks)
        await opened.enter_async_context(hooks)
        web = Web(network_from(environment), partial(private_hosts, rules))
        opened.push_async_callback(web.aclose)
        toolbox = Toolbox(offered_tools(options, web, began.settings), began.settings)
        mcp = servers_of(options, began, toolbox, environment)
        opened.push_async_callback(mcp.aclose)
        tools = SessionTools(
            toolbox,
            tool_session,
            lambda: Surroundings(
                model=model.id,
                interactive=not options.is_print,
                tools=tuple(toolbox),
                mcp_clients=mcp.clients(),
            ),
            secrets=secrets,
            file_record=file_record(began.places.config_home, recorder)
            if options.persists
            else None,
        )
        session_id = recorder.paths.place.session_id
        beginning = taken_up(
            preferred(
                template(options, model, tools.definitions(), session_id), service.preferences
            ),
            options,
            Prompts(began.places.own / "prompts"),
            recorder,
            loaded,
            service.catalog,
        )
        requests = Requests(
            beginning.request,
            target_of(model, takes_betas=endpoint.betas_allowed),
            lambda: beginning.tools_of(toolbox.definitions()),
            () if loaded is None else from_record(loaded.side.current.get("request-repairs", {})),
        )
        begin_s = time.monotonic()
        inbox = Inbox()
        nearby = Nearby(environ, Path(cwd), story.history)
        judge = Judging(
            rules,
            story,
            lambda: tool_session.cwd,
            ask_model=side.ask_model,
            spared=sandbox.spared,
            secrets=secrets,
        )
        mcp.begin(
            ask,
            judge,
            side.ask_model,
            rules,
            launcher=launcher,
            transport=service.provider.transport,
            places=began.places,
            cwd=cwd,
            environ=tool_session.environment,
            environment=environment,
            to_host=brought.to_host,
        )
        deps = Deps(
            story=story,
            request=requests,
            answer=lambda: service.answering(options.fallback_models, with_events=options.partial),
            catalog=service.catalog,
            tools=tools,
            judge=judge,
            review=judge.review,
            ask=ask,
            arrived=lambda: [*inbox.take(), *news(tool_session)],
            now=now,
            new_id=new_id,
            refresh=hook_settings.refresh,
            measured=Measure(service.provider.count_tokens, service.catalog),
            beside=lambda results: attachments(nearby.beside(results)),
            latecomers=told_of(mcp, story),
            session=spending,
            monotonic_s=time.monotonic,
            max_rounds=options.max_turns,
            budget=budget(options, past),
            hooks=hooks,
            where=lambda: tool_session.cwd,
            update_permissions=app_hooks.granting(rules),
        )
        hooks.begin(app_hooks.beginning(options, loaded, model.id))
        opened.push_async_callback(app_hooks.end, hooks, options)
        opened.callback(leave_totals, recorder, spending, past, begin_s)
        yield Session(
            conversation=Conversation(deps, inbox),
            story=story,
            opening=opening,
            session_id=session_id,
            speaking=Speaking(
                model, requests, spending, service.catalog, takes_betas=endpoint.betas_allowed
            ),
            rules=rules,
            toolbox=toolbox,
            mcp=mcp,
            notices=(
                *environment.faults,
                *began.complaints,
                *hook_settings.found.faults,
                *sandbox_faults,
                *await sandbox.news(),
                *service.problems,
                *service.provider.adjustments(beginning.request),
                *unbounded(options, model),
                *beginning.notices,
                *mcp.notices,
            ),
            requests=requests,
            tools=tools,
            hooks=hooks,
            cwd=cwd,
            key_source="none" if endpoint.credentials == "none" else endpoint.credentials,
            resumed=loaded,
            spending=spending,
            past=past,
            tasks=tool_session.tasks,
            intake=intake(tools, judge, tool_session, rules, mcp.resource),
            commands=[],
            own=own,
        )
