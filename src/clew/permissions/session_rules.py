"""The rules of a folder, read from its settings: what a session and the commands both begin with.

Owns the way from files to a `RuleSet` and a `Context`. It reads; it never writes (see `edit_rules`).
"""

import json
import os
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from clew.core.messages.errors import SettingsError, in_words
from clew.permissions.modes import ALIASES, MODES, unknown_tool
from clew.permissions.protected import is_below
from clew.permissions.request import Context, Mode, Resolve
from clew.permissions.resolver import make_resolver
from clew.permissions.rules import Anchors, PermissionRule, RuleSet, read_rules
from clew.system.config.git_guard import is_bare, programs_of_repository, without_bare
from clew.system.config.json_text import dotted
from clew.system.config.layers import Inert, Layer, Scope, in_force, merge
from clew.system.config.load import CommandLineSettings, LoadedSettings, complaints, load, trusts
from clew.system.config.paths import Places, find_places
from clew.system.config.settings import read_list, read_object, read_text

# Variables that name a file which programs run or heed before anything else.
STARTUP = (
    "BASH_ENV", "ENV", "PYTHONSTARTUP", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM",
    "RIPGREP_CONFIG_PATH", "NPM_CONFIG_USERCONFIG",
)  # fmt: skip

REFUSED_BARE = "git refuses this repository without a working tree until you trust the folder (clew config trust)"
# Of what is wrong with settings, at the start of a session.
MOST_COMPLAINTS = 50

# What the session's own places are made of. Settings cannot move them: a `~` that programs read
# otherwise than the rules do would lead past the rules.
FIXED = frozenset({"HOME", "USERPROFILE", "CLEW_CONFIG_DIR", "CLAUDE_CONFIG_DIR"})


class CurrentRules(Struct, frozen=True, kw_only=True):
    """Everything a decision in one folder needs, and what is to be told about its settings."""

    places: Places
    loaded: LoadedSettings
    layers: tuple[Layer, ...]
    settings: dict[str, Any]
    # The process's environment under the settings' `env`.
    environ: dict[str, str]
    inert: tuple[Inert, ...]
    rules: RuleSet
    resolve: Resolve
    context: Context
    complaints: tuple[str, ...]
    is_trusted: bool

    def where(self, rule: PermissionRule) -> str:
        """`file:line` of a rule, or the scope it came with."""
        for layer in self.layers:
            if layer.file is not None and layer.file == rule.source.file:
                return f"{layer.file}:{layer.line(rule.source.path)}"
        return f"({rule.source.scope})"


def stand(
    environ: Mapping[str, str],
    cwd: Path,
    *,
    mode: Mode | None = None,
    given: CommandLineSettings | None = None,
    places: Places | None = None,
    sources: Sequence[Scope] = ("user", "project", "local"),
    held: Container[Scope] = (),
    before: Sequence[Layer] = (),
) -> CurrentRules:
    """Of the layers of `held` count those that were `before`, instead of what their files say now."""
    places = places or find_places(environ, cwd)
    here, home = str(cwd.resolve()), str(places.home.resolve())
    loaded = load(places, given=given, sources=sources)
    layers = [layer for layer in loaded.layers if layer.scope not in held]
    layers += [layer for layer in before if layer.scope in held]
    loaded = structs.replace(loaded, layers=tuple(layers))
    is_trusted = trusts(places)
    counting, inert = in_force(loaded.layers, trusted=is_trusted)
    settings = merge(counting)
    rules, unreadable, warnings = read_rules(counting)
    resolve = make_resolver(cwd=here, home=home)
    environment = without_bare(overlaid(environ, settings, home), Path(here), is_trusted=is_trusted)
    told = [
        *complaints(loaded.layers),
        *unreadable,
        *warnings,
        *(f"{i.layer.file}: {dotted(i.path)}: does not count, {i.why}" for i in inert),
        *([] if is_trusted or not is_bare(Path(here)) else [f"{here}: {REFUSED_BARE}"]),
    ]
    directories = further_directories(settings, resolve)
    return CurrentRules(
        places=places,
        loaded=loaded,
        layers=tuple(counting),
        settings=settings,
        environ=environment,
        inert=tuple(inert),
        rules=RuleSet(
            rules,
            anchors=Anchors(cwd=here, home=home),
            unreadable=unreadable,
            warnings=warnings,
            resolve=resolve,
        ),
        resolve=resolve,
        context=Context(
            cwd=here,
            home=home,
            mode=mode or default_mode(settings),
            directories=directories,
            config_home=str(places.config_home.resolve()),
            startup_files=startup_files(environment, resolve),
            program_folders=program_folders(environment, here, *directories),
            git_programs=() if is_trusted else programs_of_repository(here),
        ),
        complaints=few(list(dict.fromkeys(told))),
        is_trusted=is_trusted,
    )


class InVain(Struct, frozen=True, kw_only=True):
    """A rule whose tool nobody has, and what is told of it."""

    text: str
    scope: Scope
    told: str


def in_vain(standing: CurrentRules, offered: Collection[str] = ()) -> Iterator[InVain]:
    """The rules in force that name a tool which nobody has; `offered` are those of a session."""
    for rule in standing.rules.rules:
        why = unknown_tool(rule.text, offered)
        if why is not None:
            where = (
                standing.where(rule)
                if rule.source.file or rule.source.scope != "cli"
                else "--settings"
            )
            yield InVain(
                text=rule.text,
                scope=rule.source.scope,
                told=f"{where}: {rule.source.path[1]} {rule.text}: {why}",
            )


def few(told: list[str]) -> tuple[str, ...]:
    """What is wrong, in as many lines as somebody reads."""
    left = len(told) - MOST_COMPLAINTS
    more = [f"and {left} more like these; clew config list says all"] if left > 0 else []
    return (*told[:MOST_COMPLAINTS], *more)


def startup_files(environ: Mapping[str, str], resolve: Resolve) -> tuple[str, ...]:
    """What the session's variables have run before a command, wherever it lies."""
    return tuple(resolve(environ[name]).real for name in STARTUP if environ.get(name))


def program_folders(environ: Mapping[str, str], *roots: str) -> tuple[str, ...]:
    """The folders of PATH that a session may write to: those of the workspace.

    A relative one, or an empty one, is also kept as it is: it is looked up in the folder that the
    shell is in.
    """
    here = roots[0]
    found: dict[str, None] = {}
    for entry in environ["PATH"].split(os.pathsep) if environ.get("PATH") else ():
        if not entry.startswith("/"):
            found[entry or "."] = None
        named = os.path.normpath(Path(here, entry))
        folder = os.path.realpath(named)
        if any(is_below(name, root) for name in (named, folder) for root in roots):
            found[folder] = None
    return tuple(found)


def overlaid(environ: Mapping[str, str], settings: dict[str, Any], home: str) -> dict[str, str]:
    """The variables of a session and of the programs it starts."""
    own = read_object(settings, "env")
    kept = {k: v for k, v in own.items() if isinstance(v, str) and k not in FIXED}
    named_home = environ.get("HOME", "")
    return {**environ, **kept, "HOME": named_home if named_home.startswith("/") else home}


def given(
    text: str | None,
    *,
    allow: Sequence[str] = (),
    deny: Sequence[str] = (),
    directories: Sequence[str] = (),
    managed: str | None = None,
) -> CommandLineSettings | None:
    """What a command line says: settings as JSON or the name of a file, rules of its own, and what the
    program that gives it forbids."""
    data, file, body = ({}, None, "") if text is None else read_given(text)
    forbidden = {} if managed is None else read_given(managed, "--managed-settings")[0]
    own = (("allow", allow), ("deny", deny), ("additionalDirectories", directories))
    added = {name: [*joinable(data, name), *values] for name, values in own if values}
    if added:
        data = data | {"permissions": read_object(data, "permissions") | added}
    made = CommandLineSettings(data=data, file=file, text=body, managed=forbidden)
    return made if data or forbidden else None


def joinable(data: dict[str, Any], name: str) -> list[Any]:
    """What stands there before; a value that is no list would be lost with what it denies."""
    permissions = data.get("permissions", {})
    if not isinstance(permissions, dict):
        raise SettingsError("--settings: permissions: expected an object")
    value = permissions.get(name, [])
    if not isinstance(value, list):
        raise SettingsError(f"--settings: permissions.{name}: expected an array of rules")
    return value


def read_given(text: str, flag: str = "--settings") -> tuple[dict[str, Any], str | None, str]:
    file = None if text.lstrip().startswith("{") else text
    try:
        body = text if file is None else Path(file).read_text("utf-8-sig")
        data = json.loads(body)
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(f"{flag}: {in_words(error)}") from None
    if not isinstance(data, dict):
        raise SettingsError(f"{flag}: expected an object")
    return data, file, body


def default_mode(settings: dict[str, Any]) -> Mode:
    word = read_text(settings, "permissions.defaultMode")
    found = ALIASES.get(str(word)) or next((m for m in MODES if m == word), None)
    return found or "default"


def further_directories(settings: dict[str, Any], resolve: Resolve) -> tuple[str, ...]:
    named = read_list(settings, "permissions.additionalDirectories") or ()
    return tuple(resolve(path).real for path in named)
