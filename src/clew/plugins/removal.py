"""Removing plugins: recorded and renamed at once, then deleted from disk.

Deleting 10,000 folders takes the kernel up to 13 s, and an interrupted removal used to leave half a
plugin that was listed as a whole one. So the record goes first, and folders are renamed in place (never
across a disk) to a `.gone-` name. The folder being deleted is locked; what an interrupted removal leaves,
the next one deletes. Must never delete what a link leads to, nor what another process deletes.
"""

import os
import secrets
import shutil
from pathlib import Path

from clew.config.edit import without
from clew.config.layers import value_at
from clew.config.load import read
from clew.config.there import is_folder, is_link, is_there
from clew.config.write import alone, locked, replace
from clew.messages.errors import UserError
from clew.plugins.install import SCOPES, Desk
from clew.plugins.store import Installed

# How the name of what was removed and is not deleted yet begins.
GONE = ".gone-"


def remove(desk: Desk, one: Installed) -> list[Path]:
    """Takes a plugin away with all that clew wrote for it; what was taken away. Its files are put aside
    at once, however many they are: `swept` ends them."""
    if one.is_foreign:
        raise UserError(
            f"{one.id} was installed by another tool; clew plugin disable switches it off"
        )
    changed = [path for scope in SCOPES for path in switched_nowhere(desk, one.id, scope)]
    desk.store.forget(one.id)
    gone: list[Path] = []
    for folder in (desk.store.copies / one.id, desk.store.data(one.id)):
        if is_there(folder) or is_link(folder):
            # Beside itself: what is above it may lie on another disk.
            folder.rename(folder.with_name(f"{GONE}{secrets.token_hex(8)}"))
            gone.append(folder)
    return [*gone, *changed]


def switched_nowhere(desk: Desk, plugin_id: str, scope: str) -> list[Path]:
    """The settings file of a scope, if it said whether the plugin is on."""
    path, key = desk.places.settings_file(scope), ("enabledPlugins", plugin_id)
    with alone(desk.places.config_home):
        layer = read("local", path, str(desk.places.root)) if is_there(path) else None
        if layer is None or layer.unreadable is not None or not value_at(layer.data, key)[0]:
            return []
        # What would be left with nothing in it would still wait for trust in its folder.
        is_last = len(value_at(layer.data, key[:1])[1]) == 1
        replace(path, without(layer.text, key[:1] if is_last else key))
    return [path]


def swept(desk: Desk) -> None:
    """Deletes what was put aside, also by a removal that was broken off."""
    for above in (desk.store.copies, desk.store.kept):
        for folder in above.glob(f"{GONE}*"):
            deleted(folder)


def deleted(folder: Path) -> None:
    """All that is in it. What another process deletes by now is left to that; what a link leads to stays."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        folder.unlink(missing_ok=True)
        return
    try:
        if locked(handle) and is_folder(folder):
            shutil.rmtree(folder)
    finally:
        os.close(handle)
