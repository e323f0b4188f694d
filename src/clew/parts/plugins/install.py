"""Install, update and pin plugins, and the marketplaces that offer them.

Owns the order of steps: fetch the files, read them, show what they add, ask, and only then record
the plugin. Its programs require the user's approval; its text does not.
"""

import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from clew.core.messages.errors import UserError
from clew.parts.plugins.fetch import bring, resolve_inside
from clew.parts.plugins.manifest import (
    NPM,
    Market,
    MarketplacePlugin,
    PluginSource,
    last_of,
    parse_market,
    parse_source,
)
from clew.parts.plugins.parts import (
    NOTHING,
    Parts,
    decode_file,
    is_nothing,
    parts_of,
    read_manifest,
)
from clew.parts.plugins.store import LOCAL, Installed, KnownMarketplace, Store, compute_fingerprint
from clew.system.config.json_text import remove_value
from clew.system.config.layers import find_value
from clew.system.config.load import assign, load_settings, read
from clew.system.config.paths import Places
from clew.system.config.settings import value_in
from clew.system.files import (
    hold_lock,
    is_folder,
    is_link,
    is_there,
    make_private,
    replace,
    try_lock,
)

MARKET = Path(".claude-plugin", "marketplace.json")
SCOPES = ("user", "project", "local")


class PluginInstaller(Struct, frozen=True, kw_only=True):
    """The installer of plugins, with its folders, environment, and a way to ask the user."""

    places: Places
    store: Store
    environ: Mapping[str, str]
    # Shows what a plugin adds and asks whether it may run.
    agrees: Callable[[Parts], bool]

    def parts(self, plugin: Installed) -> Parts:
        """Return an installed plugin's parts. Raise UserError if the plugin is invalid."""
        return read_parts(self.store, plugin)


def read_parts(store: Store, plugin: Installed) -> Parts:
    root = Path(plugin.path)
    manifest = read_manifest(root, plugin.declared)
    if not is_folder(root) or isinstance(manifest, str):
        why = manifest if isinstance(manifest, str) else "its folder no longer exists"
        raise UserError(f"plugin {plugin.id}: {why}")
    return parts_of(root, structs.replace(manifest, name=plugin.name), store.data(plugin.id))


def install(
    desk: PluginInstaller, wanted: str, *, scope: str, trusts: bool | None
) -> tuple[Installed, Parts]:
    """Install the plugin that the user named: from a marketplace, a folder or a repository."""
    offer, base, at = found(desk, wanted)
    permitted(desk.places, offer.source)
    return settle(desk, offer, base=base, at=at, scope=scope, trusts=trusts, before=None)


def found(desk: PluginInstaller, wanted: str) -> tuple[MarketplacePlugin, Path, str]:
    """Return the plugin that `wanted` names, the base for relative paths, and the marketplace."""
    name, _, at = wanted.partition("@")
    looks_like_place = "/" in wanted or wanted.startswith((".", "~")) or ":" in wanted
    if looks_like_place:
        source = typed(wanted)
        full_source = source if source.url else at_home(desk.places.cwd, source)
        return MarketplacePlugin(name=last_of(full_source), source=source), desk.places.cwd, LOCAL
    offers: list[tuple[str, Path, MarketplacePlugin]] = []
    faults: list[str] = []
    for market_name, marketplace in desk.store.markets().items():
        if at and market_name != at:
            continue
        try:
            all_of_it = read_market(Path(marketplace.path)).offers
        except UserError as error:
            faults.append(f"\n! marketplace {market_name}: {error}")
            continue
        base = base_of(Path(marketplace.path))
        offers += [(market_name, base, offer) for offer in all_of_it if offer.name == name]
    if not offers:
        raise UserError(
            f"no marketplace offers {wanted}; "
            "to list marketplaces, run: clew plugin marketplace list. "
            f"To install a folder, include a slash, as in ./folder{''.join(faults)}"
        )
    if len(offers) > 1:
        names = ", ".join(f"{name}@{market_name}" for market_name, _, _ in offers)
        raise UserError(f"{name} is offered by several marketplaces; use one of {names}")
    market_name, base, offer = offers[0]
    if not offer.source.url:
        resolve_inside(base, offer.source.path)
    return offer, base, market_name


def at_home(base: Path, source: PluginSource) -> PluginSource:
    """Return a local source with an absolute path. A relative path starts from `base`."""
    return PluginSource(path=str((base / Path(source.path).expanduser()).resolve()))


def settle(
    desk: PluginInstaller,
    offer: MarketplacePlugin,
    *,
    base: Path,
    at: str,
    scope: str | None,
    trusts: bool | None,
    before: Installed | None,
) -> tuple[Installed, Parts]:
    """Fetch a plugin's files, ask the user for approval, and record the plugin."""
    store, source = desk.store, offer.source
    full_source = source if source.url else at_home(base, source)
    with drafted(store.copies) as draft:
        commit = bring(source, draft, base=base, environ=desk.environ)
        manifest = read_manifest(draft, offer.declared, called=offer.name)
        if isinstance(manifest, str):
            raise UserError(manifest.replace(str(draft), str(source)))
        if is_nothing(parts_of(draft, manifest, store.data(manifest.name))):
            raise UserError(f"{source}: {NOTHING}")
        plugin_id = before.id if before is not None else f"{manifest.name}@{at}"
        previous = store.own().get(plugin_id) if before is None else None
        if previous is not None and at == LOCAL and not is_same(previous.source, full_source):
            raise UserError(
                f"{plugin_id} is already installed from {previous.source}; to replace it, "
                f"first run: clew plugin remove {plugin_id}"
            )
        if previous is not None and previous.is_pinned:
            raise UserError(pinned(previous))
        print_of = compute_fingerprint(draft)
        target = store.copies / plugin_id / (commit[:12] or print_of[:12])
        shutil.rmtree(target, ignore_errors=True)
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft.rename(target)
    plugin = Installed(
        id=plugin_id,
        path=str(target),
        source=full_source,
        version=manifest.version,
        commit=commit,
        is_pinned=bool(source.commit),
        declared=offer.declared,
    )
    parts = desk.parts(plugin)
    if parts.runs and (desk.agrees(parts) if trusts is None else trusts):
        plugin = structs.replace(plugin, trusted=print_of)
    store.keep(plugin)
    if before is not None and before.path != plugin.path:
        shutil.rmtree(before.path, ignore_errors=True)
    if scope is not None:
        switch(desk, plugin.id, scope, on=True)
    return plugin, parts


def is_same(source: PluginSource, other: PluginSource) -> bool:
    """Return whether two sources are the same, regardless of the version."""
    return (source.url, source.path, source.registry) == (other.url, other.path, other.registry)


@contextmanager
def drafted(above: Path) -> Iterator[Path]:
    """Yield a new temporary path below `above`, for files whose final name is still unknown."""
    make_private(above)
    with tempfile.TemporaryDirectory(dir=above, prefix=".new-") as scratch:
        yield Path(scratch, "whole")


def update(
    desk: PluginInstaller, plugin: Installed, *, trusts: bool | None
) -> tuple[Installed, Parts]:
    """Update a plugin from its source.

    The user must approve its programs again, unless the source is a folder with the approved
    content.
    """
    if plugin.is_foreign:
        raise UserError(f"{plugin.id} was installed by another tool; update it there")
    if plugin.is_pinned:
        raise UserError(pinned(plugin))
    return renewed(desk, plugin, plugin.source, trusts=trusts)


def pinned(plugin: Installed) -> str:
    """Return the error message for an attempt to update a pinned plugin."""
    at = plugin.commit or plugin.version or "its content"
    return f"{plugin.id} is pinned to {at}; to update it, first run: clew plugin unpin {plugin.id}"


def renewed(
    desk: PluginInstaller, plugin: Installed, source: PluginSource, *, trusts: bool | None
) -> tuple[Installed, Parts]:
    return settle(
        desk,
        MarketplacePlugin(name=plugin.name, source=source, declared=plugin.declared),
        base=desk.places.cwd,
        at="",
        scope=None,
        trusts=True if trusts is None and unchanged(plugin, source) else trusts,
        before=plugin,
    )


def unchanged(plugin: Installed, source: PluginSource) -> bool:
    """Return whether a source folder still has the content that the user approved."""
    if source.url or not plugin.trusted or not is_folder(source.path):
        return False
    return compute_fingerprint(Path(source.path)) == plugin.trusted


def pin(desk: PluginInstaller, plugin: Installed, commit: str, *, trusts: bool | None) -> Installed:
    """Pin a plugin to a commit, by default the installed one.

    A plugin that was copied from a folder or a package is pinned to its content.
    """
    if plugin.is_foreign:
        raise UserError(f"{plugin.id} was installed by another tool; pin it there")
    if commit and (not plugin.source.url or plugin.source.is_package):
        kind = "package" if plugin.source.is_package else "folder"
        raise UserError(
            f"{plugin.id} is a copy of a {kind}, which has no commits; pin it without a commit"
        )
    if commit and commit != plugin.commit:
        source = structs.replace(plugin.source, ref="", commit=commit)
        plugin, _ = renewed(desk, plugin, source, trusts=trusts)
    pinned = structs.replace(plugin, is_pinned=True)
    desk.store.keep(pinned)
    return pinned


def unpin(desk: PluginInstaller, plugin: Installed) -> None:
    source = structs.replace(plugin.source, commit="")
    desk.store.keep(structs.replace(plugin, is_pinned=False, source=source))


def switch(desk: PluginInstaller, plugin_id: str, scope: str, *, on: bool) -> Path:
    """Enable or disable a plugin in the settings of a scope."""
    kinds: dict[str, Any] = {"user": "user", "project": "project", "local": "local"}
    return assign(desk.places, kinds[scope], ("enabledPlugins", plugin_id), on).path


# -- marketplaces


def read_market(folder: Path) -> Market:
    path = folder / MARKET if is_folder(folder) else folder
    data = decode_file(path)
    result = data if isinstance(data, str) else parse_market(data)
    if isinstance(result, str):
        raise UserError(f"{path}: {result}")
    if result.name == LOCAL:
        # Otherwise, NAME@local would be ambiguous.
        raise UserError(f'{path}: name: "{LOCAL}" is reserved for plugins without a marketplace')
    return result


def base_of(path: Path) -> Path:
    """Return the folder that relative sources in a marketplace start from."""
    base = path if is_folder(path) else path.parent
    return base.parent if base.name == MARKET.parent.name else base


def add_market(desk: PluginInstaller, words: str) -> Market:
    """Add a marketplace. A local folder or file is used in place; a repository is copied."""
    source = typed(words)
    permitted(desk.places, source)
    if not source.url:
        path = (desk.places.cwd / Path(source.path).expanduser()).resolve()
        new_market = read_market(path)
        desk.store.keep_market(
            new_market.name, KnownMarketplace(source=PluginSource(path=str(path)), path=str(path))
        )
        return new_market
    folder = desk.store.folder / "markets"
    with drafted(folder) as draft:
        bring(source, draft, base=desk.places.cwd, environ=desk.environ)
        try:
            new_market = read_market(draft)
        except UserError as error:
            raise UserError(str(error).replace(str(draft), str(source))) from None
        target = folder / new_market.name
        shutil.rmtree(target, ignore_errors=True)
        draft.rename(target)
    desk.store.keep_market(new_market.name, KnownMarketplace(source=source, path=str(target)))
    return new_market


def typed(words: str) -> PluginSource:
    try:
        return parse_source(words)
    except ValueError as error:
        raise UserError(str(error)) from None


def get_marketplace(desk: PluginInstaller, name: str) -> KnownMarketplace:
    marketplace = desk.store.markets().get(name)
    if marketplace is None:
        raise UserError(
            f"marketplace not found: {name}; to list them, run: clew plugin marketplace list"
        )
    return marketplace


def update_market(desk: PluginInstaller, name: str) -> Market:
    marketplace = get_marketplace(desk, name)
    source = marketplace.source
    return add_market(desk, str(source) if source.url else source.path)


def remove_market(desk: PluginInstaller, name: str) -> None:
    marketplace = get_marketplace(desk, name)
    desk.store.keep_market(name, None)
    if marketplace.source.url:
        shutil.rmtree(marketplace.path, ignore_errors=True)


def permitted(places: Places, source: PluginSource) -> None:
    """Raise UserError if an administrator's list does not allow a source.

    If there is no such list, all sources are allowed.
    """
    for layer in load_settings(places).layers:
        listed = value_in(layer.data, "strictKnownMarketplaces")
        if layer.scope == "managed" and isinstance(listed, list) and not named_by(listed, source):
            raise UserError(f"{source}: not allowed by your organization (strictKnownMarketplaces)")


def named_by(listed: Sequence[Any], source: PluginSource) -> bool:
    for entry in listed:
        fields = entry if isinstance(entry, dict) else {}
        repo = fields.get("repo")
        url = f"https://github.com/{repo}.git" if isinstance(repo, str) else fields.get("url")
        if isinstance(fields.get("package"), str):
            url = f"{NPM}{fields['package']}"
        if source.url and url == source.url:
            return True
        path = fields.get("path")
        if not source.url and isinstance(path, str) and Path(source.path).resolve() == Path(path):
            return True
    return False


# Remove plugins: record the removal and rename the files at once, then delete them.


# The prefix of folders that are removed but not deleted yet.
GONE = ".gone-"


def remove(desk: PluginInstaller, plugin: Installed) -> list[Path]:
    """Remove a plugin and everything that clew wrote for it. Return the paths that changed.

    The plugin's folders are only renamed, which is quick even if they contain many files;
    `sweep_leftovers` deletes them.
    """
    if plugin.is_foreign:
        raise UserError(
            f"{plugin.id} was installed by another tool; remove it there, or disable it here: "
            f"clew plugin disable {plugin.id}"
        )
    changed = [path for scope in SCOPES for path in switched_nowhere(desk, plugin.id, scope)]
    desk.store.forget(plugin.id)
    gone: list[Path] = []
    for folder in (desk.store.copies / plugin.id, desk.store.data(plugin.id)):
        if is_there(folder) or is_link(folder):
            # In the same folder, because its parent may be on another file system.
            folder.rename(folder.with_name(f"{GONE}{secrets.token_hex(8)}"))
            gone.append(folder)
    return [*gone, *changed]


def switched_nowhere(desk: PluginInstaller, plugin_id: str, scope: str) -> list[Path]:
    """Remove a plugin's entry from the settings of a scope.

    Return the settings file if it changed.
    """
    path, key = desk.places.settings_file(scope), ("enabledPlugins", plugin_id)
    with hold_lock(desk.places.config_home):
        layer = read("local", path, str(desk.places.root)) if is_there(path) else None
        if layer is None or layer.unreadable is not None or not find_value(layer.data, key)[0]:
            return []
        # An empty object would still require trust in the folder.
        is_last = len(find_value(layer.data, key[:1])[1]) == 1
        replace(path, remove_value(layer.text, key[:1] if is_last else key))
    return [path]


def sweep_leftovers(desk: PluginInstaller) -> None:
    """Delete the files of removed plugins, including those left by an interrupted removal."""
    for above in (desk.store.copies, desk.store.kept):
        for folder in above.glob(f"{GONE}*"):
            deleted(folder)


def deleted(folder: Path) -> None:
    """Delete a folder, unless another process is deleting it. If it is a link, its target stays."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        folder.unlink(missing_ok=True)
        return
    try:
        if try_lock(handle) and is_folder(folder):
            shutil.rmtree(folder)
    finally:
        os.close(handle)
