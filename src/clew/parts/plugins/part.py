"""The plugins of a session, enabled or given on the command line, and what each contributes.

No program of a plugin runs before the user has approved the plugin's exact content. Its text
(commands, skills, agents, styles) is available as soon as the plugin is enabled. A plugin given
with --plugin-dir is trusted for the session, because the option itself is the approval.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from clew.agent.hooks.handlers import read_hooks
from clew.agent.options import Options
from clew.core.json_object import Json
from clew.core.messages.errors import UserError
from clew.parts.mcp.scopes import ServerEntry
from clew.parts.part import Part
from clew.parts.skills.folders import FromPlugin
from clew.permissions.session_rules import CurrentRules
from clew.system.config.layers import Layer, select_usable
from clew.system.config.settings import read_object, read_switch
from clew.system.files import is_folder

if TYPE_CHECKING:
    from clew.agent.hooks.run import SessionHooks
    from clew.parts.plugins.parts import Parts


# The prefix of the names of plugins' MCP servers.
OF_PLUGINS = "plugin:"


class Plugin(Struct, frozen=True, kw_only=True):
    """One plugin of a session. Its hooks and servers are started only if `may_run` is true."""

    parts: Parts
    may_run: bool
    # Whether the session uses the plugin's MCP servers.
    has_servers: bool = True
    # NAME@MARKETPLACE of an installed plugin, which distinguishes it from others of the same name.
    id: str = ""

    @property
    def name(self) -> str:
        return self.parts.manifest.name

    def record(self) -> Json:
        """Return a description of the plugin for host programs."""
        fields = {"name": self.name, "path": str(self.parts.root)}
        version = self.parts.manifest.version
        return fields | ({"version": version} if version else {})


class SessionPlugins(Part):
    """The session part for plugins: those found by the last search, and the errors in others."""

    name = "plugins"

    def __init__(self, plugins: Sequence[Plugin] = (), faults: Sequence[str] = ()) -> None:
        self.all = tuple(plugins)
        self.faults = tuple(faults)

    def __iter__(self) -> Iterator[Plugin]:
        return iter(self.all)

    def notices(self) -> tuple[str, ...]:
        return self.faults

    def replace(self, plugins: SessionPlugins) -> None:
        """Replace the plugins and errors with those of a newer search."""
        self.all, self.faults = plugins.all, plugins.faults

    def skills(self) -> list[FromPlugin]:
        return [
            FromPlugin(
                name=plugin.name,
                root=plugin.parts.root,
                is_trusted=plugin.may_run,
                command_folders=tuple(plugin.parts.command_folders),
                command_files=tuple(plugin.parts.command_files),
                skill_folders=tuple(plugin.parts.skill_folders),
                single_skills=tuple(plugin.parts.single_skills),
            )
            for plugin in self
        ]

    def agents(self) -> list[tuple[str, Path]]:
        return [(plugin.name, path) for plugin in self for path in plugin.parts.agents]

    def styles(self) -> list[tuple[Path, str]]:
        return [(path, f"{plugin.name}:") for plugin in self for path in plugin.parts.styles]

    def hook(self, hooks: SessionHooks, layers: Sequence[Layer]) -> list[str]:
        """Add the hooks of plugins that may run. Return an error message for each invalid hook."""
        faults: list[str] = []
        for plugin in self:
            variables = tuple(plugin.parts.variables.items())
            for entry in plugin.parts.hooks if plugin.may_run else ():
                listing = read_hooks(entry, source=source_of(plugin), variables=variables)
                faults += [f"plugin {plugin.name}: {fault}" for fault in listing.faults]
                if not managed_hooks_only(layers):
                    hooks.add(listing.hooks)
        return faults

    def unhook(self, hooks: SessionHooks) -> None:
        for plugin in self:
            hooks.remove(source_of(plugin))

    def servers(self) -> list[ServerEntry]:
        """Return the MCP servers of all plugins.

        The servers of a plugin that may not run are listed, but do not start.
        """
        return [
            ServerEntry(
                name=f"{OF_PLUGINS}{plugin.name}:{name}",
                scope="user",
                source=str(plugin.parts.root),
                value=value,
                held="" if plugin.may_run else waiting(plugin.id),
            )
            for plugin in self
            if plugin.has_servers
            for name, value in plugin.parts.mcp_servers.items()
        ]

    def language_servers(self) -> dict[str, Any]:
        """Return the configurations of language servers, by name, from plugins that may run."""
        return {
            f"{plugin.name}:{name}": value
            for plugin in self
            if plugin.may_run
            for name, value in plugin.parts.lsp_servers.items()
        }


def source_of(plugin: Plugin) -> str:
    """Return the source name that marks a hook as the plugin's."""
    return f"plugin:{plugin.name}"


def waiting(name: str) -> str:
    return f"the plugin's current content is not trusted; run: clew plugin trust {name}"


def load_plugins(options: Options, standing: CurrentRules) -> SessionPlugins:
    """Return the part with the session's plugins. If there are none, no code for them is loaded."""
    settings, places = standing.settings, standing.places
    enabled_plugins = read_object(settings, "enabledPlugins")
    wanted = any(enabled_plugins.values()) and not options.is_bare
    if not wanted and not options.plugin_folders:
        return SessionPlugins()
    from clew.parts.plugins.parts import parts_of, read_manifest
    from clew.parts.plugins.store import Store

    store = Store(places)
    plugins: list[Plugin] = []
    faults: list[str] = []
    for folder in options.plugin_folders:
        root = (places.cwd / folder).resolve()
        manifest = read_manifest(root)
        if isinstance(manifest, str) or not is_folder(root):
            faults.append(
                f"--plugin-dir {manifest if isinstance(manifest, str) else root}: not a plugin"
            )
            continue
        plugins.append(
            Plugin(
                parts=parts_of(root, manifest, store.data(manifest.name)),
                may_run=True,
                has_servers=folder not in options.plugins_without_servers,
            )
        )
    if wanted:
        for plugin in installed(store, settings, faults):
            other = next(
                (loaded_plugin for loaded_plugin in plugins if loaded_plugin.name == plugin.name),
                None,
            )
            if other is None:
                plugins.append(plugin)
            elif other.id:
                faults.append(
                    f"plugin {plugin.id} ignored: {other.id} has the same name; "
                    f"to disable {plugin.id}, run: clew plugin disable {plugin.id}"
                )
    for loaded_plugin in plugins:
        faults += loaded_plugin.parts.faults
        if loaded_plugin.parts.runs and not loaded_plugin.may_run:
            faults.append(
                f"plugin {loaded_plugin.id}: its programs don't start: {waiting(loaded_plugin.id)}"
            )
    return SessionPlugins(plugins, faults)


def installed(store: Any, settings: Json, faults: list[str]) -> Iterator[Plugin]:
    """Yield the installed plugins that are enabled.

    The content is hashed only if the user approved the plugin. Its programs may run if the hash is
    unchanged.
    """
    from clew.parts.plugins.install import read_parts
    from clew.parts.plugins.store import compute_fingerprint, is_on

    every = store.all()
    for name, value in read_object(settings, "enabledPlugins").items():
        if value is True and name not in every:
            faults.append(
                f"plugin {name} is enabled but not installed; run: clew plugin install {name}"
            )
    for plugin in every.values():
        if not is_on(settings, plugin):
            continue
        try:
            parts = read_parts(store, plugin)
        except UserError as error:
            faults.append(str(error))
            continue
        may_run = bool(plugin.trusted) and compute_fingerprint(parts.root) == plugin.trusted
        yield Plugin(parts=parts, may_run=may_run, id=plugin.id)


def managed_hooks_only(layers: Sequence[Layer]) -> bool:
    """Return whether plugins' hooks are disabled because only managed hooks, or none, may run."""
    return any(
        layer.scope == "managed" and read_switch(layer.data, "allowManagedHooksOnly")
        for layer in layers
    ) or any(read_switch(select_usable(layer), "disableAllHooks") for layer in layers)
