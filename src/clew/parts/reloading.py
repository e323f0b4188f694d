"""Reload files other than settings while a session runs.

These are the files of plugins, commands, skills, agents and output styles. Changes take effect,
including those to plugins' hooks and MCP servers, under the same trust rules as at the start. The
system prompt and its style stay as they are; the model is told about other changes with the next
prompt.
"""

from msgspec import Struct
from msgspec.structs import replace

from clew.core.json_object import Json
from clew.parts.agents.part import AgentsPart
from clew.parts.agents.places import faults_of, in_files
from clew.parts.context import Ground, HostParts
from clew.parts.hooks import HooksPart
from clew.parts.lsp.part import Code, make_language_servers
from clew.parts.mcp.part import Connected, find_servers
from clew.parts.output_styles import OutputStyles
from clew.parts.part import Part, PartContext
from clew.parts.plugins.part import SessionPlugins, load_plugins
from clew.parts.skills.part import SessionSkills
from clew.parts.toolset import is_wanted
from clew.permissions.in_session import of_own


class Reloaded(Struct, frozen=True, kw_only=True):
    """The state after reloading: plugins in the format for hosts, names of the rest, and errors."""

    plugins: tuple[Json, ...]
    skills: tuple[str, ...]
    agents: tuple[str, ...]
    styles: tuple[str, ...]
    # MCP servers of plugins that were started, and those that were stopped.
    begun: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()


class Reloading(Part):
    """The session part that reloads files on request; it uses the other parts."""

    name = "reloading"
    _context: PartContext

    def __init__(
        self,
        ground: Ground,
        *,
        plugins: SessionPlugins,
        styles: OutputStyles,
        hooks: HooksPart,
        skills: SessionSkills,
        agents: AgentsPart,
        code: Code,
        mcp: Connected,
        brought: HostParts,
    ) -> None:
        self._ground = ground
        self._plugins = plugins
        self._styles = styles
        self._hooks = hooks
        self._skills = skills
        self._agents = agents
        self._code = code
        self._mcp = mcp
        self._brought = brought
        # Plugins that a host added during the session.
        self._added: tuple[str, ...] = ()

    async def open(self, context: PartContext, /) -> None:
        self._context = context

    def styles(self) -> tuple[str, ...]:
        """Reload only the output styles, and return their names."""
        self._styles.reload(self._ground.rules.standing, self._plugins.styles())
        return tuple(style.name for style in self._styles.styles.found)

    async def all(self, added: tuple[str, ...] = ()) -> Reloaded:
        """Reload everything; `added` are folders of more plugins, which the caller trusts."""
        ground, plugins = self._ground, self._plugins
        self._added += tuple(folder for folder in added if folder not in self._added)
        options = ground.options
        options = replace(options, plugin_folders=(*options.plugin_folders, *self._added))
        noticed = await self._hooks.refresh()
        complaints = of_own(noticed)
        standing = ground.rules.standing
        plugins.unhook(self._hooks)
        plugins.replace(load_plugins(options, standing))
        faults = plugins.hook(self._hooks, standing.layers)
        self._skills.reload(plugins.skills())
        sources = in_files(ground, plugins.agents())
        self._agents.reload(
            (spec for agents in sources for spec in agents.specs), faults_of(sources)
        )
        code = make_language_servers(
            standing,
            ground.launcher,
            self._context.tool_session.shell.environment,
            plugins=plugins.language_servers(),
            detects=not ground.options.is_bare,
        )
        new = await self._code.replace(code)
        self._context.toolbox.gain(tool for tool in new if is_wanted(ground, tool))
        servers = find_servers(ground.options, standing, self._brought, plugins.servers())
        new_servers, ended, errors = await self._mcp.exchange_plugins(servers)
        return Reloaded(
            plugins=tuple(plugin.record() for plugin in plugins),
            skills=tuple(skill.name for skill in self._skills.all()),
            agents=tuple(spec.name for spec in self._agents.catalog),
            styles=self.styles(),
            begun=tuple(new_servers),
            ended=tuple(ended),
            faults=(
                *complaints,
                *plugins.faults,
                *faults,
                *self._skills.faults,
                *self._agents.faults,
                *code.notices(),
                *self._styles.styles.faults,
                *(f"MCP server {name}: {why}" for name, why in errors.items()),
            ),
        )
