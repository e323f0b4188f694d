"""Writes a rule into a settings file, or takes one out; every other byte of the file stays.

Owns the check before the write: a rule that cannot be read, a file that is broken, are not written.
"""

from pathlib import Path

from clew.config.edit import with_value, without
from clew.config.layers import value_at
from clew.config.load import read
from clew.config.paths import Places
from clew.config.positions import Path as KeyPath
from clew.config.there import is_there
from clew.config.write import alone, replace
from clew.messages.errors import SettingsError
from clew.permissions.rules import LISTS, Rejected, Source, parse_rule


def opened(places: Places, scope: str, name: str) -> tuple[Path, str, list[object]]:
    """The file of a scope, its text, and the list of rules in it."""
    path = places.settings_file(scope)
    if not is_there(path):
        return path, "", []
    layer = read("local", path, str(places.root))
    if layer.unreadable is not None:
        raise SettingsError(layer.unreadable)
    present, rules = value_at(layer.data, ("permissions", name))
    if present and not isinstance(rules, list):
        raise SettingsError(f"{path}: permissions.{name} is not an array")
    return path, layer.text, list(rules or ())


def add_rule(places: Places, scope: str, name: str, text: str) -> str:
    """Adds a rule; says what was done."""
    rule = parse_rule(text, LISTS[name], root="/", source=Source(scope="local"))
    if isinstance(rule, Rejected):
        raise SettingsError(f"{text}: {rule.what}")
    with alone(places.config_home):
        path, before, rules = opened(places, scope, name)
        if rule.text in rules:
            return f"{path}: {name} has {rule.text} already"
        where: KeyPath = ("permissions", name, len(rules))
        after = with_value(before, where, rule.text) if before else first_rule(name, rule.text)
        replace(path, after)
    return f"{path}: {name} {rule.text}"


def first_rule(name: str, text: str) -> str:
    return with_value("", ("permissions", name, 0), text)


def remove_rule(places: Places, scope: str, name: str, text: str) -> str:
    """Takes a rule out; says what was done."""
    with alone(places.config_home):
        path, before, rules = opened(places, scope, name)
        if text not in rules:
            raise SettingsError(f"{path}: {name} has no rule {text}")
        replace(path, without(before, ("permissions", name, rules.index(text))))
    return f"{path}: {name} no longer has {text}"
