"""The only place that builds everything: from options and an environment to a session that can talk.

Reads in the order in which things are made. Owns the life of what it opens: leaving `session` flushes
the log, ends every child and gives the locks back.
"""

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

from msgspec import Struct

from clew.catalog.lookup import CATALOG
from clew.catalog.models import Model
from clew.config.environment import Environment, freeze
from clew.config.keys import in_environment
from clew.config.paths import Places
from clew.context.opening import Opening
from clew.context.system_prompt import system_prompt
from clew.engine.conversation import Conversation, Inbox
from clew.engine.deps import Budget, Deps, Question, Verdict
from clew.engine.requests import Requests
from clew.engine.story import Story
from clew.engine.toolset import SessionTools
from clew.messages import factories
from clew.messages.errors import SessionError
from clew.messages.history import History
from clew.normalize.target import Target, family_of
from clew.options import Options
from clew.permissions.in_session import SessionRules
from clew.permissions.request import Mode
from clew.permissions.session_rules import given
from clew.process.spawn import Launcher
from clew.providers.answer import Answering, Gate
from clew.providers.anthropic import AnthropicProvider
from clew.providers.base import Request
from clew.providers.credentials import endpoint_with_key
from clew.session.ledger import Ledger
from clew.session.state import Session as Spending
from clew.session.state import State
from clew.session.totals import Past, cost_state, restore
from clew.tools.base import Surroundings, ToolSession
from clew.tools.limits import limits_from
from clew.tools.registry import Toolbox, builtin_tools
from clew.transcript import choose
from clew.transcript.entries import encode
from clew.transcript.load import Loaded
from clew.transcript.load import load as load_transcript
from clew.transcript.log import Log
from clew.transcript.paths import SessionPaths, rescue_dirs
from clew.transcript.policy import Writer
from clew.transcript.record import Recorder
from clew.transcript.resume import Held, forked, resume
from clew.transcript.running import Registration, Running
from clew.transport.http import HttpTransport
from clew.version import VERSION

Json: TypeAlias = dict[str, Any]
Ask: TypeAlias = Callable[[Question], Awaitable[Verdict]]

DEFAULT_MODEL = "sonnet"


class Session(Struct, frozen=True, kw_only=True):
    """A session that is open: what a front talks to, and what it may show about it."""

    conversation: Conversation
    story: Story
    opening: Opening
    session_id: str
    model: Model
    rules: SessionRules
    # What people should know at the start: settings with faults, rules that do not count, repairs.
    notices: tuple[str, ...]
    resumed: Loaded | None = None
    # Cost and time: of this run as they come, and of the runs before.
    spending: Spending
    past: Past

    @property
    def mode(self) -> Mode:
        return self.rules.mode

    async def context(self) -> list[Json]:
        """What goes with the next prompt: everything around a new conversation, else nothing."""
        if len(self.story.history):
            return []
        return await attachments(self.opening, self.model)

    def ledger(self) -> Ledger:
        """What the conversation cost so far, by its record."""
        return self.spending.ledger


async def attachments(opening: Opening, model: Model) -> list[Json]:
    """What is around a new conversation, as the entries that will say so from now on."""
    told = await opening.facts(model=model.id, day=now()[:10])
    return [
        factories.attachment(
            fact.payload, uuid=new_id(), at=now(), rendered=fact.rendered, role=fact.role
        )
        for fact in told
    ]


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def new_id() -> str:
    return str(uuid4())


@asynccontextmanager
async def session(
    options: Options, environ: Mapping[str, str], cwd: str, ask: Ask, *, entrypoint: str
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
    )
    began = rules.standing
    environ = began.environ
    environment = freeze(environ)
    model = chosen_model(options, environment, began.settings)
    async with AsyncExitStack() as opened:
        launcher = Launcher()
        opened.push_async_callback(launcher.aclose)
        endpoint = await endpoint_with_key(environ, began.settings, began.places, launcher)
        transport = HttpTransport(environ)
        opened.push_async_callback(transport.aclose)
        provider = AnthropicProvider(endpoint, transport)
        provider.warm()
        opening = Opening(
            launcher,
            cwd=Path(cwd),
            environ=environ,
            folders=began.context.directories,
        )
        opened.push_async_callback(opening.aclose)
        recorder, loaded = open_record(options, began.places, opened, entrypoint=entrypoint)
        story = Story(recorder, History(loaded.messages if loaded else ()))
        tool_session = ToolSession(
            cwd=cwd,
            launcher=launcher,
            spill_folder=recorder.paths.place.tool_results,
            environment=environ,
            limits=limits_from(environment.number),
            may_read=rules.may_read,
        )
        tools = SessionTools(
            Toolbox(builtin_tools(), began.settings),
            tool_session,
            lambda: Surroundings(model=model.id, interactive=not options.is_print),
            secrets=(*in_environment(environ), *filter(None, [endpoint.api_key])),
        )
        session_id = recorder.paths.place.session_id
        requests = Requests(
            template(options, model, tools.definitions(), session_id),
            target_of(model),
        )
        spending, past = spent_so_far(session_id, cwd, environ, model, loaded)
        begin_s = time.monotonic()
        gate = Gate()
        inbox = Inbox()
        deps = Deps(
            story=story,
            request=requests,
            answer=lambda: Answering(
                provider,
                new_tool_id=lambda: f"toolu_{uuid4().hex}",
                fallbacks=options.fallback_models,
                gate=gate,
            ),
            tools=tools,
            judge=lambda block: rules.judge(block["name"], block["input"], cwd=tool_session.cwd),
            ask=ask,
            arrived=inbox.take,
            now=now,
            new_id=new_id,
            refresh=rules.refresh,
            session=spending,
            monotonic_s=time.monotonic,
            max_rounds=options.max_turns,
            budget=budget(options, past),
        )
        opened.callback(leave_totals, recorder, spending, past, begin_s)
        yield Session(
            conversation=Conversation(deps, inbox),
            story=story,
            opening=opening,
            session_id=session_id,
            model=model,
            rules=rules,
            notices=(*environment.faults, *began.complaints, *unbounded(options, model)),
            resumed=loaded,
            spending=spending,
            past=past,
        )


# -- what it costs


def spent_so_far(
    session_id: str, cwd: str, environ: Mapping[str, str], model: Model, loaded: Loaded | None
) -> tuple[Spending, Past]:
    """Cost and time of a session: nothing yet, or what its log says."""
    ledger, past = (Ledger(), Past()) if loaded is None else taken_up(loaded)
    state = State(
        session_id=session_id,
        original_cwd=cwd,
        cwd=cwd,
        started_at=now(),
        initial_model=model.id,
        environment=environ,
    )
    return Spending(state, ledger), past


def taken_up(loaded: Loaded) -> tuple[Ledger, Past]:
    """The totals that the last run left, and what the log holds behind them."""
    line = loaded.side.current.get("cost-state", {})
    at = loaded.side.current_at.get("cost-state", -1)
    placed = list(zip(loaded.chain.nodes(), loaded.messages, strict=True))
    covered = [message for node, message in placed if node.at < at]
    after = [message for node, message in placed if node.at >= at]
    return restore(line, covered, after, CATALOG)


def leave_totals(recorder: Recorder, spending: Spending, past: Past, begin_s: float) -> None:
    """At the end of a run in which something was asked: the session's totals, for the next one."""
    if spending.state.api_ms:
        duration_ms = (time.monotonic() - begin_s) * 1000
        recorder.cost_state(**cost_state(spending, past, duration_ms=duration_ms))


def budget(options: Options, past: Past) -> Budget | None:
    usd = options.max_budget_usd
    return None if usd is None else Budget(usd=usd, before=past.spend.usd)


def unbounded(options: Options, model: Model) -> tuple[str, ...]:
    """A budget that cannot be held is said before anything is spent."""
    if options.max_budget_usd is None or model.prices:
        return ()
    return (f"--max-budget-usd: no price is known for {model.id}; nothing can use the budget up",)


# -- where it is written


def open_record(
    options: Options, places: Places, opened: AsyncExitStack, *, entrypoint: str
) -> tuple[Recorder, Loaded | None]:
    """The recorder of a new session, or of one that goes on, with what it holds so far."""
    home, cwd = places.config_home, str(places.cwd)
    path = which(options, home, cwd)
    if path is None or options.fork:
        session_id = options.session_id or new_id()
        session_paths = SessionPaths(home=home, cwd=cwd, session_id=session_id)
        if session_paths.place.transcript.exists():
            raise SessionError(f"--session-id {session_id}: this session exists; --resume it")
    else:
        session_id = path.stem
        session_paths = SessionPaths(home=home, cwd=cwd, session_id=session_id)
        if path.parent not in rescue_dirs(home):
            session_paths.switch(session_id, path.parent)
    log = log_of(options, home, opened)
    recorder = Recorder(
        paths=session_paths,
        log=log,
        writer=Writer(
            session_id=session_id,
            cwd=cwd,
            version=VERSION,
            git_branch=branch(places.cwd),
            entrypoint=entrypoint,
        ),
        now=now,
    )
    if options.persists:
        running = Running(
            pid=os.getpid(),
            session_id=session_id,
            cwd=cwd,
            status="busy",
            started_at=now(),
            version=VERSION,
        )
        opened.callback(Registration(home, running).leave)
    if path is None:
        return recorder, None
    return recorder, gone_on(recorder, log, path, home, fork=options.fork)


def log_of(options: Options, home: Path, opened: AsyncExitStack) -> Log | None:
    if not options.persists:
        return None
    log = Log(rescue_dirs=rescue_dirs(home))
    opened.callback(log.close)
    return log


def gone_on(recorder: Recorder, log: Log | None, path: Path, home: Path, *, fork: bool) -> Loaded:
    """What the session at `path` holds, now the recorder's: the session itself, or a copy of it."""
    loaded: Loaded | Held
    try:
        if log is None or (fork and not copied(recorder, log, path)):
            # A copy that no disk takes now is in memory until one does.
            loaded = load_transcript(path)
            recorder.resume(loaded)
        else:
            loaded = resume(recorder, log, home=home)
    except OSError as error:
        raise SessionError(f"session {path.stem} cannot be read: {error}") from None
    if isinstance(loaded, Held):
        raise SessionError(f"{loaded}: --fork-session, or `clew sessions show {path.stem}`")
    if loaded.is_empty:
        raise SessionError(f"session {path.stem} holds no conversation: {path}")
    return loaded


def copied(recorder: Recorder, log: Log, path: Path) -> bool:
    """Begins the recorder's session as a copy of the one at `path`; False if it is not on disk."""
    loaded = load_transcript(path)
    if loaded.is_empty:
        return False
    begun = forked(loaded, recorder.writer.session_id)
    log.append(recorder.transcript, [encode(recorder.header()) + b"\n", *begun])
    return not log.flush().troubles


def which(options: Options, home: Path, cwd: str) -> Path | None:
    """The transcript to go on with; None for a new session."""
    if options.resume is not None:
        return choose.named(home, cwd, options.resume)
    if options.continues:
        found = choose.newest(home, cwd)
        return None if found is None else found.path
    return None


def branch(folder: Path) -> str:
    """The branch by `.git/HEAD`, without asking git."""
    for place in (folder, *folder.parents):
        try:
            head = (place / ".git" / "HEAD").read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError):
            continue
        return head.removeprefix("ref: refs/heads/") if head.startswith("ref: ") else "HEAD"
    return "HEAD"


# -- what is asked


def chosen_model(options: Options, environment: Environment, settings: Json) -> Model:
    return CATALOG.entry(
        options.model or environment.text("model") or settings.get("model") or DEFAULT_MODEL
    )


def template(options: Options, model: Model, definitions: list[Json], session_id: str) -> Request:
    """A request without its messages: the same for every turn, and for the next run's."""
    return Request(
        model=model.id,
        messages=[],
        system=system_prompt(
            model.id,
            [tool["name"] for tool in definitions],
            instead=options.system_prompt,
            extra=options.append_system_prompt,
        ),
        tools=definitions,
        session_id=session_id,
    )


def target_of(model: Model) -> Target:
    """What the model's requests may hold; what nobody knows of it is left at the usual."""
    return Target(
        family=family_of(model.id),
        system_messages=bool(model.system_in_messages),
        prefill=bool(model.prefill),
        images=model.images is not False,
        documents=model.pdfs is not False,
    )
