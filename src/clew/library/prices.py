"""The prices that the database of a config home counts with: clew's, and those of models a person described.

Only settings that hold in every folder count, the person's own and the managed ones: the database is one
for all projects.
"""

from functools import cached_property
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec

from clew.catalog.lookup import Catalog, known_models
from clew.config.layers import merge
from clew.config.load import load
from clew.config.paths import find_places


class Prices:
    """Those of one moment. `mark` tells others apart: what was counted with them is counted anew."""

    def __init__(self, home: Path) -> None:
        here = {"CLEW_CONFIG_DIR": str(home), "HOME": str(home)}
        found = load(find_places(here, home), sources=("user",))
        self._models: Any = merge(found.layers).get("models")

    @property
    def mark(self) -> int:
        if not self._models:
            return 0
        # SQLite keeps 31 bits of it.
        return crc32(msgspec.json.encode(self._models, order="deterministic")) & 0x7FFFFFFF or 1

    @cached_property
    def catalog(self) -> Catalog:
        return known_models({"models": self._models})[0]
