"""The installed plugins: those that clew recorded, and, read-only, those from other tools.

Owns `<config home>/clew/plugins/`: `installed.json`, `marketplaces.json`, and a folder of copies.
Whether a plugin is enabled is a setting (`enabledPlugins`), as in other tools. Its programs may run
only if the user trusts its exact content: a plugin that has changed must be approved again.

Decision: docs/decisions/136-trust-in-projects.md
"""

import contextlib
import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from clew.core.json_object import Json
from clew.parts.plugins.manifest import PluginSource
from clew.system.config.own_files import read_own, write_own
from clew.system.config.paths import Places
from clew.system.config.settings import read_object
from clew.system.files import hold_lock, is_folder, is_link, open_only_files

LOCAL = "local"
MAX_FILES = 20_000


class Installed(Struct, frozen=True, kw_only=True):
    """An installed plugin. `trusted` is the fingerprint of the content that the user approved."""

    id: str
    path: str
    source: PluginSource = PluginSource()
    version: str = ""
    commit: str = ""
    trusted: str = ""
    is_pinned: bool = False
    # The fields of its entry in the marketplace.
    declared: Json = {}
    # Whether another tool installed the plugin; clew must not change that tool's files.
    is_foreign: bool = False

    @property
    def name(self) -> str:
        return self.id.partition("@")[0]


class KnownMarketplace(Struct, frozen=True, kw_only=True):
    """A marketplace that the user added: its source, and the path of its folder."""

    source: PluginSource
    path: str


class Store:
    """The record of installed plugins and known marketplaces.

    The files are read on each use. A file that cannot be read is treated as empty.
    """

    def __init__(self, places: Places) -> None:
        self._places = places
        self.folder = places.own / "plugins"

    @property
    def copies(self) -> Path:
        return self.folder / "copies"

    @property
    def kept(self) -> Path:
        return self.folder / "data"

    def data(self, plugin_id: str) -> Path:
        """Return the folder where a plugin may store its own data."""
        return self.kept / plugin_id.replace("@", "-")

    def own(self) -> dict[str, Installed]:
        data = read_own(self.folder / "installed.json")
        return {
            name: plugin
            for name, value in members(data.get("plugins"))
            if (plugin := converted(value, Installed)) is not None and plugin.id == name
        }

    def all(self) -> dict[str, Installed]:
        """Return all installed plugins by ID.

        If clew and another tool installed the same plugin, clew's copy is used. Clew records trust
        for its own plugins and for those of other tools.
        """
        trusted = {name: value for name, value in members(self._trusts()) if isinstance(value, str)}
        others = {
            other.id: msgspec.structs.replace(other, trusted=trusted.get(other.id, ""))
            for other in self._others()
        }
        return {**others, **self.own()}

    def _trusts(self) -> Any:
        return read_own(self.folder / "installed.json").get("trustedOthers")

    def _others(self) -> Iterator[Installed]:
        """Yield the plugins that other tools installed, for this project or for all projects.

        `plugins/installed_plugins.json` maps a plugin to an entry or to a list of entries.
        """
        data = read_own(self._places.config_home / "plugins" / "installed_plugins.json")
        for plugin_id, value in members(data.get("plugins")):
            for entry in value if isinstance(value, list) else [value]:
                fields = entry if isinstance(entry, dict) else {}
                path, project = fields.get("installPath"), fields.get("projectPath")
                is_here = project is None or project == str(self._places.root)
                if isinstance(path, str) and path and is_here:
                    yield Installed(
                        id=plugin_id,
                        path=path,
                        version=str(fields.get("version") or ""),
                        commit=str(fields.get("gitCommitSha") or ""),
                        is_foreign=True,
                    )

    def keep(self, plugin: Installed) -> None:
        with hold_lock(self._places.config_home):
            data = read_own(self.folder / "installed.json")
            plugins = dict(members(data.get("plugins")))
            self._write(data | {"plugins": plugins | {plugin.id: msgspec.to_builtins(plugin)}})

    def trust(self, plugin: Installed, fingerprint: str) -> None:
        """Record that the user trusts this content, even if another tool installed the plugin."""
        if not plugin.is_foreign:
            self.keep(msgspec.structs.replace(plugin, trusted=fingerprint))
            return
        with hold_lock(self._places.config_home):
            data = read_own(self.folder / "installed.json")
            trusted = dict(members(data.get("trustedOthers")))
            self._write(data | {"trustedOthers": trusted | {plugin.id: fingerprint}})

    def forget(self, plugin_id: str) -> None:
        with hold_lock(self._places.config_home):
            data = read_own(self.folder / "installed.json")
            plugins = {k: v for k, v in members(data.get("plugins")) if k != plugin_id}
            self._write(data | {"plugins": plugins})

    def _write(self, data: Json) -> None:
        write_own(self.folder / "installed.json", data)

    # -- marketplaces

    def markets(self) -> dict[str, KnownMarketplace]:
        data = read_own(self.folder / "marketplaces.json")
        return {
            name: marketplace
            for name, value in members(data)
            if (marketplace := converted(value, KnownMarketplace)) is not None
        }

    def keep_market(self, name: str, marketplace: KnownMarketplace | None) -> None:
        """Record a marketplace, or remove it from the record if `marketplace` is None."""
        with hold_lock(self._places.config_home):
            markets = {k: v for k, v in self.markets().items() if k != name}
            if marketplace is not None:
                markets[name] = marketplace
            write_own(self.folder / "marketplaces.json", msgspec.to_builtins(markets))


def members(value: Any) -> Iterator[tuple[str, Any]]:
    yield from value.items() if isinstance(value, Mapping) else ()


def converted(value: Any, kind: type[Any]) -> Any:
    with contextlib.suppress(msgspec.ValidationError):
        return msgspec.convert(value, kind)
    return None


def compute_fingerprint(root: Path) -> str:
    """Return a hash over the names and contents of all of a plugin's files, except `.git`.

    The result is empty if the plugin has too many files, or if a link leads to a folder outside the
    plugin, whose files could change.
    """
    digest = hashlib.sha256()
    count = 0
    top = os.path.realpath(root)
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name != ".git")
        links = [name for name in folders if is_link(Path(folder, name))]
        if not all(
            Path(os.path.realpath(Path(folder, link))).is_relative_to(top) for link in links
        ):
            return ""
        for name in sorted((*names, *links)):
            count += 1
            path = Path(folder, name)
            if count > MAX_FILES:
                return ""
            digest.update(path.relative_to(root).as_posix().encode("utf-8", "surrogateescape"))
            digest.update(b"\0" + content_hash(path))
    return digest.hexdigest()


def content_hash(path: Path) -> bytes:
    try:
        if is_link(path):
            link = os.fsencode(path.readlink()) + b"\0"
            content = b"" if is_folder(path) else file_hash(path)
            return hashlib.sha256(link + content).digest()
        return file_hash(path)
    except OSError:
        return b"cannot be read"


def file_hash(path: Path) -> bytes:
    with open(path, "rb", opener=open_only_files) as file:
        return hashlib.file_digest(file, "sha256").digest()


def is_on(settings: Mapping[str, Any], plugin: Installed) -> bool:
    """Return whether the settings enable a plugin. The default is off."""
    return read_object(settings, "enabledPlugins").get(plugin.id) is True
