"""The endpoint of a session with the key it uses: the environment's, or one that was looked for.

Owns the run of `apiKeyHelper`. What a helper prints on standard error is thrown away, because it
may hold the key; what it prints on standard output is the key.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from clew.config.environment import freeze
from clew.config.keys import Key, find_key, find_keyring
from clew.config.paths import Places
from clew.process.output import Output
from clew.process.run import run
from clew.process.spawn import Launcher
from clew.providers.endpoint import Endpoint, endpoint_from, version_hindrance
from clew.providers.version_memory import VersionMemory

HELPER_TIMEOUT_S = 60.0  # it may ask a person's password manager
KEY_MAX_BYTES = 65536


async def endpoint_with_key(
    environ: Mapping[str, str], settings: dict[str, Any], places: Places, launcher: Launcher
) -> Endpoint:
    """`settings` are those in force: a folder nobody trusts names no helper.

    What was kept is for the service itself; another address gets what its variables or a helper say.
    """
    environment = freeze(environ)
    memory = memory_in(places)
    endpoint = with_version(endpoint_from(environment), settings, memory)
    endpoint = with_diagnostics(endpoint, settings, memory)
    if endpoint.api_key or endpoint.auth_token or endpoint.sends_its_own:
        return endpoint

    async def helped(command: str) -> str | None:
        return await printed_by(launcher, command, places.root, environ)

    found = await find_key(environment, settings, places, run_helper=helped, keyring=find_keyring())
    if not isinstance(found, Key):
        return endpoint
    if not endpoint.wants_credentials and found.source != "apiKeyHelper":
        return endpoint
    return replace(endpoint, api_key=found.secret)


def memory_in(places: Places) -> VersionMemory:
    return VersionMemory(places.api_versions, today=datetime.now(UTC).date())


def with_version(endpoint: Endpoint, settings: dict[str, Any], memory: VersionMemory) -> Endpoint:
    """Return the endpoint with the version of the settings, or the one that it was found to take."""
    if endpoint.pins_version:
        return endpoint
    asked = settings.get("apiVersion")
    if asked is not None:
        hindrance = endpoint.hindrance or version_hindrance(str(asked))
        return replace(endpoint, api_version=str(asked), pins_version=True, hindrance=hindrance)
    learned = memory.version_for(endpoint.shown)
    return endpoint if learned is None else replace(endpoint, api_version=learned)


def with_diagnostics(
    endpoint: Endpoint, settings: dict[str, Any], memory: VersionMemory
) -> Endpoint:
    """Return the endpoint that is asked why the prompt cache missed, if it is: the vendor's own is,
    another one where the settings say so; none that refused it."""
    asked = settings.get("cacheDiagnostics")
    wanted = endpoint.is_default if asked is None else asked is True
    if not wanted or endpoint.speaks_chat or memory.refuses_diagnostics(endpoint.shown):
        return endpoint
    return replace(endpoint, diagnoses=True)


async def printed_by(
    launcher: Launcher, command: str, cwd: str | Path, environ: Mapping[str, str]
) -> str | None:
    """What a helper prints; None where it fails or takes too long."""
    out, thrown_away = Output(keep_bytes=KEY_MAX_BYTES), Output(keep_bytes=0)
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
