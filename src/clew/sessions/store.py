"""The store that a word of `clew sessions` speaks to: the one it is given, or the one of the settings."""

import os
import sys
from pathlib import Path

from clew.sessions.output import CannotError
from clew.stores.named import SETTING, in_settings


def named(given: str | None) -> str:
    if given:
        return given
    from clew.permissions.session_rules import stand

    found = stand(os.environ, Path.cwd())
    for line in found.complaints:
        sys.stderr.write(f"clew sessions: {line}\n")
    try:
        store = in_settings(found.settings)
    except ValueError as error:
        raise CannotError(str(error)) from None
    if not store:
        raise CannotError(f"no store: name one with --store, or set {SETTING} in settings.json")
    return store
