"""`clew login` and `clew logout`: store an API key in a file only its owner can read or in the keyring, and delete it."""

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
        description="Keep an API key. It is read from the terminal unseen, or from a pipe; never "
        "from the command line, where other people of the machine could see it.",
    )
    parser.add_argument("--keyring", action="store_true", help="keep it in the keyring")
    options = parser.parse_args(argv)
    secret = (getpass.getpass("API key: ") if sys.stdin.isatty() else sys.stdin.read()).strip()
    if not secret or any(c.isspace() or not c.isprintable() for c in secret):
        sys.stderr.write("clew login: expected one key and nothing else\n")
        return 2
    if options.keyring:
        keyring = find_keyring()
        if keyring is None:
            sys.stderr.write("clew login: no keyring here; install clew[keyring]\n")
            return 1
        keyring.set_password(SERVICE, ACCOUNT, secret)
        sys.stdout.write(f"kept {abbreviate_key(secret)} in the keyring\n")
        return 0
    path = find_places(os.environ, Path.cwd()).credentials
    write_secrets(path, {"apiKey": secret})
    sys.stdout.write(f"kept {abbreviate_key(secret)} in {path}\n")
    return 0


def log_out(argv: list[str]) -> int:
    parser = Group(prog="clew logout", description="Forget the key that clew login kept.")
    parser.add_argument("--keyring", action="store_true", help="the one in the keyring")
    options = parser.parse_args(argv)
    if options.keyring:
        keyring = find_keyring()
        if ask_keyring(keyring, SERVICE, ACCOUNT) is None:
            sys.stdout.write("there is no key in the keyring\n")
            return 0
        keyring.delete_password(SERVICE, ACCOUNT)
        sys.stdout.write("forgot the key in the keyring\n")
        return 0
    path = find_places(os.environ, Path.cwd()).credentials
    if not is_there(path):
        sys.stdout.write("there is no key to forget\n")
        return 0
    path.unlink()
    sys.stdout.write(f"forgot the key in {path}\n")
    return 0
