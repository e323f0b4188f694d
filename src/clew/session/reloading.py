"""What files bring besides settings, looked for again while a session runs.

Plugins with all their parts, commands and skills, agents, output styles. What is not as it was is taken
in: hooks and servers of plugins too, under the same trust as at the start. What the conversation began
with (its system prompt, the style in it) stays; the model is told the rest with the next prompt.
"""

from msgspec import Struct
from msgspec.structs import replace

from clew.core.json_object import Json
from clew.parts.agents.places import faults_of, in_files
from clew.parts.context import Ground, HostParts
from clew.parts.lsp.part import language_servers
from clew.parts.mcp.part import find_servers
from clew.parts.plugins.part import plugins_of
from clew.permissions.in_session import of_own
from clew.session.agents.all_agents import AllAgents
from clew.session.hands import Hands, is_wanted


class Reloaded(Struct, frozen=True, kw_only=True):
    """What there is now: plugins as hosts are told of them, names of the rest, and what is wrong."""

    plugins: tuple[Json, ...]
    skills: tuple[str, ...]
    agents: tuple[str, ...]
    styles: tuple[str, ...]
    # MCP servers of plugins that were begun, and those that were ended.
    begun: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()


class Reloading:
    """One for each session; what it looks into is what the session began with."""

    def __init__(self, ground: Ground, hands: Hands, agents: AllAgents, brought: HostParts) -> None:
        self._ground = ground
        self._hands = hands
        self._agents = agents
        self._brought = brought
        # Plugins that a host added while the session ran.
        self._added: tuple[str, ...] = ()

    def styles(self) -> tuple[str, ...]:
        """Looks for output styles alone; their names."""
        ground = self._ground
        ground.speech.reload(ground.rules.standing, ground.plugins.styles())
        return tuple(one.name for one in ground.speech.styles.found)

    async def all(self, added: tuple[str, ...] = ()) -> Reloaded:
        """Everything; `added` are folders of further plugins, which whoever names them trusts."""
        ground, hands = self._ground, self._hands
        self._added += tuple(folder for folder in added if folder not in self._added)
        options = ground.options
        options = replace(options, plugin_folders=(*options.plugin_folders, *self._added))
        noticed = await hands.hook_settings.refresh(hands.hooks)
        complaints = of_own(noticed)
        standing, plugins = ground.rules.standing, ground.plugins
        plugins.unhook(hands.hooks)
        plugins.replace(plugins_of(options, standing))
        faults = plugins.hook(hands.hooks, standing.layers)
        hands.skills.reload(plugins.skills())
        found = in_files(ground, plugins.agents())
        self._agents.reload((spec for one in found for spec in one.specs), faults_of(found))
        code = language_servers(
            standing,
            ground.launcher,
            hands.tool_session.shell.environment,
            plugins=plugins.language_servers(),
            detects=not ground.options.is_bare,
        )
        new = await hands.code.replace(code)
        hands.toolbox.gain(tool for tool in new if is_wanted(ground.options, tool))
        servers = find_servers(ground.options, standing, self._brought, plugins.servers())
        begun, ended, errors = await hands.mcp.exchange_plugins(servers)
        return Reloaded(
            plugins=tuple(plugin.record() for plugin in plugins),
            skills=tuple(skill.name for skill in hands.skills.all()),
            agents=tuple(spec.name for spec in self._agents.catalog),
            styles=self.styles(),
            begun=tuple(begun),
            ended=tuple(ended),
            faults=(
                *complaints,
                *plugins.faults,
                *faults,
                *hands.skills.faults,
                *self._agents.faults,
                *code.notices,
                *ground.speech.styles.faults,
                *(f"MCP server {name}: {why}" for name, why in errors.items()),
            ),
        )
