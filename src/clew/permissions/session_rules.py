"""The permission rules of a folder, read from its settings, for sessions and for clew's commands.

Owns how a `RuleSet` and a `Context` are made from settings files. `in_session` writes settings.
"""

import json
import os
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from clew.core.messages.errors import SettingsError, describe_error
from clew.permissions.modes import ALIASES, MODES, unknown_tool
from clew.permissions.protected import is_below
from clew.permissions.request import Context, Mode, Resolve
from clew.permissions.resolver import make_resolver
from clew.permissions.rules import Anchors, PermissionRule, RuleSet, read_rules
from clew.system.config.git_guard import find_repository_programs, is_bare, without_bare
from clew.system.config.json_text import join_path
from clew.system.config.layers import Inert, Layer, Scope, merge
from clew.system.config.load import (
    CommandLineSettings,
    LoadedSettings,
    describe_faults,
    load_settings,
    name_unsupported,
    select_trusted,
    trusts,
)
from clew.system.config.paths import Places, find_places
from clew.system.config.settings import read_list, read_object, read_text, value_in

# Variables that name a file that programs run or read before anything else.
STARTUP = (
    "BASH_ENV", "ENV", "PYTHONSTARTUP", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM",
    "RIPGREP_CONFIG_PATH", "NPM_CONFIG_USERCONFIG",
)  # fmt: skip

REFUSED_BARE = (
    "git will not use this bare repository until you trust the folder (run clew config trust)"
)
# A session start reports at most this many problems in settings.
MOST_COMPLAINTS = 50

# Variables that define the session's own folders. Settings cannot change them: if programs expanded
# `~` differently from clew, a rule with `~` would not protect the files that it names.
FIXED = frozenset({"HOME", "USERPROFILE", "CLEW_CONFIG_DIR", "CLAUDE_CONFIG_DIR"})


class CurrentRules(Struct, frozen=True, kw_only=True):
    """Everything that decisions in one folder need, and the problems found in its settings."""

    places: Places
    loaded: LoadedSettings
    layers: tuple[Layer, ...]
    settings: dict[str, Any]
    # The environment of the process, overlaid with `env` of the settings.
    environ: dict[str, str]
    inert: tuple[Inert, ...]
    rules: RuleSet
    resolve: Resolve
    context: Context
    complaints: tuple[str, ...]
    is_trusted: bool
    # The scopes whose files the session reads: settings, memory, MCP servers.
    sources: tuple[Scope, ...]

    def where(self, rule: PermissionRule) -> str:
        """Return `file:line` for a rule, or the rule's scope if it came from no file."""
        for layer in self.layers:
            if layer.file is not None and layer.file == rule.source.file:
                return f"{layer.file}:{layer.line(rule.source.path)}"
        return f"({rule.source.scope})"


def load_current_rules(
    environ: Mapping[str, str],
    cwd: Path,
    *,
    mode: Mode | None = None,
    command_line: CommandLineSettings | None = None,
    places: Places | None = None,
    sources: Sequence[Scope] = ("user", "project", "local"),
    ignored_scopes: Container[Scope] = (),
    before: Sequence[Layer] = (),
) -> CurrentRules:
    """Load the rules that apply in a folder.

    For the `ignored_scopes`, the settings in `before` are used instead of the current contents of
    the files.
    """
    places = places or find_places(environ, cwd)
    folder, home = str(cwd.resolve()), str(places.home.resolve())
    loaded = load_settings(places, command_line=command_line, sources=sources)
    layers = [layer for layer in loaded.layers if layer.scope not in ignored_scopes]
    layers += [layer for layer in before if layer.scope in ignored_scopes]
    loaded = structs.replace(loaded, layers=tuple(layers))
    is_trusted = trusts(places)
    counting, inert = select_trusted(places, loaded.layers)
    settings = merge(counting)
    rules, unreadable, warnings = read_rules(counting)
    resolve = make_resolver(cwd=folder, home=home)
    environment = without_bare(
        overlaid(environ, settings, home), Path(folder), is_trusted=is_trusted
    )
    lines = [
        *describe_faults(loaded.layers),
        *unreadable,
        *warnings,
        *(f"{i.layer.file}: {join_path(i.path)}: ignored because {i.why}" for i in inert),
        *([] if is_trusted or not is_bare(Path(folder)) else [f"{folder}: {REFUSED_BARE}"]),
        *name_unsupported(counting),
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
            anchors=Anchors(cwd=folder, home=home),
            unreadable=unreadable,
            warnings=warnings,
            resolve=resolve,
        ),
        resolve=resolve,
        context=Context(
            cwd=folder,
            home=home,
            mode=mode or default_mode(settings),
            directories=directories,
            config_home=str(places.config_home.resolve()),
            # One file that says so is enough, as with deny rules.
            blocks_writes_outside=any(
                value_in(layer.data, "permissions.blockWritesOutsideWorkingDirectories")
                for layer in counting
            ),
            startup_files=startup_files(environment, resolve),
            program_folders=program_folders(environment, folder, *directories),
            git_programs=() if is_trusted else find_repository_programs(folder),
        ),
        complaints=limit_complaints(list(dict.fromkeys(lines))),
        is_trusted=is_trusted,
        sources=tuple(sources),
    )


class UnusedRule(Struct, frozen=True, kw_only=True):
    """A rule for a tool that does not exist, with the message about it."""

    text: str
    scope: Scope
    message: str


def find_unused_rules(
    standing: CurrentRules, offered: Collection[str] = ()
) -> Iterator[UnusedRule]:
    """Yield the active rules that name an unknown tool, given the tools that a session offers."""
    for rule in standing.rules.rules:
        why = unknown_tool(rule.text, offered)
        if why is not None:
            where = (
                standing.where(rule)
                if rule.source.file or rule.source.scope != "cli"
                else "--settings"
            )
            yield UnusedRule(
                text=rule.text,
                scope=rule.source.scope,
                message=f"{where}: {rule.source.path[1]} {rule.text}: {why}",
            )


def limit_complaints(lines: list[str]) -> tuple[str, ...]:
    """Return the messages about problems in settings, limited to a readable number of lines."""
    left = len(lines) - MOST_COMPLAINTS
    notes = [f"and {left} more; run clew config list to see all"] if left > 0 else []
    return (*lines[:MOST_COMPLAINTS], *notes)


def startup_files(environ: Mapping[str, str], resolve: Resolve) -> tuple[str, ...]:
    """Return the startup files named by the session's environment variables (see `STARTUP`)."""
    return tuple(resolve(environ[name]).real for name in STARTUP if environ.get(name))


def program_folders(environ: Mapping[str, str], *roots: str) -> tuple[str, ...]:
    """Return the PATH folders inside the workspace, which a session may write to.

    A relative PATH entry is also returned unchanged (an empty one as `.`), because the shell
    resolves it against its current folder.
    """
    cwd = roots[0]
    folders: dict[str, None] = {}
    for entry in environ["PATH"].split(os.pathsep) if environ.get("PATH") else ():
        if not entry.startswith("/"):
            folders[entry or "."] = None
        path = os.path.normpath(Path(cwd, entry))
        folder = os.path.realpath(path)
        if any(is_below(name, root) for name in (path, folder) for root in roots):
            folders[folder] = None
    return tuple(folders)


def overlaid(environ: Mapping[str, str], settings: dict[str, Any], home: str) -> dict[str, str]:
    """Return the environment of a session and its programs, including the `env` setting."""
    own = read_object(settings, "env")
    variables = {k: v for k, v in own.items() if isinstance(v, str) and k not in FIXED}
    named_home = environ.get("HOME", "")
    return {**environ, **variables, "HOME": named_home if named_home.startswith("/") else home}


# The settings that --restricted adds under `permissions`.
RESTRICTIONS = {
    "blockWritesOutsideWorkingDirectories": True,
    "disableBypassPermissionsMode": "disable",
}


def read_command_line(
    text: str | None,
    *,
    allow: Sequence[str] = (),
    deny: Sequence[str] = (),
    directories: Sequence[str] = (),
    managed: str | None = None,
    is_restricted: bool = False,
) -> CommandLineSettings | None:
    """Return the settings given on the command line, or None if there are none.

    They consist of settings as JSON or a file name, additional rules, the restrictions that the
    host passes as managed settings, and those of --restricted.
    """
    data, file, body = ({}, None, "") if text is None else read_given(text)
    forbidden = {} if managed is None else read_given(managed, "--managed-settings")[0]
    own = (("allow", allow), ("deny", deny), ("additionalDirectories", directories))
    added: dict[str, Any] = {
        name: [*joinable(data, name), *values] for name, values in own if values
    }
    if is_restricted:
        added |= RESTRICTIONS
    if added:
        data = data | {"permissions": read_object(data, "permissions") | added}
    command_line = CommandLineSettings(data=data, file=file, text=body, managed=forbidden)
    return command_line if data or forbidden else None


def joinable(data: dict[str, Any], name: str) -> list[Any]:
    """Return the list of rules in the settings to which more rules are added.

    Raise `SettingsError` if it is not a list, because replacing the value could lose deny rules.
    """
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
        raise SettingsError(f"{flag}: {describe_error(error)}") from None
    if not isinstance(data, dict):
        raise SettingsError(f"{flag}: expected an object")
    return data, file, body


def default_mode(settings: dict[str, Any]) -> Mode:
    word = read_text(settings, "permissions.defaultMode")
    mode = ALIASES.get(str(word)) or next((m for m in MODES if m == word), None)
    return mode or "default"


def further_directories(settings: dict[str, Any], resolve: Resolve) -> tuple[str, ...]:
    directories = read_list(settings, "permissions.additionalDirectories") or ()
    return tuple(resolve(path).real for path in directories)
