"""`clew login` and `clew logout`: save or delete an API key, in a private file or the keyring."""

import getpass
import os
import sys
from pathlib import Path

from clew.system.command_groups import Group
from clew.system.config.keys import (
    ACCOUNT,
    SERVICE,
    abbreviate_key,
    ask_keyring,
    find_keyring,
    write_secrets,
)
from clew.system.config.paths import find_places
from clew.system.files import is_there


def main(argv: list[str]) -> int:
    parser = Group(
        prog="clew login",
        description="Save an API key. The key is read from the terminal without echo, or from a pipe. It is never "
        "taken from the command line, where other users of this machine could see it.",
    )
    parser.add_argument("--keyring", action="store_true", help="Save the key in the keyring")
    options = parser.parse_args(argv)
    secret = (getpass.getpass("API key: ") if sys.stdin.isatty() else sys.stdin.read()).strip()
    if not secret or any(c.isspace() or not c.isprintable() for c in secret):
        sys.stderr.write("clew login: expected a single key without spaces\n")
        return 2
    if options.keyring:
        keyring = find_keyring()
        if keyring is None:
            sys.stderr.write("clew login: no keyring found; install clew[keyring]\n")
            return 1
        keyring.set_password(SERVICE, ACCOUNT, secret)
        sys.stdout.write(f"saved {abbreviate_key(secret)} in the keyring\n")
        return 0
    path = find_places(os.environ, Path.cwd()).credentials
    write_secrets(path, {"apiKey": secret})
    sys.stdout.write(f"saved {abbreviate_key(secret)} in {path}\n")
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
    path = find_places(os.environ, Path.cwd()).credentials
    if not is_there(path):
        sys.stdout.write("no saved API key\n")
        return 0
    path.unlink()
    sys.stdout.write(f"deleted the API key in {path}\n")
    return 0
