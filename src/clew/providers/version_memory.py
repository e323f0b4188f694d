"""Remember what each endpoint does not take: the usual version of the Messages API, or diagnostics.

Owns the file `api-versions.json` in clew's own folder: an object of addresses, each with the version and
the day on which it was learned, and the day on which it refused diagnostics. A file that cannot be read or written is no reason to stop: the next
session learns again from one refusal. An address holds no user and no password (`Endpoint.shown`).
"""

import contextlib
import json
from datetime import date, timedelta
from pathlib import Path
from typing import Any, TypeAlias

from clew.catalog.api_versions import USUAL, is_version
from clew.config.write import alone, replace

Json: TypeAlias = dict[str, Any]

# After so long the usual version is tried again: gateways are brought up to date.
FORGOTTEN_AFTER = timedelta(days=30)
MAX_ENDPOINTS = 50
REFUSED = "refusedDiagnostics"


class VersionMemory:
    """The file at `path`, read when it is asked."""

    def __init__(self, path: Path, *, today: date) -> None:
        self._path = path
        self._today = today

    def version_for(self, address: str) -> str | None:
        """Return the version that this endpoint was found to take; None where nothing is known."""
        known = self._about(self._known(), address)
        if not self._is_fresh(known.get("learned")):
            return None
        version = known.get("version")
        return version if isinstance(version, str) and is_version(version) else None

    def learn(self, address: str, version: str) -> None:
        """Keep that an endpoint takes this version; the usual one is kept by forgetting."""
        with contextlib.suppress(OSError), alone(self._path.parent):
            known = self._known()
            about = self._about(known, address)
            about = {name: about[name] for name in about if name not in ("version", "learned")}
            if version != USUAL:
                about |= {"version": version, "learned": self._today.isoformat()}
            self._keep(known, address, about)

    def refuses_diagnostics(self, address: str) -> bool:
        """Whether this endpoint was found to refuse the member `diagnostics`."""
        return self._is_fresh(self._about(self._known(), address).get(REFUSED))

    def learn_refusal(self, address: str) -> None:
        """Keep that an endpoint refuses the member `diagnostics`."""
        with contextlib.suppress(OSError), alone(self._path.parent):
            known = self._known()
            about = self._about(known, address) | {REFUSED: self._today.isoformat()}
            self._keep(known, address, about)

    @staticmethod
    def _about(known: Json, address: str) -> Json:
        about = known.get(address)
        return about if isinstance(about, dict) else {}

    def _keep(self, known: Json, address: str, about: Json) -> None:
        known.pop(address, None)
        if about:
            known[address] = about
        kept = dict(list(known.items())[-MAX_ENDPOINTS:])
        replace(self._path, json.dumps(kept, indent=2) + "\n")

    def _known(self) -> Json:
        try:
            found = json.loads(self._path.read_text("utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def _is_fresh(self, learned: Any) -> bool:
        try:
            return self._today - date.fromisoformat(learned) <= FORGOTTEN_AFTER
        except (TypeError, ValueError):
            return False
