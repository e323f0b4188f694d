"""The endpoint of a session with its API key, from the environment or another source.

Owns running `apiKeyHelper`, a command that prints the key on its standard output. Its standard
error is discarded, because it may contain the key.
"""

import contextlib
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from msgspec.structs import replace as replace_structs

from clew.core.catalog.models import USUAL, is_version
from clew.core.json_object import Json, object_of
from clew.providers.endpoint import Endpoint, read_endpoint, why_not_version
from clew.system.config.environment import freeze
from clew.system.config.keys import find_key, find_keyring
from clew.system.config.own_files import read_own, write_own
from clew.system.config.paths import Places
from clew.system.config.settings import read_switch, read_text
from clew.system.files import hold_lock
from clew.system.process.output import ProcessOutput
from clew.system.process.run import run
from clew.system.process.spawn import Launcher

# Remember what an endpoint does not support: the usual API version, or cache diagnostics.


# After this time, the usual version is tried again, because the gateway may have been updated.
FORGOTTEN_AFTER = timedelta(days=30)
MAX_ENDPOINTS = 50
REFUSED = "refusedDiagnostics"


class VersionMemory:
    """The features that each endpoint lacks, stored in a file that is read on each use."""

    def __init__(self, path: Path, *, today: date) -> None:
        self._path = path
        self._today = today

    def version_for(self, address: str) -> str | None:
        """Return the unusual API version that this endpoint is known to need, or None."""
        entry = self._about(self._known(), address)
        if not self._is_fresh(entry.get("learned")):
            return None
        version = entry.get("version")
        return version if isinstance(version, str) and is_version(version) else None

    def learn(self, address: str, version: str) -> None:
        """Remember that an endpoint supports this API version.

        If it is the usual version, forget the version that was remembered.
        """
        with contextlib.suppress(OSError), hold_lock(self._path.parent):
            versions = self._known()
            about = self._about(versions, address)
            about = {name: about[name] for name in about if name not in ("version", "learned")}
            if version != USUAL:
                about |= {"version": version, "learned": self._today.isoformat()}
            self._keep(versions, address, about)

    def refuses_diagnostics(self, address: str) -> bool:
        """Return whether this endpoint is known to reject the field `diagnostics`."""
        return self._is_fresh(self._about(self._known(), address).get(REFUSED))

    def learn_refusal(self, address: str) -> None:
        """Remember that an endpoint rejects the field `diagnostics`."""
        with contextlib.suppress(OSError), hold_lock(self._path.parent):
            versions = self._known()
            about = self._about(versions, address) | {REFUSED: self._today.isoformat()}
            self._keep(versions, address, about)

    @staticmethod
    def _about(versions: Json, address: str) -> Json:
        return object_of(versions.get(address))

    def _keep(self, versions: Json, address: str, about: Json) -> None:
        versions.pop(address, None)
        if about:
            versions[address] = about
        latest = dict(list(versions.items())[-MAX_ENDPOINTS:])
        write_own(self._path, latest)

    def _known(self) -> Json:
        return read_own(self._path)

    def _is_fresh(self, learned: Any) -> bool:
        try:
            return self._today - date.fromisoformat(learned) <= FORGOTTEN_AFTER
        except (TypeError, ValueError):
            return False


HELPER_TIMEOUT_S = 60.0  # The helper may prompt the user, for example in a password manager.
KEY_MAX_BYTES = 65536


async def make_endpoint(
    environ: Mapping[str, str], settings: dict[str, Any], places: Places, launcher: Launcher
) -> Endpoint:
    """Return the endpoint with its credentials.

    `settings` are the active settings, so an untrusted folder cannot name a helper. A key stored by
    `clew login` is used only for the default API; for another address, the key comes from
    environment variables or a helper.
    """
    environment = freeze(environ)
    memory = open_memory(places)
    endpoint = with_version(read_endpoint(environment), settings, memory)
    endpoint = with_diagnostics(endpoint, settings, memory)
    if endpoint.api_key or endpoint.auth_token or endpoint.sends_its_own:
        return endpoint

    async def helped(command: str) -> str | None:
        return await run_helper(launcher, command, places.root, environ)

    key = await find_key(environment, settings, places, run_helper=helped, keyring=find_keyring())
    if key is None or not (endpoint.wants_credentials or key.source == "apiKeyHelper"):
        return endpoint
    helper = read_text(settings, "apiKeyHelper") if key.source == "apiKeyHelper" else None
    return replace_structs(endpoint, api_key=key.secret, key_helper=helper or "")


def open_memory(places: Places) -> VersionMemory:
    return VersionMemory(places.api_versions, today=datetime.now(UTC).date())


def with_version(endpoint: Endpoint, settings: dict[str, Any], memory: VersionMemory) -> Endpoint:
    """Return the endpoint with the API version from the settings, or else the remembered one."""
    if endpoint.pins_version:
        return endpoint
    version = read_text(settings, "apiVersion")
    if version is not None:
        hindrance = endpoint.hindrance or why_not_version(version)
        return replace_structs(
            endpoint, api_version=version, pins_version=True, hindrance=hindrance
        )
    learned = memory.version_for(endpoint.shown)
    return endpoint if learned is None else replace_structs(endpoint, api_version=learned)


def with_diagnostics(
    endpoint: Endpoint, settings: dict[str, Any], memory: VersionMemory
) -> Endpoint:
    """Return the endpoint with cache diagnostics enabled, if they are wanted and supported.

    By default they are on for Anthropic's own API and off for other addresses. They stay off for an
    endpoint that rejected them before.
    """
    setting = read_switch(settings, "cacheDiagnostics")
    wanted = endpoint.is_default if setting is None else setting
    if not wanted or not endpoint.speaks_messages or memory.refuses_diagnostics(endpoint.shown):
        return endpoint
    return replace_structs(endpoint, diagnoses=True)


async def run_helper(
    launcher: Launcher, command: str, cwd: str | Path, environ: Mapping[str, str]
) -> str | None:
    """Run a helper; return its output, or None if it failed or timed out."""
    out, thrown_away = ProcessOutput(keep_bytes=KEY_MAX_BYTES), ProcessOutput(keep_bytes=0)
    try:
        finished = await run(
            launcher,
            ["/bin/sh", "-c", command],
            cwd=cwd,
            env=environ,
            stdout=out,
            stderr=thrown_away,
            timeout_s=HELPER_TIMEOUT_S,
        )
    except OSError:
        return None
    failed = finished.timed_out or finished.exit.code != 0
    return None if failed else bytes(out.head).decode("utf-8", "replace")
