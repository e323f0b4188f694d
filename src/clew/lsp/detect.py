"""Which language servers a session has: the settings', those of plugins, and what is installed."""

import shutil
from collections.abc import Mapping
from typing import Any

from clew.lsp.config import KNOWN, Specs, read_entries, with_known


def find_specs(
    settings: Any, plugins: Mapping[str, Any], environ: Mapping[str, str], *, detects: bool
) -> Specs:
    """The servers of the settings (`lspServers`), of plugins, and what is installed."""
    specs, faults = read_entries(settings or {}, "lspServers")
    more, wrong = read_entries(dict(plugins), "plugins")
    path = environ.get("PATH", "")
    there = [spec for spec in KNOWN if detects and shutil.which(spec.command, path=path)]
    chosen = with_known([*specs, *more], there)
    return Specs(servers=chosen, faults=(*faults, *wrong))
