"""`clew logout`: forgets the key that `clew login` kept."""

import os
import sys
from pathlib import Path

from clew.system.command_groups import Group
from clew.system.config.keys import ACCOUNT, SERVICE, find_keyring
from clew.system.config.paths import find_places
from clew.system.files import is_there


def main(argv: list[str]) -> int:
    parser = Group(prog="clew logout", description="Forget the key that clew login kept.")
    parser.add_argument("--keyring", action="store_true", help="the one in the keyring")
    options = parser.parse_args(argv)
    if options.keyring:
        keyring = find_keyring()
        if keyring is None or keyring.get_password(SERVICE, ACCOUNT) is None:
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
