"""What of somebody's settings only takes away. Pure.

Owns two tables: of the sandbox, for a folder's own files; and of everything, for the program that starts
clew and hands it settings (`--managed-settings`). Such settings stand where an administrator's do, so what
could widen anything is left out of them, and so is what nobody has decided about here.
"""

from collections.abc import Iterable
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

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


def walls(said: Json) -> tuple[Json, list[str]]:
    """What of a `sandbox` object takes something away, and the names of the rest."""
    kept: Json = {}
    widening: list[str] = []
    for name, value in said.items():
        if name in WALLS:
            if value in WALLS[name]:
                kept[name] = value
            else:
                widening.append(name)
        elif name in WALL_LISTS and isinstance(value, dict):
            lists = WALL_LISTS[name]
            kept[name] = {k: v for k, v in value.items() if k in lists}
            widening += [f"{name}.{k}" for k in value if k not in lists]
        else:
            widening.append(name)
    return kept, widening


def restricting(said: Json, *, taken: Iterable[str] = ()) -> tuple[Json, list[str]]:
    """What of handed settings restricts, and the names of the rest; `taken` are keys that others have set."""
    kept: Json = {}
    rest: list[str] = []
    set_already = ONLY_THESE & set(taken)
    for name, value in said.items():
        if name == "disableAllHooks":
            # An administrator's own hooks go on. Programs that make settings of other settings may say it as
            # a text; what is not plainly no is yes.
            if value is not False and value != "false":
                kept["allowManagedHooksOnly"] = True
        elif name == "sandbox" and isinstance(value, dict):
            kept[name], wide = walls(value)
            rest += [f"{name}.{each}" for each in wide]
        elif name == "permissions" and isinstance(value, dict):
            kept[name] = {k: v for k, v in value.items() if k in OF_PERMISSIONS}
            rest += [f"{name}.{k}" for k in value if k not in OF_PERMISSIONS]
        elif (
            name in DENYING | SWITCHES | (ONLY_THESE - set_already)
            or (name in LOCKS and value is True)
            or (name in EMPTY and value == [])
        ):
            kept[name] = value
        else:
            rest.append(name)
    return kept, rest
