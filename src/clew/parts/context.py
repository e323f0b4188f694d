"""What a session stands on before it has said anything: wishes, rules, and the way to the model."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from clew.agent.context.memory import MemoryGate
from clew.agent.hooks.handlers import Hook
from clew.agent.models import Service, open_service
from clew.agent.options import SOURCES, Options
from clew.agent.side_question import SideQuestions
from clew.agent.story import Story
from clew.core.catalog.models import Model
from clew.core.ledger.state import SessionTracker as Spending
from clew.core.ledger.totals import Past
from clew.permissions.in_session import SessionRules
from clew.permissions.session_rules import CurrentRules, read_command_line
from clew.record.transcript.load import LoadedSession
from clew.record.transcript.record import Recorder
from clew.system.config.environment import Environment, freeze
from clew.system.config.keys import in_environment
from clew.system.config.settings import read_text
from clew.system.process.spawn import Launcher

if TYPE_CHECKING:
    from clew.agent.tools.editor_client import Buffers, RemoteTerminal
    from clew.parts.mcp.server import MakeLine


# What the program around a session brings into it: functions of its own at the session's events,
# MCP servers, and kinds of agents.


class HostParts(Struct, frozen=True, kw_only=True):
    """`hooks` run like those of the settings, from the session's first event on."""

    hooks: Sequence[Hook] = ()
    # Kinds of agents by name, as hosts spell them.
    agents: Mapping[str, Any] = {}
    # The skills that the model is told of and may load, by name; None: all.
    skills: Sequence[str] | None = None
    # The way to MCP servers in that program: the server's name and a message, and what it answers.
    to_host: Callable[[str, dict[str, Any]], Awaitable[Any]] | None = None
    # The same where messages go both ways: makes the line to such a server.
    in_host: "MakeLine | None" = None
    # Puts a server's question to a person of that program: what they say to it, None where it has no way to
    # ask, and they are asked as about a call.
    elicit: "Callable[[dict[str, Any]], Awaitable[dict[str, Any] | None]] | None" = None
    # What the editor around the session has open, and where its commands can be watched.
    buffers: "Buffers | None" = None
    terminal: "RemoteTerminal | None" = None
    # Servers of this session, each as an entry of settings that is taken literally.
    servers: Mapping[str, dict[str, Any]] = {}


NOTHING = HostParts()


class Ground(Struct, frozen=True, kw_only=True):
    """The same for everything that runs in a session, its subagents among it."""

    options: Options
    # The environment with what trusted settings say of it, and its variables that clew knows.
    environ: Mapping[str, str]
    environment: Environment
    cwd: str
    rules: SessionRules
    # Which memory files may not be sent.
    gate: MemoryGate
    # The rules and settings as they stood at the start.
    began: CurrentRules
    launcher: Launcher
    service: Service

    @property
    def fallbacks(self) -> tuple[str, ...]:
        """The models to use while the first is overloaded: the flag's, else those of the settings."""
        names = (read_text(self.began.settings, "fallbackModel") or "").split(",")
        return self.options.fallback_models or tuple(filter(None, map(str.strip, names)))

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must never be shown: the keys of the environment, and the one that is used."""
        key = self.service.provider.endpoint.api_key
        return (*in_environment(self.environ), *filter(None, [key]))


class Thread(Struct, frozen=True, kw_only=True):
    """One conversation's record, and who it is spoken with."""

    recorder: Recorder
    # What the session held when it was gone on with; None for a new one.
    loaded: LoadedSession | None
    story: Story
    model: Model
    # Cost and time: of this run as they come, and of the runs before.
    spending: Spending
    past: Past
    side: SideQuestions
    # What of a session that this is a copy of could not be copied.
    lost: tuple[str, ...] = ()

    @property
    def session_id(self) -> str:
        return self.recorder.paths.place.session_id


async def prepare_ground(
    options: Options, environ: Mapping[str, str], cwd: str, opened: AsyncExitStack
) -> Ground:
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
            began.environ, environment, began.settings, began.places, launcher, opened
        ),
    )
