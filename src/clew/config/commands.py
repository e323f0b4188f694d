"""`clew config`: shows, explains and sets settings, and trusts folders.

Owns the words of the command line. A file is written by `set`, `unset`, `trust` and `untrust` alone,
whole or not at all, with every other byte as it was.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from clew.config.edit import with_value, without
from clew.config.environment import VARIABLES
from clew.config.layers import in_force, merge, origins, value_at
from clew.config.load import complaints, load, read
from clew.config.mask import mask
from clew.config.paths import Places, find_places
from clew.config.positions import Path as KeyPath
from clew.config.positions import dotted, undotted
from clew.config.settings import BY_NAME, OPEN_OBJECTS, check, nearest
from clew.config.trust import read_trusted, trusts, write_trusted
from clew.config.write import replace
from clew.messages.errors import SettingsError, in_words


def main(argv: list[str]) -> int:
    options = arguments().parse_args(argv)
    places = find_places(os.environ, Path.cwd())
    try:
        code: int = options.run(options, places)
    except (SettingsError, OSError) as error:
        sys.stderr.write(f"clew config: {in_words(error)}\n")
        return 2
    return code


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="clew config", description="Show, explain and set settings; trust folders."
    )
    words = parser.add_subparsers(dest="word", required=True, metavar="COMMAND")
    word = words.add_parser("get", help="the value in force")
    word.add_argument("key")
    word.set_defaults(run=run_get)
    word = words.add_parser("list", help="every value in force and where it came from")
    word.add_argument("--json", action="store_true", help="the settings in force as JSON")
    word.set_defaults(run=run_list)
    word = words.add_parser("explain", help="what each file says on a key, and who wins")
    word.add_argument("key")
    word.set_defaults(run=run_explain)
    word = words.add_parser("set", help="write a value into a settings file")
    word.add_argument("key")
    word.add_argument("value", help="JSON, or text where a text is expected")
    scoped(word)
    word.set_defaults(run=run_set)
    word = words.add_parser("unset", help="take a value out of a settings file")
    word.add_argument("key")
    scoped(word)
    word.set_defaults(run=run_unset)
    word = words.add_parser("keys", help="every key a settings file may hold")
    word.set_defaults(run=run_keys)
    word = words.add_parser("variables", help="every environment variable, in each spelling")
    word.set_defaults(run=run_variables)
    for name, line, run in (
        ("trust", "let a folder's own settings start programs", run_trust),
        ("untrust", "take that back", run_untrust),
    ):
        word = words.add_parser(name, help=line)
        word.add_argument("folder", nargs="?", type=Path, help="default: this project")
        word.set_defaults(run=run)
    return parser


def scoped(word: argparse.ArgumentParser) -> None:
    word.add_argument(
        "--scope", choices=("user", "project", "local"), default="user", help="which file (user)"
    )


def show(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def spelled(value: Any) -> str:
    """A value for people, without the secrets in it."""
    return mask(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def run_get(options: argparse.Namespace, places: Places) -> int:
    layers, _ = in_force(load(places).layers, trusted=trusts(places))
    present, value = value_at(merge(layers), undotted(options.key))
    if present:
        show(spelled(value))
        return 0
    near = nearest(options.key)
    hint = f"; did you mean {near}?" if near and near != options.key else ""
    sys.stderr.write(f"{options.key}: not set{hint}\n")
    return 1


def run_list(options: argparse.Namespace, places: Places) -> int:
    loaded = load(places)
    layers, _ = in_force(loaded.layers, trusted=trusts(places))
    for line in complaints(loaded.layers):
        sys.stderr.write(f"{line}\n")
    settings = merge(layers)
    if options.json:
        show(mask(json.dumps(settings, indent=2, ensure_ascii=False)))
        return 0
    for path in leaves(settings):
        first = origins(layers, path)[0]
        show(f"{dotted(path)} = {spelled(value_at(settings, path)[1])}  {where(first.layer, path)}")
    return 0


def leaves(settings: dict[str, Any], above: KeyPath = ()) -> list[KeyPath]:
    """The paths of all values; objects that have no keys of ours are values."""
    found: list[KeyPath] = []
    for name, value in settings.items():
        path = (*above, name)
        whole = dotted(path) in OPEN_OBJECTS or dotted(path) not in BY_NAME
        found += leaves(value, path) if isinstance(value, dict) and not whole else [path]
    return found


def where(layer: Any, path: KeyPath) -> str:
    line = layer.line(path)
    return f"({layer.file}:{line})" if line else f"({layer.scope})"


def run_explain(options: argparse.Namespace, places: Places) -> int:
    path = undotted(options.key)
    known = BY_NAME.get(options.key)
    if known is not None:
        show(f"{known.name}: {known.meaning}; {known.kind}")
    loaded = load(places)
    layers, inert = in_force(loaded.layers, trusted=trusts(places))
    said = origins(layers, path)
    for i, origin in enumerate(said):
        listed = isinstance(origin.value, (list, dict))
        mark = "in force" if i == 0 else "added" if listed else "overridden"
        place = where(origin.layer, path)
        show(f"  {origin.layer.scope:<8} {spelled(origin.value)}  {place} {mark}")
    for one in inert:
        if one.path == path:
            show(f"  {one.layer.scope:<8} does not count: {one.why} {where(one.layer, path)}")
    if not said:
        show("  not set")
    return 0


def target(options: argparse.Namespace, places: Places) -> tuple[Path, str, dict[str, Any]]:
    """The file of a scope, its text and what it says; a broken file is not written to."""
    path = places.settings_file(options.scope)
    if not path.exists():
        return path, "", {}
    layer = read(options.scope, path, str(places.root))
    if layer.unreadable is not None:
        raise SettingsError(layer.unreadable)
    return path, layer.text, layer.data


def run_set(options: argparse.Namespace, places: Places) -> int:
    path, text, data = target(options, places)
    key = undotted(options.key)
    if not key:
        raise SettingsError(f"{options.key!r} names no key")
    value = parsed(options.key, options.value)
    after = with_value(text, key, value)
    faults = [f for f in check(json.loads(after)) if f.path[: len(key)] == key]
    if any(f.fatal for f in faults):
        raise SettingsError(str(faults[0]))
    for fault in faults:
        sys.stderr.write(f"{path}: {fault}\n")
    if value_at(data, key) != (True, value):
        replace(path, after)
    show(f"{path}: {options.key} = {spelled(value)}")
    return 0


def parsed(name: str, text: str) -> Any:
    """JSON where the text is JSON; a word is a text where a text is expected, or nothing else."""
    known = BY_NAME.get(name)
    if known is not None and known.kind == "a string":
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def run_unset(options: argparse.Namespace, places: Places) -> int:
    path, text, data = target(options, places)
    key = undotted(options.key)
    if not key or not value_at(data, key)[0]:
        raise SettingsError(f"{path}: {options.key} is not set there")
    replace(path, without(text, key))
    show(f"{path}: {options.key} is no longer set")
    return 0


def run_keys(_options: argparse.Namespace, _places: Places) -> int:
    for known in BY_NAME.values():
        choices = f" ({', '.join(known.choices)})" if known.choices else ""
        marks = " [trust]" if known.executes else " [managed]" if known.managed_only else ""
        show(f"{known.name}{marks}: {known.meaning}; {known.kind}{choices}")
    return 0


def run_variables(_options: argparse.Namespace, _places: Places) -> int:
    for known in VARIABLES:
        default = f" (default {known.default})" if known.default is not None else ""
        show(f"{' '.join(known.names)}: {known.meaning}{default}")
    return 0


def run_trust(options: argparse.Namespace, places: Places) -> int:
    folder = (options.folder or places.root).resolve()
    write_trusted(places, read_trusted(places) | {str(folder)})
    show(f"trusted: {folder}")
    return 0


def run_untrust(options: argparse.Namespace, places: Places) -> int:
    folder = (options.folder or places.root).resolve()
    write_trusted(places, read_trusted(places) - {str(folder)})
    still = " (a folder around it is trusted)" if trusts(places, folder) else ""
    show(f"not trusted: {folder}{still}")
    return 0
