"""Read the settings files into layers, and detect when they change.

Owns the reading and the stamps by which a change is detected. A missing file yields no layer. A
file that cannot be read or decoded yields a layer marked as unreadable, because it may contain deny
rules (see `clew.permissions.rules`).
"""

import json
from collections.abc import Collection, Sequence
from pathlib import Path, PurePath
from typing import Any

from msgspec import Struct, structs

from clew.core.messages.errors import SettingsError
from clew.system.config.json_text import Path as KeyPath
from clew.system.config.json_text import join_path, remove_value, set_value, split_path
from clew.system.config.layers import (
    Inert,
    Layer,
    Scope,
    find_origins,
    find_value,
    keep_restrictions,
    merge,
    select_active,
)
from clew.system.config.mask import mask
from clew.system.config.own_files import read_own, write_own
from clew.system.config.paths import Places
from clew.system.config.settings import (
    BY_NAME,
    NO_EFFECT,
    OPEN_OBJECTS,
    SettingFault,
    check,
    find_nearest_key,
    find_nearest_part,
    find_unsupported,
    unknown_key,
)
from clew.system.files import hold_lock, is_there, read_content, replace

# Folders that the user trusts to start programs: hooks, servers, helpers, and their own allow
# rules.


def is_trusted(folder: str, trusted: Collection[str], *, home: str) -> bool:
    """Return whether a folder, given by its real path, or one of its parents is trusted."""
    path = PurePath(folder)
    around = [str(p) for p in path.parents if str(p) != home and p != p.parent]
    return folder in trusted or any(p in trusted for p in around)


class TrustRecord(Struct, frozen=True, kw_only=True):
    """The user's trust: trusted folders, and by folder the allow rules that the user saved there.

    A rule is in this list because the user chose it in a permission prompt. Any other rule in the
    same settings file may have come with the folder.
    """

    folders: frozenset[str] = frozenset()
    rules: dict[str, frozenset[str]] = {}


def read_trust_record(places: Places) -> TrustRecord:
    """Read the file of trust decisions. Entries that cannot be read grant no trust."""
    data = read_own(places.trust)
    rules = data.get("rules")
    by_folder = rules.items() if isinstance(rules, dict) else ()
    return TrustRecord(
        folders=read_texts(data.get("folders")),
        rules={folder: read_texts(texts) for folder, texts in by_folder},
    )


def read_texts(value: Any) -> frozenset[str]:
    return (
        frozenset(v for v in value if isinstance(v, str))
        if isinstance(value, list)
        else frozenset()
    )


def write_trust_record(places: Places, record: TrustRecord) -> None:
    rules = {folder: sorted(texts) for folder, texts in sorted(record.rules.items()) if texts}
    data = {"folders": sorted(record.folders)} | ({"rules": rules} if rules else {})
    write_own(places.trust, data)


def read_trusted(places: Places) -> frozenset[str]:
    """Return the trusted folders, or none if the file cannot be read."""
    return read_trust_record(places).folders


def trust(places: Places, folder: str) -> None:
    """Trust a folder, given by its real path, from now on."""
    with hold_lock(places.config_home):
        before = read_trust_record(places)
        write_trust_record(places, structs.replace(before, folders=before.folders | {folder}))


def distrust(places: Places, folder: str) -> None:
    """Stop trusting a folder, and the rules that the user saved in it."""
    with hold_lock(places.config_home):
        before = read_trust_record(places)
        rules = {name: texts for name, texts in before.rules.items() if name != folder}
        write_trust_record(places, TrustRecord(folders=before.folders - {folder}, rules=rules))


def read_saved_rules(places: Places) -> frozenset[str]:
    """Return the allow rules that the user saved in the project's local settings."""
    return read_trust_record(places).rules.get(str(places.root.resolve()), frozenset())


def remember_rules(
    places: Places, *, saved: Collection[str] = (), removed: Collection[str] = ()
) -> None:
    """Record that the user saved allow rules in the project's local settings, or removed them."""
    folder = str(places.root.resolve())
    with hold_lock(places.config_home):
        before = read_trust_record(places)
        now = before.rules.get(folder, frozenset())
        after = (now | frozenset(saved)) - frozenset(removed)
        if after != now:
            rules = before.rules | {folder: after}
            write_trust_record(places, structs.replace(before, rules=rules))


def select_trusted(places: Places, layers: Sequence[Layer]) -> tuple[list[Layer], list[Inert]]:
    """Return the layers without the values that must be ignored here, and those values."""
    saved = read_saved_rules(places)
    return select_active(layers, trusted=trusts(places), saved_rules=saved)


def trusts(places: Places, folder: Path | None = None) -> bool:
    """Return whether the programs in a folder's settings may run.

    The folder is by default that of the session's project.
    """
    real = (folder or places.root).resolve()
    return is_trusted(str(real), read_trusted(places), home=str(places.home.resolve()))


Stamp = tuple[int, int, int] | None

DROP_INS = "managed-settings.d"
HANDED = "--managed-settings"
PARENT = "parentSettingsBehavior"
NOT_BESIDE = (
    "ignored because this machine has managed settings; to apply both, set "
    '"parentSettingsBehavior": "merge" in the managed settings'
)
ONLY_RESTRICTS = "ignored because the program that starts clew can only add restrictions"


class LoadedSettings(Struct, frozen=True, kw_only=True):
    """The layers as read, and the stamps of all files, including missing ones."""

    layers: tuple[Layer, ...]
    stamps: dict[Path, Stamp]


class CommandLineSettings(Struct, frozen=True, kw_only=True):
    """Settings from the command line: a decoded object, and the file it was read from, if any.

    `managed` contains the settings that the program that started clew passed, before they were
    reduced to restrictions.
    """

    data: dict[str, Any]
    file: str | None = None
    text: str = ""
    managed: dict[str, Any] = {}


def read_stamp(path: Path) -> Stamp:
    """Return a file's inode, size and modification time; None if it is missing or inaccessible."""
    try:
        seen = path.stat()
    except OSError:
        return None
    return seen.st_ino, seen.st_size, seen.st_mtime_ns


def find_changed(loaded: LoadedSettings) -> list[Path]:
    """Return the files that changed since they were read. Called between turns."""
    return [path for path, mark in loaded.stamps.items() if read_stamp(path) != mark]


def load_settings(
    places: Places,
    *,
    sources: Sequence[Scope] = ("user", "project", "local"),
    command_line: CommandLineSettings | None = None,
) -> LoadedSettings:
    """Read all layers. Managed settings are always read, regardless of `sources`."""
    files: list[tuple[Scope, Path, Path]] = [
        ("managed", path, places.root) for path in managed_files(places)
    ]
    if "local" in sources:
        files.append(("local", places.local_settings, places.root))
    # In the home folder the two are the same file, and it belongs to the user.
    if "project" in sources and places.project_settings != places.user_settings:
        files.append(("project", places.project_settings, places.root))
    if "user" in sources:
        files.append(("user", places.user_settings, places.config_home))
    # The stamp is taken before the text is read, so that a change in between is detected.
    stamps = {path: read_stamp(path) for _, path, _ in files}
    for folder in places.managed_folders:
        stamps[folder / DROP_INS] = read_stamp(folder / DROP_INS)
    stamps[places.trust] = read_stamp(places.trust)
    layers = [
        read(scope, path, str(root)) for scope, path, root in files if stamps[path] is not None
    ]
    if command_line is not None and command_line.managed:
        layers.append(handed(command_line.managed, layers, str(places.root)))
    if command_line is not None:
        faults = tuple(check(command_line.data))
        layers.append(
            Layer(
                scope="cli",
                data=command_line.data,
                root=str(places.root),
                file=command_line.file,
                text=command_line.text,
                faults=faults,
            )
        )
    return LoadedSettings(layers=tuple(layers), stamps=stamps)


def handed(data: dict[str, Any], layers: Sequence[Layer], root: str) -> Layer:
    """Return a layer with the settings that the parent program passed.

    If the administrator's own managed settings exist, the layer is empty unless they allow such
    settings.
    """
    own = [layer for layer in layers if layer.scope == "managed"]
    says = (layer.data[PARENT] for layer in own if PARENT in layer.data)
    faults: list[SettingFault]
    if own and next(says, None) != "merge":
        settings: dict[str, Any] = {}
        faults = [SettingFault(path=(), what=NOT_BESIDE, fatal=False)]
    else:
        settings, rest = keep_restrictions(
            data, used_names=(name for layer in own for name in layer.data)
        )
        faults = [reject_handed(name) for name in rest]
        faults += check(settings, managed=True)
    return Layer(
        scope="managed",
        data=settings,
        root=root,
        file=HANDED,
        text=json.dumps(data),
        faults=tuple(faults),
        is_handed=True,
    )


def reject_handed(name: str) -> SettingFault:
    """Return why a key from the parent program is ignored."""
    path = tuple(name.split("."))
    if name in BY_NAME or name.startswith("sandbox."):
        return SettingFault(path=path, what=ONLY_RESTRICTS, fatal=False)
    return unknown_key(path, find_nearest_key(name) or find_nearest_part(name))


def managed_files(places: Places) -> list[Path]:
    """Return the managed file and its drop-ins, highest precedence first.

    Among the drop-ins, the last name in alphabetical order takes precedence.
    """
    files: list[Path] = []
    for folder in places.managed_folders:
        files += sorted((folder / DROP_INS).glob("*.json"), reverse=True)
        files.append(folder / "managed-settings.json")
    return files


def read(scope: Scope, path: Path, root: str) -> Layer:
    try:
        text = read_content(path).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not valid UTF-8"
        return broken(scope, str(path), root, f"{path}: {reason}")
    return decoded(scope, str(path), root, text)


def broken(scope: Scope, path: str, root: str, why: str) -> Layer:
    fault = SettingFault(path=(), what=why)
    return Layer(scope=scope, data={}, root=root, file=path, faults=(fault,), unreadable=why)


def decoded(scope: Scope, path: str, root: str, text: str) -> Layer:
    """Return the layer for a file's text.

    Duplicate keys are faults, because all values but the last are lost.
    """
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
        return broken(
            scope, path, root, f"{path}:{error.lineno}: invalid JSON: {error.msg.lower()}"
        )
    except RecursionError:
        return broken(scope, path, root, f"{path}: invalid JSON: nested too deeply")
    if not isinstance(data, dict):
        return broken(scope, path, root, f"{path}:1: {check(data)[0].what}")
    doubled = [
        SettingFault(path=(), what=f'duplicate key "{name}" (the last value is used)', fatal=False)
        for name in twice
    ]
    faults = (*check(data, managed=scope == "managed"), *doubled)
    return Layer(scope=scope, data=data, root=root, file=path, text=text, faults=faults)


def describe_faults(layers: Sequence[Layer]) -> list[str]:
    """Return every fault as `file:line: message`, in the order of the files."""
    lines: list[str] = []
    for layer in layers:
        if layer.unreadable is not None:
            lines.append(layer.unreadable)
        else:
            lines += (layer.told(fault) for fault in layer.faults)
    return lines


def name_unsupported(layers: Sequence[Layer]) -> list[str]:
    """Return a line for each file with settings that clew does not support."""
    return [
        f"{layer.file or f'({layer.scope})'}: not supported by clew: "
        f"{', '.join(key.name for key in keys)}; run clew doctor for the reasons"
        for layer in layers
        if (keys := find_unsupported(layer.data))
    ]


# Listing, explaining and changing settings, for commands, tools and the SDK.


class Assigned(Struct, frozen=True, kw_only=True):
    """The result of writing a value. `faults` are warnings that did not prevent it."""

    path: Path
    value: Any
    before: Any = None
    faults: tuple[str, ...] = ()


def in_force_now(places: Places) -> dict[str, Any]:
    """Return the merged settings of all files, as they apply now."""
    layers, _ = select_trusted(places, load_settings(places).layers)
    return merge(layers)


def format_value(value: Any) -> str:
    """Format a value for display, with secrets masked."""
    return mask(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def list_settings(places: Places) -> list[tuple[str, str, str]]:
    """Return the key, the value and the source of each active value."""
    layers, _ = select_trusted(places, load_settings(places).layers)
    settings = merge(layers)
    return [
        (
            join_path(path),
            format_value(find_value(settings, path)[1]),
            where(find_origins(layers, path)[0].layer, path),
        )
        for path in leaves(settings)
    ]


def leaves(settings: dict[str, Any], above: KeyPath = ()) -> list[KeyPath]:
    """Return the paths of all values. An object whose keys are not settings is one value."""
    paths: list[KeyPath] = []
    for name, value in settings.items():
        path = (*above, name)
        is_leaf = join_path(path) in OPEN_OBJECTS or join_path(path) not in BY_NAME
        paths += leaves(value, path) if isinstance(value, dict) and not is_leaf else [path]
    return paths


def where(layer: Layer, path: KeyPath) -> str:
    line = layer.line(path)
    return f"({layer.file}:{line})" if line else f"({layer.scope})"


def explain_setting(places: Places, name: str) -> list[str]:
    """Return the lines that explain a setting.

    These are the setting's description, one line for each file that sets it (the line that applies
    is marked), and the reasons for ignored values.
    """
    lines: list[str] = []
    path = split_path(name)
    setting_key = BY_NAME.get(name)
    if setting_key is not None:
        lines.append(f"{setting_key.name}: {setting_key.meaning}; {setting_key.kind}")
        if setting_key.unsupported:
            lines.append(f"  {NO_EFFECT}: {setting_key.unsupported}")
    loaded = load_settings(places)
    layers, inert = select_trusted(places, loaded.layers)
    sources = find_origins(layers, path)
    for i, origin in enumerate(sources):
        listed = isinstance(origin.value, (list, dict))
        mark = "in force" if i == 0 else "added" if listed else "overridden"
        place = where(origin.layer, path)
        lines.append(f"  {origin.layer.scope:<8} {format_value(origin.value)}  {place} {mark}")
    for item in inert:
        if item.path[: len(path)] == path:
            lines.append(
                f"  {item.layer.scope:<8} ignored because {item.why} {where(item.layer, item.path)}"
            )
    if not sources:
        lines.append("  not set")
    return lines


def target(places: Places, scope: Scope) -> tuple[Path, str, dict[str, Any]]:
    """Return the path, text and data of a scope's settings file.

    Raise `SettingsError` if the file is invalid.
    """
    path = places.settings_file(scope)
    if not is_there(path):
        return path, "", {}
    layer = read(scope, path, str(places.root))
    if layer.unreadable is not None:
        raise SettingsError(layer.unreadable)
    return path, layer.text, layer.data


def assign(places: Places, scope: Scope, name: str | KeyPath, value: Any) -> Assigned:
    """Write a value to a scope's file. Raise `SettingsError` if the value is invalid there."""
    key = split_path(name) if isinstance(name, str) else name
    if not key:
        raise SettingsError(f"invalid key: {name!r}")
    with hold_lock(places.config_home):
        path, text, data = target(places, scope)
        after = set_value(text, key, value)
        faults = [f for f in check(json.loads(after)) if f.path[: len(key)] == key]
        if any(f.fatal for f in faults):
            raise SettingsError(str(faults[0]))
        if find_value(data, key) != (True, value):
            replace(path, after)
    return Assigned(
        path=path, value=value, before=find_value(data, key)[1], faults=tuple(map(str, faults))
    )


def unset(places: Places, scope: Scope, name: str) -> Path:
    """Remove a value from a scope's file. Raise `SettingsError` if it is not set there."""
    with hold_lock(places.config_home):
        path, text, data = target(places, scope)
        key = split_path(name)
        if not key or not find_value(data, key)[0]:
            raise SettingsError(f"{name} is not set in {path}")
        replace(path, remove_value(text, key))
    return path


def parse_value(name: str, text: str) -> Any:
    """Parse a value as JSON. Return it as text if the key takes a string, or if it is not JSON."""
    setting_key = BY_NAME.get(name)
    if setting_key is not None and setting_key.kind == "a string":
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
