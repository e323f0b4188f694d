"""Which folders a person trusts to start programs: hooks, servers, helpers, their own allow rules.

Owns the pure question and the store `<config home>/clew/trust.json`. Until a folder is trusted,
what its settings would execute is inert (see `layers.in_force`), with a terminal or without. Trust
in a folder covers what lies below it, except for the home folder and the root of the disk: nobody
means everything they ever downloaded.

Decision: docs/decisions/136-trust-in-projects.md
"""

import json
from collections.abc import Collection
from pathlib import Path, PurePath

from clew.config.paths import Places
from clew.config.write import alone, replace


def is_trusted(folder: str, trusted: Collection[str], *, home: str) -> bool:
    """Whether a folder, named by its real path, or one around it is trusted."""
    path = PurePath(folder)
    around = [str(p) for p in path.parents if str(p) != home and p != p.parent]
    return folder in trusted or any(p in trusted for p in around)


def read_trusted(places: Places) -> frozenset[str]:
    """The trusted folders. A store that cannot be read trusts nothing."""
    try:
        data = json.loads(places.trust.read_text("utf-8"))
    except (OSError, ValueError):
        return frozenset()
    folders = data.get("folders") if isinstance(data, dict) else None
    if not isinstance(folders, list):
        return frozenset()
    return frozenset(f for f in folders if isinstance(f, str))


def write_trusted(places: Places, folders: Collection[str]) -> None:
    replace(places.trust, json.dumps({"folders": sorted(folders)}, indent=2) + "\n", mode=0o600)


def trust(places: Places, folder: str) -> None:
    """From now on a folder, named by its real path, is trusted."""
    with alone(places.config_home):
        write_trusted(places, read_trusted(places) | {folder})


def distrust(places: Places, folder: str) -> None:
    with alone(places.config_home):
        write_trusted(places, read_trusted(places) - {folder})


def trusts(places: Places, folder: Path | None = None) -> bool:
    """Whether a folder, by default this session's project, may execute what its settings say."""
    real = (folder or places.root).resolve()
    return is_trusted(str(real), read_trusted(places), home=str(places.home.resolve()))
