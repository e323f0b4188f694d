"""`clew login` and `clew logout`: save or delete an API key, in a private file or the keyring."""

import asyncio
import getpass
import os
import sys
from pathlib import Path

from msgspec.structs import replace

from clew.core.messages.errors import UserError
from clew.providers.endpoint import DEFAULT_BASE_URL, Endpoint, read_endpoint
from clew.system.command_groups import Group
from clew.system.config.environment import Environment, freeze
from clew.system.config.keys import (
    ACCOUNT,
    SERVICE,
    abbreviate_key,
    ask_keyring,
    find_keyring,
    write_secrets,
)
from clew.system.config.paths import Places, find_places
from clew.system.files import is_there
from clew.system.transport.seam import TransportError

# Where the keys of the default service come from.
KEYS_URL = "https://console.anthropic.com/settings/keys"
INVALID = "expected a single API key without spaces"


class RejectedKeyError(UserError):
    """The API does not accept the key, so that it is not saved."""


def is_key(secret: str) -> bool:
    """Return whether a text can be an API key."""
    return bool(secret) and not any(c.isspace() or not c.isprintable() for c in secret)


async def check_key(secret: str, environment: Environment, endpoint: Endpoint) -> str:
    """Check a key with one free request to the endpoint, and return what is known about it.

    Raise `RejectedKeyError` if the API rejects the key. Without a connection, the key is unchecked.
    """
    from clew.commands.doctor.checks import request_models

    endpoint = replace(endpoint, api_key=secret, auth_token=None)
    try:
        status = await request_models(endpoint, environment)
    except (TransportError, TimeoutError) as error:
        why = endpoint.hide(str(error)) or "no response"
        return f"not checked, because {endpoint.shown} cannot be reached: {why}"
    if status in (401, 403):
        raise RejectedKeyError(
            f"{endpoint.shown} rejected the key ({status}); nothing was saved. Keys: {KEYS_URL}"
        )
    return f"accepted by {endpoint.shown}" if status < 400 else f"not checked (HTTP {status})"


async def check_saved_key(secret: str, environment: Environment) -> str:
    """Check a key where a saved key is used: at the default API, and nowhere else."""
    endpoint = read_endpoint(environment)
    if endpoint.is_default and not endpoint.sends_its_own:
        return await check_key(secret, environment, endpoint)
    return f"not checked, because saved keys are used only for {DEFAULT_BASE_URL}"


def save_key(secret: str, places: Places) -> str:
    """Save a key in the file that only the user can read; return what was done."""
    write_secrets(places.credentials, {"apiKey": secret})
    return f"saved {abbreviate_key(secret)} in {places.credentials}"


def delete_key(places: Places) -> str:
    """Delete the saved key; return what was done."""
    if not is_there(places.credentials):
        return "no saved API key"
    places.credentials.unlink()
    return f"deleted the API key in {places.credentials}"


def main(argv: list[str]) -> int:
    parser = Group(
        prog="clew login",
        description="Save an API key. The key is read from the terminal without echo, or from a pipe. It is never "
        "taken from the command line, where other users of this machine could see it. A key that is typed is "
        f"checked with one free request. Keys come from {KEYS_URL}",
    )
    parser.add_argument("--keyring", action="store_true", help="Save the key in the keyring")
    parser.add_argument("--no-check", action="store_true", help="Save the key without a request")
    options = parser.parse_args(argv)
    is_typed = sys.stdin.isatty()
    if is_typed:
        sys.stdout.write(f"Create an API key at {KEYS_URL}\n")
    secret = (getpass.getpass("API key (hidden): ") if is_typed else sys.stdin.read()).strip()
    if not is_key(secret):
        sys.stderr.write(f"clew login: {INVALID}\n")
        return 2
    if is_typed and not options.no_check:
        try:
            sys.stdout.write(f"{asyncio.run(check_saved_key(secret, freeze(os.environ)))}\n")
        except RejectedKeyError as error:
            sys.stderr.write(f"clew login: {error}\n")
            return 1
    if options.keyring:
        keyring = find_keyring()
        if keyring is None:
            sys.stderr.write("clew login: no keyring found; install clew[keyring]\n")
            return 1
        keyring.set_password(SERVICE, ACCOUNT, secret)
        sys.stdout.write(f"saved {abbreviate_key(secret)} in the keyring\n")
        return 0
    sys.stdout.write(f"{save_key(secret, find_places(os.environ, Path.cwd()))}\n")
    return 0


def log_out(argv: list[str]) -> int:
    parser = Group(prog="clew logout", description="Delete the API key that clew login saved.")
    parser.add_argument("--keyring", action="store_true", help="Delete the key in the keyring")
    options = parser.parse_args(argv)
    if options.keyring:
        keyring = find_keyring()
        if ask_keyring(keyring, SERVICE, ACCOUNT) is None:
            sys.stdout.write("no API key in the keyring\n")
            return 0
        keyring.delete_password(SERVICE, ACCOUNT)
        sys.stdout.write("deleted the API key in the keyring\n")
        return 0
    sys.stdout.write(f"{delete_key(find_places(os.environ, Path.cwd()))}\n")
    return 0
