"""`clew config`: show, explain and change settings, and trust folders.

Owns the command line. Only `set`, `unset`, `trust` and `untrust` write a file. They write it
atomically and leave every other byte unchanged.
"""

import argparse
import json
import os
import sys
from pathlib import Path

from clew.commands.styled import print_pieces
from clew.core import frame_kinds, messages
from clew.core.messages.errors import SettingsError, describe_error
from clew.system.command_groups import Group, GroupWord, argument, show, switch
from clew.system.config import settings
from clew.system.config.environment import AMBIENT, VARIABLES, freeze
from clew.system.config.flags import find_flag_faults, list_flags
from clew.system.config.json_text import split_path
from clew.system.config.layers import find_value
from clew.system.config.load import (
    assign,
    describe_faults,
    distrust,
    explain_setting,
    format_value,
    in_force_now,
    list_settings,
    load_settings,
    parse_value,
    trust,
    trusts,
    unset,
)
from clew.system.config.mask import mask
from clew.system.config.paths import Places, find_places
from clew.system.config.settings import BY_NAME, NO_EFFECT, find_nearest_key, is_known

# Wider keys and values do not widen their column in `clew config list`.
WIDEST = 40
# Generated from the table of settings by `make docs`.
SCHEMAS = {
    "settings": Path(settings.__file__).with_name("settings.schema.json"),
    "transcript": Path(messages.__file__).with_name("transcript.schema.json"),
    "frames": Path(frame_kinds.__file__).with_name("host_frames.schema.json"),
}


def main(argv: list[str]) -> int:
    key = argument("key")
    value = argument("value", help="JSON, or plain text for a string setting")
    files = ("user", "project", "local")
    scope = argument("--scope", choices=files, default="user", help="Settings file (default: user)")
    folder = argument("folder", nargs="?", type=Path, help="Folder (default: this project)")
    parser = Group(
        prog="clew config", description="Show, explain and change settings; trust folders."
    )
    parser.add_words(
        {
            "get": GroupWord(run_get, key, line="Show the effective value"),
            "list": GroupWord(
                run_list,
                switch("--json", "Print the effective settings as JSON"),
                line="List all effective values and their sources",
            ),
            "explain": GroupWord(
                run_explain, key, line="Show a key's value in each file, and which value applies"
            ),
            "set": GroupWord(
                run_set,
                key,
                value,
                scope,
                switch("--force", "Write the key even if it is unknown"),
                line="Write a value to a settings file",
            ),
            "unset": GroupWord(run_unset, key, scope, line="Remove a value from a settings file"),
            "keys": GroupWord(
                run_keys, line="List all settings keys with their types and defaults"
            ),
            "schema": GroupWord(
                run_schema,
                argument("what", nargs="?", default="settings", choices=[*SCHEMAS]),
                line="Print the JSON Schema of settings, transcript lines or host frames",
            ),
            "variables": GroupWord(
                run_variables, line="List all environment variables with their aliases"
            ),
            "flags": GroupWord(run_flags, line="List the feature flags, their states and sources"),
            "trust": GroupWord(
                run_trust, folder, line="Trust a folder: allow its settings to start programs"
            ),
            "untrust": GroupWord(run_untrust, folder, line="Withdraw trust from a folder"),
        }
    )
    options = parser.parse_args(argv)
    places = find_places(os.environ, Path.cwd())
    try:
        code: int = options.run(options, places)
    except (SettingsError, OSError) as error:
        sys.stderr.write(f"clew config: {describe_error(error)}\n")
        return 2
    return code


def run_get(options: argparse.Namespace, places: Places) -> int:
    present, value = find_value(in_force_now(places), split_path(options.key))
    if present:
        show(format_value(value))
        return 0
    near = find_nearest_key(options.key)
    hint = f' (did you mean "{near}"?)' if near and near != options.key else ""
    sys.stderr.write(f"{options.key}: not set{hint}\n")
    return 1


def run_list(options: argparse.Namespace, places: Places) -> int:
    for line in describe_faults(load_settings(places).layers):
        sys.stderr.write(f"{line}\n")
    if options.json:
        show(mask(json.dumps(in_force_now(places), indent=2, ensure_ascii=False)))
    else:
        rows = list_settings(places)
        widths = [
            max((len(row[at]) for row in rows if len(row[at]) <= WIDEST), default=0)
            for at in range(2)
        ]
        for key, value, origin in rows:
            print_pieces(
                ("strong", f"{key:<{widths[0]}}  "), f"{value:<{widths[1]}}  ", ("quiet", origin)
            )
    return 0


def run_explain(options: argparse.Namespace, places: Places) -> int:
    for line in explain_setting(places, options.key):
        show(line)
    return 0


def run_set(options: argparse.Namespace, places: Places) -> int:
    if not (options.force or is_known(options.key)):
        near = find_nearest_key(options.key)
        hint = f'did you mean "{near}"?' if near else "run clew config keys for a list"
        raise SettingsError(f'unknown key "{options.key}" ({hint}; use --force to write it anyway)')
    done = assign(places, options.scope, options.key, parse_value(options.key, options.value))
    for fault in done.faults:
        sys.stderr.write(f"{done.path}: {fault}\n")
    key = BY_NAME.get(options.key)
    if key is not None and not key.has_effect:
        sys.stderr.write(f"{options.key}: {NO_EFFECT}: {key.unsupported}\n")
    show(f"{done.path}: {options.key} = {format_value(done.value)}")
    return 0


def run_unset(options: argparse.Namespace, places: Places) -> int:
    path = unset(places, options.scope, options.key)
    show(f"{path}: {options.key} is no longer set")
    return 0


def run_keys(_options: argparse.Namespace, _places: Places) -> int:
    for key in BY_NAME.values():
        choices = f" ({', '.join(key.choices)})" if key.choices else ""
        marks = " [trust]" if key.executes else " [managed]" if key.managed_only else ""
        marks += ("" if key.has_effect else " [not supported]") + (" [live]" if key.is_live else "")
        default = "" if key.default is None else f", default {format_value(key.default)}"
        show(f"{key.name}{marks}: {key.meaning}; {key.kind}{choices}{default}")
    return 0


def run_schema(options: argparse.Namespace, _places: Places) -> int:
    show(SCHEMAS[options.what].read_text("utf-8").rstrip())
    return 0


def run_variables(_options: argparse.Namespace, _places: Places) -> int:
    for variable in (*VARIABLES, *AMBIENT):
        default = f" (default {variable.default})" if variable.default is not None else ""
        show(f"{' '.join(variable.names)}: {variable.meaning}{default}")
    return 0


def run_flags(_options: argparse.Namespace, places: Places) -> int:
    from clew.permissions.session_rules import load_current_rules

    standing = load_current_rules(os.environ, places.cwd)
    environment = freeze(standing.environ)
    for state in list_flags(standing.settings, environment):
        word = "on" if state.is_on else "off"
        show(f"{state.flag.name}: {word} ({state.source}); {state.flag.meaning}")
    faults = list(find_flag_faults(standing.settings, environment))
    for fault in faults:
        sys.stderr.write(f"{fault}\n")
    return 1 if faults else 0


def run_trust(options: argparse.Namespace, places: Places) -> int:
    folder = (options.folder or places.root).resolve()
    trust(places, str(folder))
    show(f"trusted: {folder}")
    return 0


def run_untrust(options: argparse.Namespace, places: Places) -> int:
    folder = (options.folder or places.root).resolve()
    distrust(places, str(folder))
    still = " (but a parent folder is trusted)" if trusts(places, folder) else ""
    show(f"not trusted: {folder}{still}")
    return 0
