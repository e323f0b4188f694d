"""`clew plugin`: install, pin, enable, list, trust and remove plugins, and manage marketplaces.

Owns the command line and the output. The module `install` does the work.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from clew.core.messages.errors import UserError
from clew.core.messages.text import format_count
from clew.parts.plugins import install as work
from clew.parts.plugins.fetch import LEADS_OUT, find_outward_link
from clew.parts.plugins.install import SCOPES, PluginInstaller, remove, sweep_leftovers
from clew.parts.plugins.parts import (
    CODE_DISABLED,
    NOTHING,
    Parts,
    describe_parts,
    is_nothing,
    parts_of,
    read_manifest,
)
from clew.parts.plugins.store import Installed, Store, compute_fingerprint, is_on
from clew.system.command_groups import Group
from clew.system.config.layers import merge
from clew.system.config.load import load_settings, select_trusted
from clew.system.config.load import trusts as trusts_folder
from clew.system.config.paths import find_places
from clew.system.files import is_folder


def main(argv: list[str]) -> int:
    places = find_places(os.environ, Path.cwd())
    desk = PluginInstaller(
        places=places, store=Store(places), environ=os.environ, agrees=TrustQuestion()
    )
    return arguments().carry_out(argv, lambda options: options.run(desk, options))


def arguments() -> Group:
    parser = Group(prog="clew plugin", description="Manage plugins and marketplaces.")
    words = parser.add_subparsers(required=True, metavar="COMMAND")

    def word(name: str, run: Any, line: str, of: Any = words) -> argparse.ArgumentParser:
        subparser: argparse.ArgumentParser = of.add_parser(name, help=line, description=line)
        subparser.set_defaults(run=run)
        return subparser

    subparser = word(
        "install", run_install, "Install a plugin from a marketplace, folder or repository"
    )
    subparser.add_argument(
        "plugin",
        help="NAME[@MARKETPLACE], ./FOLDER, owner/name, URL[#REF] or npm:PACKAGE[@VERSION]",
    )
    scoped(subparser)
    trusting(subparser)
    subparser = word("list", run_list, "List all plugins with their status and content")
    for name, run, line in (
        ("enable", run_switch, "Enable a plugin"),
        ("disable", run_switch, "Disable a plugin without removing it"),
    ):
        subparser = word(name, run, line)
        subparser.add_argument("plugin")
        subparser.set_defaults(on=name == "enable")
        scoped(subparser)
    subparser = word("trust", run_trust, "Allow a plugin, in its current version, to run code")
    subparser.add_argument("plugin")
    trusting(subparser)
    subparser = word("pin", run_pin, "Pin a plugin to a commit or to its current content")
    subparser.add_argument("plugin")
    subparser.add_argument("commit", nargs="?", default="")
    trusting(subparser)
    subparser = word("unpin", run_unpin, "Allow updates of a pinned plugin")
    subparser.add_argument("plugin")
    subparser = word("update", run_update, "Update a plugin from its source")
    subparser.add_argument("plugin")
    trusting(subparser)
    subparser = word("remove", run_remove, "Remove a plugin and all its data")
    subparser.add_argument("plugin")
    subparser = word("check", run_check, "Check a plugin folder and show what the plugin adds")
    subparser.add_argument("folder")
    markets = word("marketplace", None, "Add, list, update and remove marketplaces")
    below = markets.add_subparsers(required=True, metavar="COMMAND")
    subparser = word(
        "add", run_market_add, "Add a marketplace: folder or file, owner/name, or URL[#REF]", below
    )
    subparser.add_argument("source")
    subparser = word("list", run_market_list, "List marketplaces, or the plugins of one", below)
    subparser.add_argument("name", nargs="?", help="List the plugins of this marketplace")
    subparser = word("update", run_market_update, "Update a marketplace from its source", below)
    subparser.add_argument("name")
    subparser = word(
        "remove", run_market_remove, "Remove a marketplace; its plugins stay installed", below
    )
    subparser.add_argument("name")
    return parser


def scoped(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--scope", choices=SCOPES, default="user", help="Settings file (default: user)"
    )


def trusting(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trust", action="store_true", default=None, help="Trust the plugin without asking"
    )


class TrustQuestion:
    """Asks whether a plugin may run what it adds. If there is no terminal, the answer is no.

    `has_shown` is set once the user has seen what the plugin adds.
    """

    def __init__(self) -> None:
        self.has_shown = False

    def __call__(self, parts: Parts) -> bool:
        if not sys.stdin.isatty():
            return False
        say(f"{parts.manifest.name} adds:", *(f"  {line}" for line in describe_parts(parts)))
        self.has_shown = True
        sys.stdout.write("Allow this plugin to run its code? [y/N] ")
        sys.stdout.flush()
        return sys.stdin.readline().strip().lower() in ("y", "yes")


def say(*lines: str) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")


def named(desk: PluginInstaller, name: str) -> Installed:
    """Return the plugin with this full name, or the only one with this name before the `@`."""
    every = desk.store.all()
    meant = [plugin for plugin in every.values() if name in (plugin.id, plugin.name)]
    if len(meant) == 1:
        return meant[0]
    if meant:
        raise UserError(
            f"{name} is ambiguous; specify one of {', '.join(plugin.id for plugin in meant)}"
        )
    raise UserError(f'unknown plugin "{name}"; run clew plugin list to see the installed plugins')


def run_install(desk: PluginInstaller, options: Any) -> None:
    plugin, parts = work.install(desk, options.plugin, scope=options.scope, trusts=options.trust)
    summary(desk, f"installed {plugin.id}", plugin, parts)
    say(*waiting(desk, options.scope))


def summary(desk: PluginInstaller, done: str, plugin: Installed, parts: Parts) -> None:
    at = plugin.commit[:12] or plugin.version
    has_shown = isinstance(desk.agrees, TrustQuestion) and desk.agrees.has_shown
    lines = [] if has_shown else [f"  {line}" for line in describe_parts(parts)]
    say(f"{done}{f' at {at}' if at else ''}", *lines)
    say(*(f"! {fault}" for fault in parts.faults))
    if parts.runs and not plugin.trusted:
        say(
            f"The plugin's code will not run until you review and trust the plugin: clew plugin trust {plugin.id}"
        )


def run_list(desk: PluginInstaller, _: Any) -> None:
    loaded = load_settings(desk.places)
    layers, _ = select_trusted(desk.places, loaded.layers)
    settings = merge(layers)
    every = desk.store.all()
    if not every:
        say("no plugins; add one with: clew plugin install")
    for plugin in every.values():
        try:
            parts = desk.parts(plugin)
        except UserError as error:
            say(f"{plugin.id}: {error}")
            continue
        marks = ["on" if is_on(settings, plugin) else "off"]
        if parts.runs:
            is_same = bool(plugin.trusted) and compute_fingerprint(parts.root) == plugin.trusted
            marks.append("trusted" if is_same else CODE_DISABLED)
        marks += ["pinned"] * plugin.is_pinned + [
            "installed by another program"
        ] * plugin.is_foreign
        version = plugin.version or plugin.commit[:12]
        say(f"{plugin.id} {version}".rstrip() + f" ({', '.join(marks)})")
        say(
            *(f"  {line}" for line in describe_parts(parts)),
            *(f"  ! {fault}" for fault in parts.faults),
        )


def run_switch(desk: PluginInstaller, options: Any) -> None:
    plugin = named(desk, options.plugin)
    path = work.switch(desk, plugin.id, options.scope, on=options.on)
    waits = waiting(desk, options.scope)
    is_so = "will be" if waits else "is"
    say(f"{path}: {plugin.id} {is_so} {'enabled' if options.on else 'disabled'}", *waits)


def waiting(desk: PluginInstaller, scope: str) -> list[str]:
    """Return a note that the setting has no effect yet if it is in an untrusted folder."""
    if scope == "user" or trusts_folder(desk.places):
        return []
    return ["the setting is ignored until you trust this folder: clew config trust"]


def run_trust(desk: PluginInstaller, options: Any) -> None:
    plugin = named(desk, options.plugin)
    parts = desk.parts(plugin)
    if not (options.trust or desk.agrees(parts)):
        raise UserError(
            f"{plugin.id} is not trusted and its code will not run; confirm at a terminal, or run: clew plugin trust "
            f"{plugin.id} --trust"
        )
    desk.store.trust(plugin, compute_fingerprint(parts.root))
    say(f"{plugin.id} is trusted until its files change")


def run_pin(desk: PluginInstaller, options: Any) -> None:
    plugin = work.pin(desk, named(desk, options.plugin), options.commit, trusts=options.trust)
    say(f"{plugin.id} is pinned to {plugin.commit or 'its current content'}")


def run_unpin(desk: PluginInstaller, options: Any) -> None:
    plugin = named(desk, options.plugin)
    work.unpin(desk, plugin)
    say(f"{plugin.id} can be updated again")


def run_update(desk: PluginInstaller, options: Any) -> None:
    plugin, parts = work.update(desk, named(desk, options.plugin), trusts=options.trust)
    summary(desk, f"updated {plugin.id}", plugin, parts)


def run_remove(desk: PluginInstaller, options: Any) -> None:
    plugin = named(desk, options.plugin)
    gone = remove(desk, plugin)
    say(f"removed {plugin.id}", *(f"  {path}" for path in gone))
    sys.stdout.flush()
    sweep_leftovers(desk)


def run_check(desk: PluginInstaller, options: Any) -> None:
    root = (desk.places.cwd / options.folder).resolve()
    manifest = read_manifest(root)
    if isinstance(manifest, str) or not is_folder(root):
        raise UserError(manifest if isinstance(manifest, str) else f"{root}: folder not found")
    parts = parts_of(root, manifest, desk.store.data(manifest.name))
    if is_nothing(parts):
        raise UserError(f"{root}: {NOTHING}")
    say(
        f"{manifest.name} {manifest.version}".rstrip(),
        *(f"  {line}" for line in describe_parts(parts)),
    )
    faults = list(parts.faults)
    if leading_out := find_outward_link(root):
        faults.append(f"{leading_out} {LEADS_OUT}")
    if faults:
        raise UserError("\n".join(faults))


def run_market_add(desk: PluginInstaller, options: Any) -> None:
    market = work.add_market(desk, options.source)
    say(
        f"{market.name}: {format_count(len(market.offers), 'plugin')}",
        *(f"! {fault}" for fault in market.faults),
    )


def run_market_list(desk: PluginInstaller, options: Any) -> None:
    one = {options.name: work.get_marketplace(desk, options.name)} if options.name else None
    markets = one or desk.store.markets()
    if not markets:
        say("no marketplaces; add one with: clew plugin marketplace add")
    for name, marketplace in markets.items():
        try:
            offers = work.read_market(Path(marketplace.path)).offers
        except UserError as error:
            say(f"{name} ({marketplace.source})", f"  ! {error}")
            continue
        say(f"{name} ({marketplace.source}): {format_count(len(offers), 'plugin')}")
        if one:
            say(*(f"  {offer.name}: {offer.description or offer.source}" for offer in offers))
    if markets and not one:
        say("to list the plugins of a marketplace: clew plugin marketplace list NAME")


def run_market_update(desk: PluginInstaller, options: Any) -> None:
    market = work.update_market(desk, options.name)
    say(f"{market.name}: {format_count(len(market.offers), 'plugin')}")


def run_market_remove(desk: PluginInstaller, options: Any) -> None:
    work.remove_market(desk, options.name)
    say(f"removed {options.name}")
