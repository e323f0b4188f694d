"""`clew login` and `clew logout`: save or delete an API key, in a private file or the keyring."""

import asyncio
import getpass
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from clew.core.catalog.services import ROWS, ServiceRow, read_services
from clew.core.json_object import Json
from clew.core.messages.errors import ClewError, UserError, describe_error
from clew.core.nearest import suggest_nearest
from clew.permissions.session_rules import load_current_rules
from clew.providers.endpoint import DEFAULT_BASE_URL, Endpoint, read_endpoint
from clew.providers.opening import make_row_endpoint
from clew.system.command_groups import Group
from clew.system.config.environment import Environment, freeze
from clew.system.config.keys import (
    SERVICE,
    abbreviate_key,
    account_of,
    ask_keyring,
    find_keyring,
    read_login,
    write_login,
)
from clew.system.config.paths import Places, find_places
from clew.system.config.settings import read_object
from clew.system.installation import describe_extra
from clew.system.transport.seam import TransportError

INVALID = "expected a single API key without spaces"


class RejectedKeyError(UserError):
    """The API rejected the key, so the key is not saved."""


def is_key(secret: str) -> bool:
    """Return whether a string can be an API key."""
    return bool(secret) and not any(c.isspace() or not c.isprintable() for c in secret)


async def check_key(secret: str, environment: Environment, endpoint: Endpoint) -> str:
    """Check a key with one free request to the endpoint, and return the result as text.

    Raise `RejectedKeyError` if the API rejects the key. If the endpoint can't be reached, the
    text says that the key was not checked.
    """
    from clew.commands.doctor.checks import request_facts

    endpoint = replace(endpoint, api_key=secret, auth_token=None)
    try:
        status, owner = await request_facts(endpoint, environment)
    except (TransportError, TimeoutError) as error:
        why = endpoint.hide(str(error)) or "no response"
        return f"key not checked, because {endpoint.shown} cannot be reached: {why}"
    if status in (401, 403):
        keys_url = ROWS["anthropic"].keys_url if endpoint.is_default else ""
        row = ROWS.get(endpoint.service)
        keys_url = keys_url or (row.keys_url if row else "")
        raise RejectedKeyError(
            f"{endpoint.shown} rejected the key (HTTP {status}); nothing was saved"
            + (f". Create a key at {keys_url}" if keys_url else "")
        )
    whose = f" ({owner})" if owner else ""
    return (
        f"key accepted by {endpoint.shown}{whose}"
        if status < 400
        else f"key not checked (HTTP {status})"
    )


async def check_saved_key(
    secret: str, environ: Mapping[str, str], row: ServiceRow = ROWS["anthropic"]
) -> str:
    """Check a key at the address of its service, and nowhere else."""
    environment = freeze(environ)
    if row.name != "anthropic":
        endpoint = make_row_endpoint(row, environ, secret)
        if row.authentication != "key" or endpoint.hindrance:
            return f"key not checked: {endpoint.hindrance or f'{row.title} lists no models'}"
        return await check_key(secret, environment, endpoint)
    endpoint = read_endpoint(environment)
    if endpoint.is_default and not endpoint.sends_its_own:
        return await check_key(secret, environment, endpoint)
    return f"key not checked, because saved keys are used only for {DEFAULT_BASE_URL}"


def save_key(secret: str, places: Places, row: ServiceRow = ROWS["anthropic"]) -> str:
    """Save a key in the file that only the user can read; return a message about it."""
    try:
        write_login(places.credentials, secret, name_in_file(row.name))
    except OSError as error:
        raise UserError(
            f"can't save the key: {describe_error(error)}. {describe_other_places(row)}"
        ) from None
    return f"saved {abbreviate_key(secret)} in {places.credentials}"


def describe_other_places(row: ServiceRow) -> str:
    """Return what to do if the file with the keys can't be written."""
    instead = f", or set {' or '.join(row.key_variables)} instead" if row.key_variables else ""
    return f"Set CLEW_CONFIG_DIR to a writable folder{instead}"


def delete_key(places: Places, service: str = "anthropic") -> str:
    """Delete the saved key of a service; return a message about it."""
    if read_login(places.credentials, name_in_file(service)) is None:
        return "no saved API key"
    try:
        write_login(places.credentials, None, name_in_file(service))
    except OSError as error:
        raise UserError(f"can't delete the key: {describe_error(error)}") from None
    return f"deleted the API key from {places.credentials}"


def describe_source(row: ServiceRow) -> str:
    """Tell the user where to get a key for the service, and that clew checks it."""
    page = f" from {row.keys_url}" if row.keys_url else ""
    other = f" Or run clew login {row.name} --browser in a shell." if row.login_url else ""
    return f"Paste an API key for {row.title}{page}. clew checks it with one free request.{other}"


def name_in_file(service: str) -> str:
    """Return the name under which a service's key is saved, or an empty string for Anthropic."""
    return "" if service == "anthropic" else service


def find_row(name: str, settings: Json) -> ServiceRow:
    """Return the service with this name in the table or the settings."""
    rows, _ = read_services(read_object(settings, "services"))
    if name not in rows:
        near = suggest_nearest(name, rows) or f"; expected one of {', '.join(rows)}"
        raise UserError(f'unknown service "{name}"{near}')
    return rows[name]


def list_services(settings: Json) -> list[tuple[str, str]]:
    """Return the names and titles of the services that accept a key."""
    rows, _ = read_services(read_object(settings, "services"))
    return [(row.name, row.title) for row in rows.values() if row.authentication == "key"]


def main(argv: list[str]) -> int:
    parser = Group(
        prog="clew login",
        description="Save an API key. The key is read from the terminal without echo, or from a pipe. It is never "
        "taken from the command line, where other users of this machine could see it. A typed key"
        " is checked with one free request. A saved key is used only for its own service.",
    )
    parser.add_argument(
        "service", nargs="?", default="anthropic", help="Service (default: anthropic)"
    )
    parser.add_argument(
        "--browser", action="store_true", help="Log in with a browser to get a new key"
    )
    parser.add_argument("--keyring", action="store_true", help="Save the key in the keyring")
    parser.add_argument("--no-check", action="store_true", help="Save the key without checking it")
    options = parser.parse_args(argv)
    try:
        row = find_row(options.service, load_current_rules(os.environ, Path.cwd()).settings)
    except UserError as error:
        sys.stderr.write(f"clew login: {error}\n")
        return 2
    is_typed = sys.stdin.isatty() and not options.browser
    try:
        secret = read_key(row, is_typed=is_typed, in_browser=options.browser)
    except ClewError as error:
        sys.stderr.write(f"clew login: {error}\n")
        return 1
    if not is_key(secret):
        sys.stderr.write(f"clew login: {INVALID}\n")
        return 2
    if is_typed and not options.no_check:
        try:
            checked = check_saved_key(secret, os.environ, row)
            sys.stdout.write(f"{asyncio.run(checked)}\n")
        except RejectedKeyError as error:
            sys.stderr.write(f"clew login: {error}\n")
            return 1
    if options.keyring:
        keyring = find_keyring()
        if keyring is None:
            sys.stderr.write(f"clew login: no keyring found; {describe_extra('keyring')}\n")
            return 1
        keyring.set_password(SERVICE, account_of(name_in_file(row.name)), secret)
        sys.stdout.write(f"saved {abbreviate_key(secret)} in the keyring\n")
        return 0
    try:
        done = save_key(secret, find_places(os.environ, Path.cwd()), row)
    except UserError as error:
        sys.stderr.write(f"clew login: {error}\n")
        return 1
    sys.stdout.write(f"{done}\n")
    return 0


def read_key(row: ServiceRow, *, is_typed: bool, in_browser: bool) -> str:
    """Return a key from the browser, the terminal or a pipe. Raise `ClewError` on failure."""
    if in_browser and not row.login_url:
        able = ", ".join(name for name, other in ROWS.items() if other.login_url)
        raise UserError(f"{row.title} does not support browser login; services that do: {able}")
    if is_typed and row.keys_url:
        sys.stdout.write(f"Create an API key at {row.keys_url}\n")
    if not in_browser:
        hint = "; leave it empty to log in with a browser" if is_typed and row.login_url else ""
        read = getpass.getpass(f"API key (hidden{hint}): ") if is_typed else sys.stdin.read()
        in_browser = bool(hint) and not read.strip()
        if not in_browser:
            return read.strip()
    from clew.commands.browser_login import log_in  # Few users need it.

    return log_in(row, freeze(os.environ), sys.stdout.write)


def log_out(argv: list[str]) -> int:
    parser = Group(prog="clew logout", description="Delete an API key that clew login saved.")
    parser.add_argument(
        "service", nargs="?", default="anthropic", help="Service (default: anthropic)"
    )
    parser.add_argument("--keyring", action="store_true", help="Delete the key from the keyring")
    options = parser.parse_args(argv)
    if options.keyring:
        keyring, account = find_keyring(), account_of(name_in_file(options.service))
        if ask_keyring(keyring, SERVICE, account) is None:
            sys.stdout.write("no API key in the keyring\n")
            return 0
        keyring.delete_password(SERVICE, account)
        sys.stdout.write("deleted the API key from the keyring\n")
        return 0
    try:
        done = delete_key(find_places(os.environ, Path.cwd()), options.service)
    except UserError as error:
        sys.stderr.write(f"clew logout: {error}\n")
        return 1
    sys.stdout.write(f"{done}\n")
    return 0
