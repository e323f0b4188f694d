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
from clew.parts.plugins.fetch import LEADS_OUT, outward
from clew.parts.plugins.install import SCOPES, PluginInstaller, remove, swept
from clew.parts.plugins.parts import NOTHING, Parts, is_nothing, parts_of, read_manifest, told
from clew.parts.plugins.store import Installed, Store, fingerprint, is_on
from clew.system.command_groups import Group
from clew.system.config.layers import in_force, merge
from clew.system.config.load import load
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
        made: argparse.ArgumentParser = of.add_parser(name, help=line, description=line)
        made.set_defaults(run=run)
        return made

    made = word(
        "install", run_install, "install a plugin of a marketplace, a folder or a repository"
    )
    made.add_argument(
        "plugin",
        help="NAME[@MARKETPLACE], ./FOLDER, owner/name, URL[#REF] or npm:PACKAGE[@VERSION]",
    )
    scoped(made)
    trusting(made)
    made = word("list", run_list, "every plugin: whether it is on, trusted, and what it adds")
    for name, run, line in (
        ("enable", run_switch, "switch a plugin on"),
        ("disable", run_switch, "switch a plugin off; it stays installed"),
    ):
        made = word(name, run, line)
        made.add_argument("plugin")
        made.set_defaults(on=name == "enable")
        scoped(made)
    made = word("trust", run_trust, "let a plugin run what it adds, as it is now")
    made.add_argument("plugin")
    trusting(made)
    made = word("pin", run_pin, "hold a plugin at a commit, or as it is")
    made.add_argument("plugin")
    made.add_argument("commit", nargs="?", default="")
    trusting(made)
    made = word("unpin", run_unpin, "let a plugin be updated again")
    made.add_argument("plugin")
    made = word("update", run_update, "bring the newest of a plugin's source")
    made.add_argument("plugin")
    trusting(made)
    made = word("remove", run_remove, "remove a plugin, and all that was written for it")
    made.add_argument("plugin")
    made = word(
        "check", run_check, "read a plugin's folder, and say what it adds and what is wrong"
    )
    made.add_argument("folder")
    markets = word("marketplace", None, "add, list, update and remove marketplaces")
    below = markets.add_subparsers(required=True, metavar="COMMAND")
    made = word("add", run_market_add, "a folder or file, owner/name, or URL[#REF]", below)
    made.add_argument("source")
    word("list", run_market_list, "every marketplace, and what it offers", below)
    made = word("update", run_market_update, "read a marketplace again from its source", below)
    made.add_argument("name")
    made = word("remove", run_market_remove, "forget a marketplace; what it gave stays", below)
    made.add_argument("name")
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
        say(f"{parts.manifest.name} adds:", *(f"  {line}" for line in told(parts)))
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
    meant = [one for one in every.values() if name in (one.id, one.name)]
    if len(meant) == 1:
        return meant[0]
    if meant:
        raise UserError(f"{name} is one of {', '.join(one.id for one in meant)}; name it whole")
    raise UserError(f"no plugin {name}; clew plugin list shows those there are")


def run_install(desk: PluginInstaller, options: Any) -> None:
    one, parts = work.install(desk, options.plugin, scope=options.scope, trusts=options.trust)
    summary(desk, f"installed {one.id}", one, parts)
    say(*waiting(desk, options.scope))


def summary(desk: PluginInstaller, done: str, one: Installed, parts: Parts) -> None:
    at = one.commit[:12] or one.version
    shown = isinstance(desk.agrees, TrustQuestion) and desk.agrees.has_shown
    lines = [] if shown else [f"  {line}" for line in told(parts)]
    say(f"{done}{f' at {at}' if at else ''}", *lines)
    say(*(f"! {fault}" for fault in parts.faults))
    if parts.runs and not one.trusted:
        say(f"What it runs waits until you have looked at it: clew plugin trust {one.id}")


def run_list(desk: PluginInstaller, _: Any) -> None:
    loaded = load(desk.places)
    layers, _ = in_force(loaded.layers, trusted=trusts_folder(desk.places))
    settings = merge(layers)
    every = desk.store.all()
    if not every:
        say("no plugins; clew plugin install adds one")
    for one in every.values():
        try:
            parts = desk.parts(one)
        except UserError as error:
            say(f"{one.id}: {error}")
            continue
        marks = ["on" if is_on(settings, one) else "off"]
        if parts.runs:
            is_same = bool(one.trusted) and fingerprint(parts.root) == one.trusted
            marks.append("trusted" if is_same else "not trusted: words only")
        marks += ["pinned"] * one.is_pinned + ["of another tool"] * one.is_foreign
        version = one.version or one.commit[:12]
        say(f"{one.id} {version}".rstrip() + f" ({', '.join(marks)})")
        say(*(f"  {line}" for line in told(parts)), *(f"  ! {fault}" for fault in parts.faults))


def run_switch(desk: PluginInstaller, options: Any) -> None:
    one = named(desk, options.plugin)
    path = work.switch(desk, one.id, options.scope, on=options.on)
    waits = waiting(desk, options.scope)
    is_so = "is to be" if waits else "is"
    say(f"{path}: {one.id} {is_so} {'on' if options.on else 'off'}", *waits)


def waiting(desk: PluginInstaller, scope: str) -> list[str]:
    """That what was written for a folder does not count yet, where that is so."""
    if scope == "user" or trusts_folder(desk.places):
        return []
    return ["it does not count before the folder is trusted: clew config trust"]


def run_trust(desk: PluginInstaller, options: Any) -> None:
    one = named(desk, options.plugin)
    parts = desk.parts(one)
    if not (options.trust or desk.agrees(parts)):
        raise UserError(
            f"{one.id} is not trusted, and what it adds waits; say yes at a terminal, or: clew plugin trust "
            f"{one.id} --trust"
        )
    desk.store.trust(one, fingerprint(parts.root))
    say(f"{one.id} may run what it adds, until it changes")


def run_pin(desk: PluginInstaller, options: Any) -> None:
    one = work.pin(desk, named(desk, options.plugin), options.commit, trusts=options.trust)
    say(f"{one.id} stays at {one.commit or 'its content'}")


def run_unpin(desk: PluginInstaller, options: Any) -> None:
    one = named(desk, options.plugin)
    work.unpin(desk, one)
    say(f"{one.id} can be updated")


def run_update(desk: PluginInstaller, options: Any) -> None:
    one, parts = work.update(desk, named(desk, options.plugin), trusts=options.trust)
    summary(desk, f"updated {one.id}", one, parts)


def run_remove(desk: PluginInstaller, options: Any) -> None:
    one = named(desk, options.plugin)
    gone = remove(desk, one)
    say(f"removed {one.id}", *(f"  {path}" for path in gone))
    sys.stdout.flush()
    swept(desk)


def run_check(desk: PluginInstaller, options: Any) -> None:
    root = (desk.places.cwd / options.folder).resolve()
    said = read_manifest(root)
    if isinstance(said, str) or not is_folder(root):
        raise UserError(said if isinstance(said, str) else f"{root}: there is no such folder")
    parts = parts_of(root, said, desk.store.data(said.name))
    if is_nothing(parts):
        raise UserError(f"{root}: {NOTHING}")
    say(f"{said.name} {said.version}".rstrip(), *(f"  {line}" for line in told(parts)))
    faults = list(parts.faults)
    if leading_out := outward(root):
        faults.append(f"{leading_out} {LEADS_OUT}")
    if faults:
        raise UserError("\n".join(faults))


def run_market_add(desk: PluginInstaller, options: Any) -> None:
    found = work.add_market(desk, options.source)
    say(f"{found.name} offers {len(found.offers)}", *(f"! {fault}" for fault in found.faults))


def run_market_list(desk: PluginInstaller, _: Any) -> None:
    markets = desk.store.markets()
    if not markets:
        say("no marketplaces; clew plugin marketplace add adds one")
    for name, known in markets.items():
        say(f"{name} ({known.source})")
        try:
            offers = work.read_market(Path(known.path)).offers
        except UserError as error:
            say(f"  ! {error}")
            continue
        say(*(f"  {offer.name}: {offer.description or offer.source}" for offer in offers))


def run_market_update(desk: PluginInstaller, options: Any) -> None:
    found = work.update_market(desk, options.name)
    say(f"{found.name} offers {len(found.offers)}")


def run_market_remove(desk: PluginInstaller, options: Any) -> None:
    work.remove_market(desk, options.name)
    say(f"{options.name} is forgotten")
