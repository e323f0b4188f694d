"""`clew keys`: what keys do, with a person's own, and what is wrong with those."""

import os
from pathlib import Path

from clew.config.paths import find_config_home
from clew.config.words import Group
from clew.tui.keys import listed, own_bindings


def main(argv: list[str]) -> int:
    """1 where a line of `keybindings.json` does not count."""
    Group(
        prog="clew keys", description="List what keys do, and check your own (keybindings.json)."
    ).parse_args(argv)
    found = own_bindings(find_config_home(os.environ, Path.cwd()))
    print(listed(found, with_names=True))
    return 1 if found.faults else 0
