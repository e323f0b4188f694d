"""What the settings say, and how one is changed: the answers that people, commands and tools are given.

Values are shown without the secrets in them. A file is written whole or not at all, with every other
byte as it was.
"""

import json
from pathlib import Path
from typing import Any

from msgspec import Struct

from clew.config.edit import with_value, without
from clew.config.layers import Layer, Scope, in_force, merge, origins, value_at
from clew.config.load import load, read
from clew.config.mask import mask
from clew.config.paths import Places
from clew.config.positions import Path as KeyPath
from clew.config.positions import dotted, undotted
from clew.config.settings import BY_NAME, NO_EFFECT, OPEN_OBJECTS, check
from clew.config.there import is_there
from clew.config.trust import trusts
from clew.config.write import alone, replace
from clew.messages.errors import SettingsError


class Assigned(Struct, frozen=True, kw_only=True):
    """A value that a file holds now; `faults` are worth telling and did not prevent it."""

    path: Path
    value: Any
    before: Any = None
    faults: tuple[str, ...] = ()


def in_force_now(places: Places) -> dict[str, Any]:
    """The settings of all files together, as they hold."""
    layers, _ = in_force(load(places).layers, trusted=trusts(places))
    return merge(layers)


def spelled(value: Any) -> str:
    """A value for people, without the secrets in it."""
    return mask(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def listed(places: Places) -> list[str]:
    """Every value in force, and where it came from."""
    layers, _ = in_force(load(places).layers, trusted=trusts(places))
    settings = merge(layers)
    return [
        f"{dotted(path)} = {spelled(value_at(settings, path)[1])}  "
        f"{where(origins(layers, path)[0].layer, path)}"
        for path in leaves(settings)
    ]


def leaves(settings: dict[str, Any], above: KeyPath = ()) -> list[KeyPath]:
    """The paths of all values; objects that have no keys of ours are values."""
    found: list[KeyPath] = []
    for name, value in settings.items():
        path = (*above, name)
        whole = dotted(path) in OPEN_OBJECTS or dotted(path) not in BY_NAME
        found += leaves(value, path) if isinstance(value, dict) and not whole else [path]
    return found


def where(layer: Layer, path: KeyPath) -> str:
    line = layer.line(path)
    return f"({layer.file}:{line})" if line else f"({layer.scope})"


def explained(places: Places, name: str) -> list[str]:
    """What each file says on a key, and who wins."""
    lines: list[str] = []
    path = undotted(name)
    known = BY_NAME.get(name)
    if known is not None:
        lines.append(f"{known.name}: {known.meaning}; {known.kind}")
        lines += [] if known.has_effect else [f"  {NO_EFFECT}"]
    loaded = load(places)
    layers, inert = in_force(loaded.layers, trusted=trusts(places))
    said = origins(layers, path)
    for i, origin in enumerate(said):
        listed = isinstance(origin.value, (list, dict))
        mark = "in force" if i == 0 else "added" if listed else "overridden"
        place = where(origin.layer, path)
        lines.append(f"  {origin.layer.scope:<8} {spelled(origin.value)}  {place} {mark}")
    for one in inert:
        if one.path == path:
            lines.append(
                f"  {one.layer.scope:<8} does not count: {one.why} {where(one.layer, path)}"
            )
    if not said:
        lines.append("  not set")
    return lines


def target(places: Places, scope: Scope) -> tuple[Path, str, dict[str, Any]]:
    """The file of a scope, its text and what it says; a broken file is not written to."""
    path = places.settings_file(scope)
    if not is_there(path):
        return path, "", {}
    layer = read(scope, path, str(places.root))
    if layer.unreadable is not None:
        raise SettingsError(layer.unreadable)
    return path, layer.text, layer.data


def assign(places: Places, scope: Scope, name: str | KeyPath, value: Any) -> Assigned:
    """Writes a value into the file of a scope; raises `SettingsError` where it may not stand there."""
    key = undotted(name) if isinstance(name, str) else name
    if not key:
        raise SettingsError(f"{name!r} names no key")
    with alone(places.config_home):
        path, text, data = target(places, scope)
        after = with_value(text, key, value)
        faults = [f for f in check(json.loads(after)) if f.path[: len(key)] == key]
        if any(f.fatal for f in faults):
            raise SettingsError(str(faults[0]))
        if value_at(data, key) != (True, value):
            replace(path, after)
    return Assigned(
        path=path, value=value, before=value_at(data, key)[1], faults=tuple(map(str, faults))
    )


def unset(places: Places, scope: Scope, name: str) -> Path:
    """Takes a value out of the file of a scope; raises `SettingsError` if it is not there."""
    with alone(places.config_home):
        path, text, data = target(places, scope)
        key = undotted(name)
        if not key or not value_at(data, key)[0]:
            raise SettingsError(f"{path}: {name} is not set there")
        replace(path, without(text, key))
    return path


def parsed(name: str, text: str) -> Any:
    """JSON where the text is JSON; a word is a text where a text is expected, or nothing else."""
    known = BY_NAME.get(name)
    if known is not None and known.kind == "a string":
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
