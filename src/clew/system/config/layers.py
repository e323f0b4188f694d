"""Merge the settings of several files: precedence, combined lists, and the origin of each value.

Owns the order of scopes, the merge, and the list of settings that an untrusted folder may not
change. For scalars, the highest scope wins. Objects are merged by key. Arrays are combined over all
scopes, highest first and without duplicates, so a deny rule in any scope applies (see
`clew.permissions`).
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Literal

from msgspec import Struct

from clew.core.json_object import Json
from clew.system.config.json_text import Path, scan
from clew.system.config.settings import KEYS, SettingFault

Scope = Literal["managed", "cli", "session", "local", "project", "user"]

# From highest to lowest precedence.
SCOPES: tuple[Scope, ...] = ("managed", "cli", "session", "local", "project", "user")

# These files are inside the folder, so its author may have written them.
OF_THE_FOLDER: frozenset[Scope] = frozenset({"local", "project"})

# Modes that a folder's own files can never set, trusted or not.
RECKLESS_MODES = frozenset({"auto", "bypassPermissions"})


class Layer(Struct, frozen=True, kw_only=True):
    """One source of settings. Rules of the form `/path` in it are relative to `root`."""

    scope: Scope
    data: dict[str, Any]
    root: str
    file: str | None = None
    text: str = ""
    faults: tuple[SettingFault, ...] = ()
    unreadable: str | None = None
    # Managed settings passed by the program that started clew: they can only add restrictions.
    is_handed: bool = False

    def line(self, path: Path) -> int | None:
        """Return the line of a value in the file, or None if the settings are not from a file."""
        return scan(self.text).line(path) if self.file is not None and self.text else None

    def told(self, fault: SettingFault) -> str:
        """Format a fault as `file:line: message`."""
        number = self.line(fault.path)
        where = f"{self.file}:{number}" if number else self.file or f"({self.scope})"
        return f"{where}: {fault}"


class Origin(Struct, frozen=True, kw_only=True):
    """The value that one layer sets for a key."""

    layer: Layer
    path: Path
    value: Any


def order_layers(layers: Iterable[Layer]) -> list[Layer]:
    """Return the layers by descending precedence. Within a scope, the given order is kept."""
    return sorted(layers, key=lambda layer: SCOPES.index(layer.scope))


def select_usable(layer: Layer) -> dict[str, Any]:
    """Return the layer's data without the values that have a fatal fault."""
    data: dict[str, Any] = without(layer.data, [f.path for f in layer.faults if f.fatal and f.path])
    return data


def without(holder: Any, paths: Iterable[Path]) -> Any:
    """Return a copy without the values at `paths`. Paths that do not exist are ignored."""
    groups: dict[str | int, list[Path]] = {}
    for head, *rest in paths:
        if holds(holder, head):
            groups.setdefault(head, []).append(tuple(rest))
    if not groups:
        return holder
    if isinstance(holder, list):
        return [v for i, v in enumerate(holder) if i not in groups]
    return {
        key: without(value, groups[key]) if key in groups else value
        for key, value in holder.items()
        if () not in groups.get(key, [])
    }


def merge(layers: Iterable[Layer]) -> dict[str, Any]:
    """Return the merged settings."""
    merged: dict[str, Any] = {}
    for layer in reversed(order_layers(layers)):
        merged = merged_value(merged, select_usable(layer))
    return merged


def merged_value(below: Any, above: Any) -> Any:
    if isinstance(below, dict) and isinstance(above, dict):
        merged = dict(below)
        for name, value in above.items():
            merged[name] = merged_value(below[name], value) if name in below else value
        return merged
    if isinstance(below, list) and isinstance(above, list):
        return [*above, *(value for value in below if value not in above)]
    return above


def find_origins(layers: Iterable[Layer], path: Path) -> list[Origin]:
    """Return the value of a key in every layer that sets it, highest precedence first."""
    result: list[Origin] = []
    for layer in order_layers(layers):
        present, value = find_value(select_usable(layer), path)
        if present:
            result.append(Origin(layer=layer, path=path, value=value))
    return result


def find_value(data: Any, path: Path) -> tuple[bool, Any]:
    """Return whether the data contains a value at the path, and the value."""
    for part in path:
        if not holds(data, part):
            return False, None
        data = data[part]
    return True, data


def holds(data: Any, part: str | int) -> bool:
    if isinstance(data, list):
        return isinstance(part, int) and part < len(data)
    return isinstance(data, dict) and part in data


class Inert(Struct, frozen=True, kw_only=True):
    """A value that is ignored, and the reason."""

    layer: Layer
    path: Path
    why: str


NOT_TRUSTED = "the folder is not trusted"
NOT_FROM_A_FOLDER = "project settings cannot set this mode"
NOT_STRICTER = "the folder is not trusted, and your own settings are at least as strict"

ALLOW_RULES: Path = ("permissions", "allow")
EXECUTING: tuple[Path, ...] = tuple(tuple(k.name.split(".")) for k in KEYS if k.executes)
STRICTNESS = {tuple(k.name.split(".")): k.strictness for k in KEYS if k.strictness}


def select_active(
    layers: Sequence[Layer], *, trusted: bool, saved_rules: Collection[str] = ()
) -> tuple[list[Layer], list[Inert]]:
    """Return the layers without the values that must be ignored, and a list of those values.

    `saved_rules` are the allow rules that the user saved in the local settings of an untrusted
    folder.
    """
    active_layers: list[Layer] = []
    inert: list[Inert] = []
    own = merge(layer for layer in layers if layer.scope == "user")
    for layer in layers:
        is_of_folder = layer.scope in OF_THE_FOLDER
        stopped = (
            stopped_in(layer, own, trusted=trusted, saved_rules=saved_rules) if is_of_folder else []
        )
        data = without(layer.data, [path for path, _ in stopped])
        inert += [Inert(layer=layer, path=path, why=why) for path, why in stopped]
        active_layers.append(Layer(**{**fields(layer), "data": data}) if stopped else layer)
    return active_layers, inert


def stopped_in(
    layer: Layer, own: Json, *, trusted: bool, saved_rules: Collection[str] = ()
) -> list[tuple[Path, str]]:
    """Return the values in a folder's file that must be ignored, with the reasons.

    `own` contains the user's own settings.
    """
    stopped: list[tuple[Path, str]] = []
    if not trusted:
        present = [path for path in EXECUTING if find_value(layer.data, path)[0]]
        if layer.scope == "local":
            present = [part for path in present for part in unsaved_parts(layer, path, saved_rules)]
        stopped += [(path, NOT_TRUSTED) for path in present]
    mode: Path = ("permissions", "defaultMode")
    value = find_value(layer.data, mode)[1]
    if isinstance(value, str) and value in RECKLESS_MODES:
        stopped.append((mode, NOT_FROM_A_FOLDER))
    if not trusted:
        stopped += [
            (path, NOT_STRICTER)
            for path, levels in STRICTNESS.items()
            if is_looser(find_value(layer.data, path)[1], find_value(own, path)[1], levels)
            and (path, NOT_FROM_A_FOLDER) not in stopped
        ]
    return stopped


def is_looser(value: Any, own: Any, levels: tuple[tuple[Any, ...], ...]) -> bool:
    """Return whether a folder's value differs from the user's and is not stricter.

    Return False for a value of the wrong type: it was reported, and the merge leaves it out.
    """
    ranks = {name: rank for rank, names in enumerate(levels) for name in names}
    if value == own or not isinstance(value, str | bool) or value not in ranks:
        return False
    return ranks[value] > ranks[own] or (ranks[value] == ranks[own] and own is not None)


def unsaved_parts(layer: Layer, path: Path, saved_rules: Collection[str]) -> list[Path]:
    """Return the parts of a value that the user did not save: all of it, or some allow rules."""
    value = find_value(layer.data, path)[1]
    if path != ALLOW_RULES or not isinstance(value, list):
        return [path]
    unsaved = [at for at, rule in enumerate(value) if rule not in saved_rules]
    if len(unsaved) == len(value) and value:
        return [path]
    return [(*path, at) for at in unsaved]


def fields(layer: Layer) -> dict[str, Any]:
    return {name: getattr(layer, name) for name in layer.__struct_fields__}


# Reduce settings to those that only restrict. No I/O.


# Sandbox options: the values that restrict, and below them the lists whose entries restrict.
WALLS: dict[str, tuple[Any, ...]] = {
    "enabled": (True,),
    "failIfUnavailable": (True,),
    "autoAllowBashIfSandboxed": (False,),
}
WALL_LISTS = {
    "filesystem": frozenset({"denyWrite", "denyRead"}),
    "network": frozenset({"deniedDomains"}),
}

DENYING = frozenset({"deniedMcpServers", "disabledMcpjsonServers", "deniedModels"})
# Allowlists. If the administrator has such a list, the list from the program that started clew adds
# nothing to it.
ONLY_THESE = frozenset({"allowedMcpServers", "availableModels", "strictKnownMarketplaces"})
# The lock on permission rules drops allow rules and keeps deny rules. Otherwise the program that
# starts clew could use the lock to remove a denial.
LOCKS = frozenset(
    {
        "allowManagedHooksOnly", "allowManagedMcpServersOnly", "allowManagedPermissionRulesOnly",
        "disableSkillShellExecution", "enforceAvailableModels",
    }
)  # fmt: skip
SWITCHES = frozenset({"disableAutoMode"})
OF_PERMISSIONS = frozenset(
    {"deny", "ask", "askAfterUntrusted", "disableBypassPermissionsMode", "disableAutoMode"}
)
# Lists that are combined over all settings: only an empty one restricts.
EMPTY = frozenset({"allowedHttpHookUrls", "httpHookAllowedEnvVars"})


def narrow_sandbox(settings: Json) -> tuple[Json, list[str]]:
    """Return the fields of a `sandbox` object that restrict, and the names of the others."""
    result: Json = {}
    widening: list[str] = []
    for name, value in settings.items():
        if name in WALLS:
            if value in WALLS[name]:
                result[name] = value
            else:
                widening.append(name)
        elif name in WALL_LISTS and isinstance(value, dict):
            lists = WALL_LISTS[name]
            result[name] = {k: v for k, v in value.items() if k in lists}
            widening += [f"{name}.{k}" for k in value if k not in lists]
        else:
            widening.append(name)
    return result, widening


def keep_restrictions(settings: Json, *, used_names: Iterable[str] = ()) -> tuple[Json, list[str]]:
    """Return the restrictions among the parent program's settings, and the names of other settings.

    `used_names` are keys that the administrator's own settings contain.
    """
    result: Json = {}
    rest: list[str] = []
    set_already = ONLY_THESE & set(used_names)
    for name, value in settings.items():
        if name == "disableAllHooks":
            # An administrator's own hooks still run. Programs that generate settings may write a
            # Boolean as a string, so anything that is not clearly false is treated as true.
            if value is not False and value != "false":
                result["allowManagedHooksOnly"] = True
        elif name == "sandbox" and isinstance(value, dict):
            result[name], wide = narrow_sandbox(value)
            rest += [f"{name}.{setting_name}" for setting_name in wide]
        elif name == "permissions" and isinstance(value, dict):
            result[name] = {k: v for k, v in value.items() if k in OF_PERMISSIONS}
            rest += [f"{name}.{k}" for k in value if k not in OF_PERMISSIONS]
        elif (
            name in DENYING | SWITCHES | (ONLY_THESE - set_already)
            or (name in LOCKS and value is True)
            or (name in EMPTY and value == [])
            or (name == "availableModelsMatch" and value == "exact")
        ):
            result[name] = value
        else:
            rest.append(name)
    return result, rest
