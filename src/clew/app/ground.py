"""What a session stands on before it has said anything: wishes, rules, and the way to the model."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

from msgspec import Struct

from clew.app.plugins import SessionPlugins, plugins_of
from clew.app.service import Service, open_service
from clew.app.styles import Speech
from clew.config.environment import Environment, freeze
from clew.config.keys import in_environment
from clew.context.memory_gate import MemoryGate
from clew.options import SOURCES, Options
from clew.permissions.in_session import SessionRules
from clew.permissions.session_rules import Standing, given
from clew.process.spawn import Launcher


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
    began: Standing
    launcher: Launcher
    service: Service
    plugins: SessionPlugins
    # How the session speaks.
    speech: Speech

    @property
    def fallbacks(self) -> tuple[str, ...]:
        """The models to use while the first is overloaded: the flag's, else those of the settings."""
        named = str(self.began.settings.get("fallbackModel", "")).split(",")
        return self.options.fallback_models or tuple(filter(None, map(str.strip, named)))

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must never be shown: the keys of the environment, and the one that is used."""
        key = self.service.provider.endpoint.api_key
        return (*in_environment(self.environ), *filter(None, [key]))


async def stand(
    options: Options, environ: Mapping[str, str], cwd: str, opened: AsyncExitStack
) -> Ground:
    rules = SessionRules(
        environ,
        Path(cwd),
        mode=options.mode,
        given=given(
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
    plugins = plugins_of(options, began)
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
        plugins=plugins,
        speech=Speech(options, began, plugins.styles()),
        service=await open_service(
            began.environ, environment, began.settings, began.places, launcher, opened
        ),
    )
