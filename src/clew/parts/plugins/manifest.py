"""A plugin's manifest, `.claude-plugin/plugin.json`, and the entries of marketplaces. Does no I/O.

Owns the fields of manifests and marketplaces. Errors are returned as text. Unknown fields are
ignored, because they belong to other tools.
"""

import re
from typing import Any

from msgspec import Struct

from clew.core.json_object import Json

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
SHORT = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")
REMOTE = ("https://", "http://", "ssh://", "git@", "file://")
NPM = "npm:"
PACKAGE = re.compile(r"(?:@[a-z0-9][a-z0-9._~-]*/)?[a-z0-9][a-z0-9._~-]*")
VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+-]*")
# Fields that may name paths in addition to the usual folders.
KINDS = ("commands", "agents", "skills", "outputStyles", "hooks", "mcpServers", "lspServers")


class Manifest(Struct, frozen=True, kw_only=True):
    """A plugin's manifest. `declared` contains the parts that the manifest names, unchanged."""

    name: str
    version: str = ""
    description: str = ""
    author: str = ""
    declared: Json = {}


class PluginSource(Struct, frozen=True, kw_only=True):
    """The source of a plugin or marketplace: a folder, a git repository or an npm package."""

    # The URL of a repository, or `npm:` and a package name; empty for a folder.
    url: str = ""
    # The folder, or the folder within the repository.
    path: str = ""
    # A branch or tag; for a package, its version.
    ref: str = ""
    commit: str = ""
    # For a package: the registry, if not npm's default.
    registry: str = ""

    @property
    def is_package(self) -> bool:
        return self.url.startswith(NPM)

    def __str__(self) -> str:
        if not self.url:
            return self.path
        if self.is_package:
            return self.url + (f"@{self.ref}" if self.ref else "")
        return self.url + (f"#{self.ref or self.commit}" if self.ref or self.commit else "")


def last_of(source: PluginSource) -> str:
    """Return the last part of a source, which serves as the name of a plugin that has none."""
    place = source.path or source.url.rstrip("/").removesuffix(".git")
    return re.split(r"[/:]", place.rstrip("/"))[-1]


class MarketplacePlugin(Struct, frozen=True, kw_only=True):
    """A plugin that a marketplace offers. A relative source is a folder in the marketplace."""

    name: str
    source: PluginSource
    description: str = ""
    version: str = ""
    declared: Json = {}


class Market(Struct, frozen=True, kw_only=True):
    name: str
    offers: tuple[MarketplacePlugin, ...]
    faults: tuple[str, ...] = ()


def parse_manifest(data: Any) -> Manifest | str:
    """Return the manifest in the decoded content of a plugin.json, or an error message."""
    if not isinstance(data, dict):
        return "expected an object"
    name = data.get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        return "name: must consist of letters, digits, - _ and ."
    author = data.get("author")
    return Manifest(
        name=name,
        version=text(data, "version"),
        description=text(data, "description"),
        author=text(author, "name") if isinstance(author, dict) else text(data, "author"),
        declared={kind: data[kind] for kind in KINDS if kind in data},
    )


def text(data: Json, key: str) -> str:
    value = data.get(key)
    return value if isinstance(value, str) else ""


def parse_market(data: Any) -> Market | str:
    """Return the marketplace in the decoded content of a marketplace.json, or an error message."""
    if not isinstance(data, dict):
        return "expected an object"
    name, listed = data.get("name"), data.get("plugins")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        return "name: must consist of letters, digits, - _ and ."
    if not isinstance(listed, list):
        return "plugins: expected an array"
    metadata = data.get("metadata")
    base = text(metadata, "pluginRoot") if isinstance(metadata, dict) else ""
    offers: list[MarketplacePlugin] = []
    faults: list[str] = []
    for i, entry in enumerate(listed):
        plugin = offer(entry, base)
        if isinstance(plugin, str):
            faults.append(f"plugins[{i}]: {plugin}")
        else:
            offers.append(plugin)
    return Market(name=name, offers=tuple(offers), faults=tuple(faults))


def offer(entry: Any, base: str) -> MarketplacePlugin | str:
    plugin_manifest = parse_manifest(entry)
    if isinstance(plugin_manifest, str):
        return plugin_manifest
    plugin_source = source(entry.get("source"))
    if isinstance(plugin_source, str):
        return f"{plugin_manifest.name}: {plugin_source}"
    if not plugin_source.url and base:
        plugin_source = PluginSource(
            path=f"{base.rstrip('/')}/{plugin_source.path.removeprefix('./')}"
        )
    return MarketplacePlugin(
        name=plugin_manifest.name,
        source=plugin_source,
        description=plugin_manifest.description,
        version=plugin_manifest.version,
        declared=plugin_manifest.declared,
    )


def source(value: Any) -> PluginSource | str:
    """Return the source in a marketplace's entry or a setting, or an error message.

    A string is a relative folder.
    """
    if isinstance(value, str):
        return PluginSource(path=value) if value else "source: empty"
    if not isinstance(value, dict):
        return "source: expected a path or an object"
    kind, commit = text(value, "source"), text(value, "sha")
    if commit and not COMMIT.fullmatch(commit):
        return "source.sha: expected a full commit ID"
    fields = {"ref": text(value, "ref"), "commit": commit}
    if kind == "github":
        repo = text(value, "repo")
        if not SHORT.fullmatch(repo):
            return "source.repo: expected owner/name"
        url = f"https://github.com/{repo}.git"
        return PluginSource(url=url, path=text(value, "path"), **fields)
    if kind in ("url", "git", "git-subdir"):
        url = text(value, "url")
        if not url.startswith(REMOTE):
            return "source.url: expected the URL of a git repository"
        return PluginSource(url=url, path=text(value, "path"), **fields)
    if kind in ("directory", "file", "local"):
        return (
            PluginSource(path=text(value, "path")) if value.get("path") else "source.path: missing"
        )
    if kind == "npm":
        return package(text(value, "package"), text(value, "version"), text(value, "registry"))
    return f"source: expected one of directory, github, url, git-subdir, npm; got {kind!r}"


def package(name: str, version: str, registry: str = "") -> PluginSource | str:
    """Return the source for an npm package. For other forms that npm accepts, return an error."""
    if not PACKAGE.fullmatch(name):
        return "source.package: expected a package name"
    if version and not VERSION.fullmatch(version):
        return "source.version: expected a version or a tag"
    if registry and not registry.startswith(("https://", "http://")):
        return "source.registry: expected a URL"
    return PluginSource(url=f"{NPM}{name}", ref=version, registry=registry)


def parse_source(words: str) -> PluginSource:
    """Parse a source that the user typed. Raise ValueError if it is invalid.

    A source is a folder, `owner/name`, or a URL, each with an optional branch, tag or commit after
    #; or `npm:` followed by a package name.
    """
    if words.startswith(NPM):
        package_name = words.removeprefix(NPM)
        # The first character may be the @ of a scope.
        name, _, version = package_name[1:].partition("@")
        plugin_source = package(package_name[:1] + name, version)
        if isinstance(plugin_source, str):
            raise ValueError(f"{words}: {plugin_source}")
        return plugin_source
    place, _, ref = words.partition("#")
    fields = {"commit": ref} if COMMIT.fullmatch(ref) else {"ref": ref}
    if place.startswith(REMOTE):
        return PluginSource(url=place, **fields)
    if SHORT.fullmatch(place) and not place.startswith("."):
        return PluginSource(url=f"https://github.com/{place}.git", **fields)
    return PluginSource(path=place)


def with_root(value: Any, places: dict[str, str]) -> Any:
    """Return a value with `${NAME}` replaced in all its strings, for the names in `places` only."""
    if isinstance(value, str):
        for name, place in places.items():
            value = value.replace(f"${{{name}}}", place)
        return value
    if isinstance(value, dict):
        return {key: with_root(item, places) for key, item in value.items()}
    return [with_root(item, places) for item in value] if isinstance(value, list) else value
