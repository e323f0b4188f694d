"""The endpoint of a session with the key it uses: the environment's, or one that was looked for.

Owns the run of `apiKeyHelper`. What a helper prints on standard error is thrown away, because it
may hold the key; what it prints on standard output is the key.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from clew.config.environment import freeze
from clew.config.keys import Key, find_key, find_keyring
from clew.config.paths import Places
from clew.process.output import Output
from clew.process.run import run
from clew.process.spawn import Launcher
from clew.providers.endpoint import Endpoint, endpoint_from

HELPER_TIMEOUT_S = 60.0  # it may ask a person's password manager
KEY_MAX_BYTES = 65536


async def endpoint_with_key(
    environ: Mapping[str, str], settings: dict[str, Any], places: Places, launcher: Launcher
) -> Endpoint:
    """`settings` are those in force: a folder nobody trusts names no helper.

    What was kept is for the service itself; another address gets what its variables or a helper say.
    """
    environment = freeze(environ)
    endpoint = endpoint_from(environment)
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
