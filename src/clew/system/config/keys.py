"""Look up the API key: environment, helper command, keyring, or the file written by `clew login`.

Owns the order of these sources, and the file, whose mode is 0600. A key never appears in a message,
an error or a log.
"""

from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from clew.core.json_object import Json, object_of
from clew.system.config.environment import VARIABLES, Environment
from clew.system.config.own_files import read_own, write_own
from clew.system.config.paths import Places
from clew.system.config.settings import read_text

KeySource = Literal["environment", "apiKeyHelper", "keyring", "login"]

SERVICE, ACCOUNT = "clew", "api-key"

# Runs a helper command in a shell and returns its output, or None if it failed or timed out.
RunHelper = Callable[[str], Awaitable[str | None]]


class ApiKey(Struct, frozen=True, kw_only=True):
    """An API key and its source. `repr` does not show the key."""

    source: KeySource
    secret: str

    def __repr__(self) -> str:
        return f"Key(source={self.source!r})"


async def find_key(
    environment: Environment,
    settings: dict[str, Any],
    places: Places,
    *,
    run_helper: RunHelper,
    keyring: Any = None,
) -> ApiKey | None:
    """Return the first API key found, or None.

    `settings` are the active settings, so an untrusted folder cannot name a helper.
    """
    variable_key = environment.text("api_key")
    if variable_key:
        return ApiKey(source="environment", secret=variable_key)
    helper = read_text(settings, "apiKeyHelper")
    if helper:
        printed = (await run_helper(helper) or "").strip()
        if printed:
            return ApiKey(source="apiKeyHelper", secret=printed)
    if stored_key := ask_keyring(keyring, SERVICE, ACCOUNT):
        return ApiKey(source="keyring", secret=stored_key)
    stored_key = read_login(places.credentials)
    return ApiKey(source="login", secret=stored_key) if stored_key else None


def find_service_key(
    environ: Mapping[str, str],
    variables: tuple[str, ...],
    service: str,
    places: Places,
    keyring: Any = None,
) -> str | None:
    """Return the key of one service: from its own variables, the keyring, or `clew login`.

    Return None if there is none.
    """
    for name in variables:
        if value := environ.get(name, "").strip():
            return value
    stored_key = ask_keyring(keyring, SERVICE, account_of(service))
    return stored_key or read_login(places.credentials, service)


def account_of(service: str) -> str:
    """Return the name of a service's key in the keyring. For Anthropic, `service` is empty."""
    return f"{ACCOUNT}:{service}" if service else ACCOUNT


def find_keyring() -> Any:
    """Return the optional `keyring` module, or None if it is not installed."""
    try:
        return import_module("keyring")
    except ImportError:
        return None


def ask_keyring(keyring: Any, service: str, account: str) -> str | None:
    """Return a secret from a keyring, or None if the keyring is unavailable or lacks it."""
    if keyring is None:
        return None
    try:
        secret = keyring.get_password(service, account)
    except keyring.errors.KeyringError:
        return None
    return secret if isinstance(secret, str) else None


def in_environment(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return all API keys and tokens in the environment variables, under any of their names."""
    names = [n for v in VARIABLES if v.is_model_key for n in v.names]
    return tuple(environ[name] for name in names if environ.get(name))


def read_secrets(path: Path) -> Json:
    """Return the JSON object in a file. A file that other users can access is ignored."""
    try:
        if path.stat().st_mode & 0o077:
            return {}
    except OSError:
        return {}
    return read_own(path)


def write_secrets(path: Path, secrets: Json) -> None:
    """Write a JSON object to a file that only its owner can read."""
    write_own(path, secrets)


def read_login(path: Path, service: str = "") -> str | None:
    """Return the saved key of a service, or of Anthropic if none is named; None without a key."""
    saved = read_secrets(path)
    key = object_of(saved.get("services")).get(service) if service else saved.get("apiKey")
    return key if isinstance(key, str) and key else None


def write_login(path: Path, secret: str | None, service: str = "") -> None:
    """Save the key of a service, or of Anthropic; `None` deletes it. Other keys are kept."""
    saved = read_secrets(path)
    services = {k: v for k, v in object_of(saved.get("services")).items() if k != service}
    if service and secret is not None:
        services[service] = secret
    keys: Json = {k: v for k, v in saved.items() if k not in ("apiKey", "services")}
    main_key = saved.get("apiKey") if service else secret
    keys |= {"apiKey": main_key} if main_key else {}
    keys |= {"services": services} if services else {}
    if keys:
        write_secrets(path, keys)
    else:
        path.unlink(missing_ok=True)


def abbreviate_key(secret: str) -> str:
    """Return the last characters of a key, enough to recognize it."""
    return f"...{secret[-4:]}" if len(secret) >= 20 else "(a short key)"
