"""`clew plugin`: installs, pins, switches, lists, trusts and removes plugins, and keeps marketplaces.

Owns the words of the command line and what is shown. What is done is `install`.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from clew.core.messages.errors import UserError
from clew.parts.plugins import install as work
from clew.parts.plugins.fetch import LEADS_OUT, find_outward_link
from clew.parts.plugins.install import SCOPES, PluginInstaller, remove, sweep_leftovers
from clew.parts.plugins.parts import (
    NOTHING,
    Parts,
    describe_parts,
    is_nothing,
    parts_of,
    read_manifest,
)
from clew.parts.plugins.store import Installed, Store, compute_fingerprint, is_on
from clew.system.command_groups import Group
from clew.system.config.layers import merge, select_active
from clew.system.config.load import load_settings
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
    parser = Group(prog="clew plugin", description="Plugins, and the marketplaces they are in.")
    words = parser.add_subparsers(required=True, metavar="COMMAND")

    def word(name: str, run: Any, line: str, of: Any = words) -> argparse.ArgumentParser:
        subparser: argparse.ArgumentParser = of.add_parser(name, help=line, description=line)
        subparser.set_defaults(run=run)
        return subparser

    subparser = word(
        "install", run_install, "install a plugin of a marketplace, a folder or a repository"
    )
    subparser.add_argument(
        "plugin",
        help="NAME[@MARKETPLACE], ./FOLDER, owner/name, URL[#REF] or npm:PACKAGE[@VERSION]",
    )
    scoped(subparser)
    trusting(subparser)
    subparser = word("list", run_list, "every plugin: whether it is on, trusted, and what it adds")
    for name, run, line in (
        ("enable", run_switch, "switch a plugin on"),
        ("disable", run_switch, "switch a plugin off; it stays installed"),
    ):
        subparser = word(name, run, line)
        subparser.add_argument("plugin")
        subparser.set_defaults(on=name == "enable")
        scoped(subparser)
    subparser = word("trust", run_trust, "let a plugin run what it adds, as it is now")
    subparser.add_argument("plugin")
    trusting(subparser)
    subparser = word("pin", run_pin, "hold a plugin at a commit, or as it is")
    subparser.add_argument("plugin")
    subparser.add_argument("commit", nargs="?", default="")
    trusting(subparser)
    subparser = word("unpin", run_unpin, "let a plugin be updated again")
    subparser.add_argument("plugin")
    subparser = word("update", run_update, "bring the newest of a plugin's source")
    subparser.add_argument("plugin")
    trusting(subparser)
    subparser = word("remove", run_remove, "remove a plugin, and all that was written for it")
    subparser.add_argument("plugin")
    subparser = word(
        "check", run_check, "read a plugin's folder, and say what it adds and what is wrong"
    )
    subparser.add_argument("folder")
    markets = word("marketplace", None, "add, list, update and remove marketplaces")
    below = markets.add_subparsers(required=True, metavar="COMMAND")
    subparser = word("add", run_market_add, "a folder or file, owner/name, or URL[#REF]", below)
    subparser.add_argument("source")
    word("list", run_market_list, "every marketplace, and what it offers", below)
    subparser = word("update", run_market_update, "read a marketplace again from its source", below)
    subparser.add_argument("name")
    subparser = word("remove", run_market_remove, "forget a marketplace; what it gave stays", below)
    subparser.add_argument("name")
    return parser


def scoped(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scope", choices=SCOPES, default="user", help="whose settings say so")


def trusting(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trust", action="store_true", default=None, help="ask nothing: it may run"
    )


class TrustQuestion:
    """Asks a person whether what a plugin adds may run; nobody there is a no. `has_shown`: who was asked
    has seen what it adds."""

    def __init__(self) -> None:
        self.has_shown = False

    def __call__(self, parts: Parts) -> bool:
        if not sys.stdin.isatty():
            return False
        say(f"{parts.manifest.name} adds:", *(f"  {line}" for line in describe_parts(parts)))
        self.has_shown = True
        sys.stdout.write("May it run these? [y/N] ")
        sys.stdout.flush()
        return sys.stdin.readline().strip().lower() in ("y", "yes")


def say(*lines: str) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")


def named(desk: PluginInstaller, name: str) -> Installed:
    """The plugin that is meant: by its whole name, or by the part before the @."""
    every = desk.store.all()
    meant = [plugin for plugin in every.values() if name in (plugin.id, plugin.name)]
    if len(meant) == 1:
        return meant[0]
    if meant:
        raise UserError(
            f"{name} is one of {', '.join(plugin.id for plugin in meant)}; name it whole"
        )
    raise UserError(f"no plugin {name}; clew plugin list shows those there are")


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
        say(f"What it runs waits until you have looked at it: clew plugin trust {plugin.id}")


def run_list(desk: PluginInstaller, _: Any) -> None:
    loaded = load_settings(desk.places)
    layers, _ = select_active(loaded.layers, trusted=trusts_folder(desk.places))
    settings = merge(layers)
    every = desk.store.all()
    if not every:
        say("no plugins; clew plugin install adds one")
    for plugin in every.values():
        try:
            parts = desk.parts(plugin)
        except UserError as error:
            say(f"{plugin.id}: {error}")
            continue
        marks = ["on" if is_on(settings, plugin) else "off"]
        if parts.runs:
            is_same = bool(plugin.trusted) and compute_fingerprint(parts.root) == plugin.trusted
            marks.append("trusted" if is_same else "not trusted: words only")
        marks += ["pinned"] * plugin.is_pinned + ["of another tool"] * plugin.is_foreign
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
    is_so = "is to be" if waits else "is"
    say(f"{path}: {plugin.id} {is_so} {'on' if options.on else 'off'}", *waits)


def waiting(desk: PluginInstaller, scope: str) -> list[str]:
    """That what was written for a folder does not count yet, where that is so."""
    if scope == "user" or trusts_folder(desk.places):
        return []
    return ["it does not count before the folder is trusted: clew config trust"]


def run_trust(desk: PluginInstaller, options: Any) -> None:
    plugin = named(desk, options.plugin)
    parts = desk.parts(plugin)
    if not (options.trust or desk.agrees(parts)):
        raise UserError(
            f"{plugin.id} is not trusted, and what it adds waits; say yes at a terminal, or: clew plugin trust "
            f"{plugin.id} --trust"
        )
    desk.store.trust(plugin, compute_fingerprint(parts.root))
    say(f"{plugin.id} may run what it adds, until it changes")


def run_pin(desk: PluginInstaller, options: Any) -> None:
    plugin = work.pin(desk, named(desk, options.plugin), options.commit, trusts=options.trust)
    say(f"{plugin.id} stays at {plugin.commit or 'its content'}")


def run_unpin(desk: PluginInstaller, options: Any) -> None:
    plugin = named(desk, options.plugin)
    work.unpin(desk, plugin)
    say(f"{plugin.id} can be updated")


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
        raise UserError(
            manifest if isinstance(manifest, str) else f"{root}: there is no such folder"
        )
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
    say(f"{market.name} offers {len(market.offers)}", *(f"! {fault}" for fault in market.faults))


def run_market_list(desk: PluginInstaller, _: Any) -> None:
    markets = desk.store.markets()
    if not markets:
        say("no marketplaces; clew plugin marketplace add adds one")
    for name, marketplace in markets.items():
        say(f"{name} ({marketplace.source})")
        try:
            offers = work.read_market(Path(marketplace.path)).offers
        except UserError as error:
            say(f"  ! {error}")
            continue
        say(*(f"  {offer.name}: {offer.description or offer.source}" for offer in offers))


def run_market_update(desk: PluginInstaller, options: Any) -> None:
    market = work.update_market(desk, options.name)
    say(f"{market.name} offers {len(market.offers)}")


def run_market_remove(desk: PluginInstaller, options: Any) -> None:
    work.remove_market(desk, options.name)
    say(f"{options.name} is forgotten")
