"""The rules while a session runs: asked at every call, read again between two turns.

Owns the standing of the moment and the mode. What a session began with stays as it was: its
folders, its environment (see `clew.config.environment`), what the command line said.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import structs

from clew.config.environment import freeze
from clew.config.load import Given, changed
from clew.messages.errors import SettingsError
from clew.permissions.decide import decide, may_read
from clew.permissions.decision import Decision
from clew.permissions.modes import Refused, disabled_modes, enter_mode
from clew.permissions.request import Mode, Request, ResolvedPath
from clew.permissions.resolver import make_resolver
from clew.permissions.session_rules import Standing, stand


class SessionRules:
    """`standing` is what holds now; a value, so that a turn may keep the one it began with."""

    def __init__(
        self, environ: Mapping[str, str], cwd: Path, *, mode: Mode | None, given: Given | None
    ) -> None:
        self._environ = environ
        self._given = given
        found = stand(environ, cwd, mode=mode, given=given)
        settled = entered(found)
        if isinstance(settled, Refused):
            raise SettingsError(f"permission mode {settled.mode}: {settled.why}")
        self.standing = found

    @property
    def mode(self) -> Mode:
        return self.standing.context.mode

    def judge(self, tool: str, given: dict[str, Any], *, cwd: str) -> Decision:
        """May this call run, begun in the folder the shell is in?"""
        now = self.standing
        resolve = make_resolver(cwd=os.path.realpath(cwd), home=now.context.home)
        return decide(Request(tool=tool, input=given), now.rules, now.context, resolve)

    def may_read(self, top: str) -> Callable[[str], bool]:
        """Whether what a search below the folder `top` found in a file may be shown.

        The names are those of ordinary files, so that a folder's links are followed once.
        """
        now = self.standing
        resolve = make_resolver(cwd=os.path.realpath(top), home=now.context.home)
        searched = resolve(".")
        folders: dict[str, ResolvedPath] = {}

        def shown(name: str) -> bool:
            folder, _, base = name.rpartition("/")
            if folder not in folders:
                folders[folder] = resolve(folder or ".")
            found = folders[folder]
            names = tuple(f"{each.rstrip('/')}/{base}" for each in found.names)
            path = structs.replace(found, names=names, is_file=True)
            return may_read(now.rules, path, now.context, resolve, searched=searched)

        return shown

    def refresh(self) -> tuple[str, ...]:
        """Reads the settings again if a file has changed; returns what people should know."""
        before = self.standing
        if not changed(before.loaded):
            return ()
        found = stand(
            self._environ,
            before.places.cwd,
            mode=before.context.mode,
            given=self._given,
            places=before.places,
        )
        told = [line for line in found.complaints if line not in before.complaints]
        settled = entered(found)
        if isinstance(settled, Refused):
            told.append(f"permission mode {settled.mode}: {settled.why}; going on in default")
            found = structs.replace(found, context=structs.replace(found.context, mode="default"))
        self.standing = found
        return ("settings were read again", *told)


def entered(found: Standing) -> Mode | Refused:
    """The mode of a standing, if this process may be in it."""
    return enter_mode(
        found.context.mode,
        is_root=os.geteuid() == 0,
        is_sandboxed=freeze(found.environ).switch("sandboxed"),
        disabled=disabled_modes(found.settings),
    )
