"""Which language servers a session has: the settings', those of plugins' files, and what is installed."""

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from clew.jsonrpc.wire import an_object
from clew.lsp.config import KNOWN, Spec, Specs, read_entries, with_known


def find_specs(
    settings: Any, files: Iterable[Path], environ: Mapping[str, str], *, detects: bool
) -> Specs:
    """The servers of the settings (`lspServers`), of plugins' files, and what is installed."""
    specs, faults = read_entries(settings or {}, "lspServers")
    for file in files:
        more, wrong = read_file(file)
        specs, faults = specs + more, faults + wrong
    path = environ.get("PATH", "")
    there = [spec for spec in KNOWN if detects and shutil.which(spec.command, path=path)]
    return Specs(servers=with_known(specs, there), faults=tuple(faults))


def read_file(file: Path) -> tuple[list[Spec], list[str]]:
    """The servers of a plugin's `.lsp.json`, or of a manifest that holds them."""
    try:
        found = json.loads(file.read_bytes().decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        return [], [f"{file}: {error}"]
    return read_entries(an_object(found).get("lspServers", found), str(file))
