"""Feature flags: one table of risky subsystems, each with a default and a switch.

A flag is set by `features` in settings or by `CLEW_FEATURES`, and never by a server. For a
subsystem that is on by default, an "off" from either is final. A subsystem that already has a
setting of its own keeps it, and the table names it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from clew.core.nearest import find_nearest
from clew.system.config.environment import Environment
from clew.system.config.settings import read_object, read_switch

SETTING, VARIABLE = "features", "features"
ReadOwn: TypeAlias = Callable[[Mapping[str, Any]], bool | None]


class FeatureFlag(Struct, frozen=True, kw_only=True):
    """A subsystem that can be turned off.

    `setting` is the subsystem's own setting, if it has one, and `own` reads this setting.
    """

    name: str
    meaning: str
    default: bool = True
    setting: str = ""
    own: ReadOwn | None = None


def flag(name: str, meaning: str, **fields: Any) -> FeatureFlag:
    return FeatureFlag(name=name, meaning=meaning, **fields)


FLAGS: tuple[FeatureFlag, ...] = (
    flag("bubblewrap", "Run commands in bubblewrap sandboxes"),
    flag("landlock", "Run commands in Landlock sandboxes"),
    flag("seatbelt", "Run commands in seatbelt sandboxes (macOS)"),
    flag("threads", "Keep conversations in the service's message threads",
         default=False, setting="messageThreads",
         own=lambda settings: read_switch(settings, "messageThreads")),
    flag("warming", "Keep the prompt cache warm, within cacheWarmingBudgetUsd"),
    flag("memory", "Give the model the project's memories", setting="autoMemoryEnabled",
         own=lambda settings: read_switch(settings, "autoMemoryEnabled")),
    flag("lsp", "Start language servers"),
    flag("mcp", "Start MCP servers"),
    flag("importers", "Import sessions of other programs"),
    flag("remote", "Copy sessions to the store that sessionStore specifies"),
)  # fmt: skip
BY_NAME = {flag.name: flag for flag in FLAGS}


class FlagState(Struct, frozen=True, kw_only=True):
    """The state of a subsystem: whether it is on, and which setting or variable decided this."""

    flag: FeatureFlag
    is_on: bool
    source: str = "default"


def find_flag_state(name: str, settings: Mapping[str, Any], environment: Environment) -> FlagState:
    """Return the state of one flag; its own setting has the same effect as `features`."""
    row = BY_NAME[name]
    said: list[tuple[str, bool]] = []
    given = read_variable(environment).get(name)
    if given is not None:
        said.append((environment.source(VARIABLE) or "CLEW_FEATURES", given))
    in_settings = read_object(settings, "features").get(name)
    if isinstance(in_settings, bool):
        said.append((f"{SETTING}.{name}", in_settings))
    if row.own is not None and row.setting in settings:
        own = row.own(settings)
        if own is not None:
            said.append((row.setting, own))
    off = next((source for source, value in said if not value), None)
    if off is not None:
        return FlagState(flag=row, is_on=False, source=off)
    if said:
        return FlagState(flag=row, is_on=True, source=said[0][0])
    return FlagState(flag=row, is_on=row.default)


def is_feature_on(name: str, settings: Mapping[str, Any], environment: Environment) -> bool:
    return find_flag_state(name, settings, environment).is_on


def list_flags(settings: Mapping[str, Any], environment: Environment) -> list[FlagState]:
    return [find_flag_state(flag.name, settings, environment) for flag in FLAGS]


def read_variable(environment: Environment) -> dict[str, bool]:
    """Return the flags in `CLEW_FEATURES`, where a minus sign before a name turns the flag off."""
    words = (environment.text(VARIABLE) or "").replace(",", " ").split()
    return {word.lstrip("+-"): not word.startswith("-") for word in words}


def find_flag_faults(settings: Mapping[str, Any], environment: Environment) -> Iterator[str]:
    """Yield a message for each flag that does not exist or whose value is not a Boolean."""
    values = read_object(settings, "features")
    for place, names in ((SETTING, values), ("CLEW_FEATURES", read_variable(environment))):
        for name in names:
            if name not in BY_NAME:
                near = find_nearest(name, BY_NAME)
                hint = f" (did you mean {near!r}?)" if near else ""
                yield f"{place}: unknown feature {name!r}{hint}"
    for name, value in values.items():
        if name in BY_NAME and not isinstance(value, bool):
            yield f"{SETTING}.{name}: expected true or false, got {value!r}"
