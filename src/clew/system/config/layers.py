"""Settings of several files as one: who wins, what adds up, and where each value came from.

Owns the order of scopes, the merge, and what a folder nobody trusts may not say. Scalars: the
highest scope wins. Objects are merged by key. Arrays add up over all scopes, the highest first,
each element once; so a deny rule anywhere counts (see `clew.permissions`).
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from msgspec import Struct

from clew.core.json_object import Json
from clew.system.config.json_text import Path, scan
from clew.system.config.settings import KEYS, SettingFault

Scope = Literal["managed", "cli", "session", "local", "project", "user"]

# Highest first.
SCOPES: tuple[Scope, ...] = ("managed", "cli", "session", "local", "project", "user")

# These lie in the folder itself: whoever wrote the folder may have written them.
OF_THE_FOLDER: frozenset[Scope] = frozenset({"local", "project"})

# Modes that a folder's own files never switch on, trusted or not.
RECKLESS_MODES = frozenset({"auto", "bypassPermissions"})


class Layer(Struct, frozen=True, kw_only=True):
    """One source of settings. `root` is what a rule `/path` of this file stands on."""

    scope: Scope
    data: dict[str, Any]
    root: str
    file: str | None = None
    text: str = ""
    faults: tuple[SettingFault, ...] = ()
    unreadable: str | None = None
    # Managed settings that came from the program that started clew: they restrict and lift nothing.
    is_handed: bool = False

    def line(self, path: Path) -> int | None:
        """The line of a member of the file; None for what came from no file."""
        return scan(self.text).line(path) if self.file is not None and self.text else None

    def told(self, fault: SettingFault) -> str:
        """A fault as `file:line: key: what`."""
        number = self.line(fault.path)
        where = f"{self.file}:{number}" if number else self.file or f"({self.scope})"
        return f"{where}: {fault}"


class Origin(Struct, frozen=True, kw_only=True):
    """One layer's word on a key, the winner first."""

    layer: Layer
    path: Path
    value: Any


def order_layers(layers: Iterable[Layer]) -> list[Layer]:
    """Highest scope first; within a scope as they came."""
    return sorted(layers, key=lambda layer: SCOPES.index(layer.scope))


def select_usable(layer: Layer) -> dict[str, Any]:
    """The layer's data without the values that are of the wrong kind."""
    data: dict[str, Any] = without(layer.data, [f.path for f in layer.faults if f.fatal and f.path])
    return data


def without(holder: Any, paths: Iterable[Path]) -> Any:
    """A copy without some members; what does not hold a member is returned as it is."""
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
    """The settings in force."""
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
    """Every layer that says something on a key, the strongest first."""
    result: list[Origin] = []
    for layer in order_layers(layers):
        present, value = find_value(select_usable(layer), path)
        if present:
            result.append(Origin(layer=layer, path=path, value=value))
    return result


def find_value(data: Any, path: Path) -> tuple[bool, Any]:
    """Whether the path leads to a value, and the value."""
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
    """A value that does not count, and why."""

    layer: Layer
    path: Path
    why: str


NOT_TRUSTED = "the folder is not trusted"
NOT_FROM_A_FOLDER = "a folder's own files may not switch this mode on"

EXECUTING: tuple[Path, ...] = tuple(tuple(k.name.split(".")) for k in KEYS if k.executes)


def select_active(layers: Sequence[Layer], *, trusted: bool) -> tuple[list[Layer], list[Inert]]:
    """The layers without what may not count, and the list of what was taken out."""
    active_layers: list[Layer] = []
    inert: list[Inert] = []
    for layer in layers:
        stopped = stopped_in(layer, trusted=trusted) if layer.scope in OF_THE_FOLDER else []
        data = without(layer.data, [path for path, _ in stopped])
        inert += [Inert(layer=layer, path=path, why=why) for path, why in stopped]
        active_layers.append(Layer(**{**fields(layer), "data": data}) if stopped else layer)
    return active_layers, inert


def stopped_in(layer: Layer, *, trusted: bool) -> list[tuple[Path, str]]:
    stopped: list[tuple[Path, str]] = []
    if not trusted:
        present = [path for path in EXECUTING if find_value(layer.data, path)[0]]
        stopped += [(path, NOT_TRUSTED) for path in present]
    mode: Path = ("permissions", "defaultMode")
    value = find_value(layer.data, mode)[1]
    if value in RECKLESS_MODES:
        stopped.append((mode, NOT_FROM_A_FOLDER))
    elif value == "acceptEdits" and not trusted:
        stopped.append((mode, NOT_TRUSTED))
    return stopped


def fields(layer: Layer) -> dict[str, Any]:
    return {name: getattr(layer, name) for name in layer.__struct_fields__}


# What of somebody's settings only takes away. Pure.


# Of the sandbox: the values that make sure, and the lists that take away.
WALLS: dict[str, tuple[Any, ...]] = {
    "enabled": (True,),
    "failIfUnavailable": (True,),
    "autoAllowBashIfSandboxed": (False,),
}
WALL_LISTS = {
    "filesystem": frozenset({"denyWrite", "denyRead"}),
    "network": frozenset({"deniedDomains"}),
}

DENYING = frozenset({"deniedMcpServers", "disabledMcpjsonServers"})
# Lists of all there may be: an administrator's is not added to.
ONLY_THESE = frozenset({"allowedMcpServers", "strictKnownMarketplaces"})
# The lock on permission rules drops allow rules and keeps deny rules: otherwise the program that starts
# clew could silence a denial with it.
LOCKS = frozenset({"allowManagedHooksOnly", "allowManagedPermissionRulesOnly"})
SWITCHES = frozenset({"disableAutoMode"})
OF_PERMISSIONS = frozenset(
    {"deny", "ask", "askAfterUntrusted", "disableBypassPermissionsMode", "disableAutoMode"}
)
# Lists that add up over all settings: only an empty one takes away.
EMPTY = frozenset({"allowedHttpHookUrls", "httpHookAllowedEnvVars"})


def narrow_sandbox(settings: Json) -> tuple[Json, list[str]]:
    """What of a `sandbox` object takes something away, and the names of the rest."""
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
    """What of handed settings restricts, and the names of the rest; `used_names` are keys that others have set."""
    result: Json = {}
    rest: list[str] = []
    set_already = ONLY_THESE & set(used_names)
    for name, value in settings.items():
        if name == "disableAllHooks":
            # An administrator's own hooks go on. Programs that make settings of other settings may say it as
            # a text; what is not plainly no is yes.
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
        ):
            result[name] = value
        else:
            rest.append(name)
    return result, rest
