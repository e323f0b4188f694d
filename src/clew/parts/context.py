"""The context that the parts of a session share: options, rules, and access to the model."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from clew.agent.context.memory import MemoryGate
from clew.agent.hooks.handlers import Hook
from clew.agent.models import find_wanted_model
from clew.agent.options import SOURCES, Options
from clew.agent.services import Service, open_service
from clew.agent.side_question import SideQuestions
from clew.agent.story import Story
from clew.core.catalog.models import Model
from clew.core.json_object import Json
from clew.core.ledger.state import SessionTracker as Spending
from clew.core.ledger.totals import Past
from clew.core.messages.errors import UserError
from clew.permissions.in_session import SessionRules
from clew.permissions.session_rules import CurrentRules, read_command_line
from clew.providers.base import PrepareFunction, ProviderFunction
from clew.providers.preferences import read_model_limits
from clew.record.transcript.loaded import LoadedSession
from clew.record.transcript.record import Recorder
from clew.system.config.environment import Environment, freeze
from clew.system.config.keys import in_environment
from clew.system.config.settings import read_text
from clew.system.files import is_folder
from clew.system.process.spawn import Launcher

if TYPE_CHECKING:
    from clew.agent.compaction.strategy import CompactFunction
    from clew.agent.spending_cap import SpendingCap
    from clew.agent.tools.editor_client import Buffers, RemoteTerminal
    from clew.parts.mcp.server import MakeLine


# Extensions from the host program: callbacks for events, MCP servers, and agent types.


class HostParts(Struct, frozen=True, kw_only=True):
    """A host program's additions to a session.

    Its `hooks` run like those in settings, from the first event on.
    """

    hooks: Sequence[Hook] = ()
    # Agent types by name, in the format of hosts.
    agents: Mapping[str, Any] = {}
    # The names of skills that the model may load; None for all.
    skills: Sequence[str] | None = None
    # Sends a message to an MCP server in the host, given the server's name, and returns the reply.
    to_host: Callable[[str, dict[str, Any]], Awaitable[Any]] | None = None
    # Creates a two-way connection to an MCP server in the host.
    in_host: "MakeLine | None" = None
    # Forwards an MCP server's question to the host's user and returns the answer. If it returns
    # None, the host can't ask, and the question is shown as a permission prompt.
    elicit: "Callable[[dict[str, Any]], Awaitable[dict[str, Any] | None]] | None" = None
    # The editor's open buffers, and a terminal in which its user can watch commands.
    buffers: "Buffers | None" = None
    terminal: "RemoteTerminal | None" = None
    # Additional MCP servers of this session, as settings entries that are used literally.
    servers: Mapping[str, dict[str, Any]] = {}
    # Answers the session's requests instead of a service.
    provider: ProviderFunction | None = None
    # Changes the messages of each request of the session and its subagents.
    prepare: PrepareFunction | None = None
    # Compacts conversations instead of clew.
    compact: "CompactFunction | None" = None
    # Whether questions to the program are asked again if the process ended before the answer.
    keeps_questions: bool = False
    # Whether the program's loggers receive the session's events.
    has_loggers: bool = False


NOTHING = HostParts()


class Ground(Struct, frozen=True, kw_only=True):
    """The values that all conversations of a session share, including those of its subagents."""

    options: Options
    # The environment with the variables from trusted settings, and the variables that clew reads.
    environ: Mapping[str, str]
    environment: Environment
    cwd: str
    rules: SessionRules
    # Decides which memory files may be sent.
    gate: MemoryGate
    # The rules and settings as they were at the start.
    began: CurrentRules
    launcher: Launcher
    service: Service
    # Changes the messages of each request, if the program wants that.
    prepare: PrepareFunction | None = None
    # Compacts conversations instead of clew.
    compact: "CompactFunction | None" = None

    @property
    def fallbacks(self) -> tuple[str, ...]:
        """The models to use while the first one is overloaded, from the flag or the settings."""
        names = (read_text(self.began.settings, "fallbackModel") or "").split(",")
        return self.options.fallback_models or tuple(filter(None, map(str.strip, names)))

    @property
    def secrets(self) -> tuple[str, ...]:
        """Text that must never be shown: secrets in the environment, and the keys in use."""
        keys = [provider.endpoint.api_key for provider in self.service.provider.providers()]
        return (*in_environment(self.environ), *filter(None, keys))


class Thread(Struct, frozen=True, kw_only=True):
    """One conversation: its record, its history, its model, and its cost."""

    recorder: Recorder
    # The session's content when it was resumed; None for a new session.
    loaded: LoadedSession | None
    story: Story
    model: Model
    # Cost and time of this run and of the earlier ones.
    spending: Spending
    past: Past
    side: SideQuestions
    # What the session may cost; None if there is no limit.
    cap: "SpendingCap | None" = None
    # Problems with copying parts of the original session, if this one is a copy.
    lost: tuple[str, ...] = ()

    @property
    def session_id(self) -> str:
        return self.recorder.paths.place.session_id


def find_provider(
    options: Options, environment: Environment, settings: Json
) -> ProviderFunction | None:
    """Return the provider that the model's name selects from the installed packages, or None.

    The name of the provider is the part of the model's name before a colon.
    """
    model = options.model or environment.text("model") or read_text(settings, "model") or ""
    name, colon, _ = model.partition(":")
    if not colon:
        return None
    # Imported here, because few models have such a name.
    from clew.system.plug_ins import PROVIDERS, load_plug_in

    provider: ProviderFunction | None = load_plug_in(PROVIDERS, name)
    return provider


async def prepare_ground(
    options: Options,
    environ: Mapping[str, str],
    cwd: str,
    opened: AsyncExitStack,
    brought: HostParts = NOTHING,
) -> Ground:
    if not is_folder(cwd):
        raise UserError(f"{cwd}: working folder not found; create it or choose another")
    rules = SessionRules(
        environ,
        Path(cwd),
        mode=options.mode,
        command_line=read_command_line(
            options.settings,
            allow=options.allow,
            deny=options.deny,
            directories=options.directories,
            managed=options.managed,
            is_restricted=options.is_restricted,
        ),
        sources=SOURCES if options.sources is None else options.sources,
    )
    began = rules.standing
    environment = freeze(began.environ)
    launcher = Launcher()
    opened.push_async_callback(launcher.aclose)
    return Ground(
        options=options,
        environ=began.environ,
        environment=environment,
        cwd=cwd,
        rules=rules,
        gate=MemoryGate(lambda: rules.standing),
        began=began,
        launcher=launcher,
        service=await open_service(
            began.environ,
            environment,
            began.settings,
            began.places,
            launcher,
            opened,
            brought.provider or find_provider(options, environment, began.settings),
            wanted=find_wanted_model(options, environment, began.settings),
            model_limits=read_model_limits(began.layers),
        ),
        prepare=brought.prepare,
        compact=brought.compact,
    )
