"""Reads the settings files into layers, and says when they have changed.

Owns the reading and the marks by which a change is seen. Nothing is ever written here. A file that
is not there is no layer; one that cannot be read or decoded is a layer that says so, because what
it would have denied is not known (see `clew.permissions.rules`).
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from clew.config.layers import Layer, Scope
from clew.config.paths import Places
from clew.config.regular import content
from clew.config.settings import BY_NAME, Fault, check, nearest, nearest_part
from clew.config.tightening import restricting

Stamp = tuple[int, int, int] | None

DROP_INS = "managed-settings.d"
HANDED = "--managed-settings"
PARENT = "parentSettingsBehavior"
NOT_BESIDE = (
    "counts for nothing beside the managed settings of this machine; parentSettingsBehavior: merge in "
    "them would let it"
)
ONLY_RESTRICTS = "does not count, the program that starts clew can only restrict"


class Loaded(Struct, frozen=True, kw_only=True):
    """The layers as read, and the marks of every file that was looked at, missing ones too."""

    layers: tuple[Layer, ...]
    stamps: dict[Path, Stamp]


class Given(Struct, frozen=True, kw_only=True):
    """Settings of the command line: a decoded object, and the file it came from if one; and what the program
    that started clew hands it, before it was looked through."""

    data: dict[str, Any]
    file: str | None = None
    text: str = ""
    managed: dict[str, Any] = {}


def stamp(path: Path) -> Stamp:
    """A file's mark: inode, size and time of change; None while it is not there."""
    try:
        seen = path.stat()
    except OSError:
        return None
    return seen.st_ino, seen.st_size, seen.st_mtime_ns


def changed(loaded: Loaded) -> list[Path]:
    """The files that are no longer as they were read; asked at safe points, between turns."""
    return [path for path, mark in loaded.stamps.items() if stamp(path) != mark]


def load(
    places: Places,
    *,
    sources: Sequence[Scope] = ("user", "project", "local"),
    given: Given | None = None,
) -> Loaded:
    """Every layer there is. Managed settings are always read, whatever `sources` says."""
    files: list[tuple[Scope, Path, Path]] = [
        ("managed", path, places.root) for path in managed_files(places)
    ]
    if "local" in sources:
        files.append(("local", places.local_settings, places.root))
    # In the home folder the two are one file, and it is the person's own.
    if "project" in sources and places.project_settings != places.user_settings:
        files.append(("project", places.project_settings, places.root))
    if "user" in sources:
        files.append(("user", places.user_settings, places.config_home))
    # The mark is taken before the text: a change in between is seen as a change, never missed.
    stamps = {path: stamp(path) for _, path, _ in files}
    for folder in places.managed_folders:
        stamps[folder / DROP_INS] = stamp(folder / DROP_INS)
    stamps[places.trust] = stamp(places.trust)
    layers = [
        read(scope, path, str(root)) for scope, path, root in files if stamps[path] is not None
    ]
    if given is not None and given.managed:
        layers.append(handed(given.managed, layers, str(places.root)))
    if given is not None:
        faults = tuple(check(given.data))
        layers.append(
            Layer(
                scope="cli",
                data=given.data,
                root=str(places.root),
                file=given.file,
                text=given.text,
                faults=faults,
            )
        )
    return Loaded(layers=tuple(layers), stamps=stamps)


def handed(data: dict[str, Any], layers: Sequence[Layer], root: str) -> Layer:
    """The layer of handed settings. Beside an administrator's own it is empty, unless those let it count."""
    own = [layer for layer in layers if layer.scope == "managed"]
    says = (layer.data[PARENT] for layer in own if PARENT in layer.data)
    faults: list[Fault]
    if own and next(says, None) != "merge":
        kept: dict[str, Any] = {}
        faults = [Fault(path=(), what=NOT_BESIDE, fatal=False)]
    else:
        kept, rest = restricting(data, taken=(name for layer in own for name in layer.data))
        faults = [Fault(path=tuple(n.split(".")), what=why_not(n), fatal=False) for n in rest]
        faults += check(kept, managed=True)
    return Layer(
        scope="managed",
        data=kept,
        root=root,
        file=HANDED,
        text=json.dumps(data),
        faults=tuple(faults),
        is_handed=True,
    )


def why_not(name: str) -> str:
    """Why a member of handed settings does not count: nobody knows it, or it could widen something."""
    if name in BY_NAME or name.startswith("sandbox."):
        return ONLY_RESTRICTS
    near = nearest(name) or nearest_part(name)
    return "does not count, unknown key" + (f"; did you mean {near}?" if near else "")


def managed_files(places: Places) -> list[Path]:
    """The managed file and its drop-ins, the strongest first: later names override earlier ones."""
    files: list[Path] = []
    for folder in places.managed_folders:
        files += sorted((folder / DROP_INS).glob("*.json"), reverse=True)
        files.append(folder / "managed-settings.json")
    return files


def read(scope: Scope, path: Path, root: str) -> Layer:
    try:
        text = content(path).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
        return broken(scope, str(path), root, f"{path}: {reason}")
    return decoded(scope, str(path), root, text)


def broken(scope: Scope, path: str, root: str, why: str) -> Layer:
    fault = Fault(path=(), what=why)
    return Layer(scope=scope, data={}, root=root, file=path, faults=(fault,), unreadable=why)


def decoded(scope: Scope, path: str, root: str, text: str) -> Layer:
    """A layer of a file's text; keys written twice are faults, for the first one is lost."""
    twice: list[str] = []

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            names = [name for name, _ in pairs]
            twice.extend(sorted({n for n in names if names.count(n) > 1}))
        return result

    if not text.strip():
        return Layer(scope=scope, data={}, root=root, file=path, text="{}")
    try:
        data = json.loads(text, object_pairs_hook=members)
    except json.JSONDecodeError as error:
        return broken(scope, path, root, f"{path}:{error.lineno}: not JSON: {error.msg.lower()}")
    except RecursionError:
        return broken(scope, path, root, f"{path}: not JSON: nested too deeply")
    if not isinstance(data, dict):
        return broken(scope, path, root, f"{path}:1: {check(data)[0].what}")
    doubled = [
        Fault(path=(), what=f"{name} is written twice; the last one counts", fatal=False)
        for name in twice
    ]
    faults = (*check(data, managed=scope == "managed"), *doubled)
    return Layer(scope=scope, data=data, root=root, file=path, text=text, faults=faults)


def complaints(layers: Sequence[Layer]) -> list[str]:
    """Every fault as `file:line: key: what`, in the order of the files."""
    lines: list[str] = []
    for layer in layers:
        if layer.unreadable is not None:
            lines.append(layer.unreadable)
        else:
            lines += (layer.told(fault) for fault in layer.faults)
    return lines
