"""How clew keeps git from starting what a repository names: in its own calls, and in those of commands.

Owns what depends on the folder and on trust in it (`own_git` has what holds everywhere). A bare repository within a folder is data until somebody names
it: git is told to refuse it (`safe.bareRepository`), except where a trusted session was begun in one.
"""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from clew.config.own_git import OUTSIDE_SUBMODULES, WITHOUT_FETCHING, with_git_settings
from clew.config.paths import find_places
from clew.config.repository import is_bare, settings_of_repository
from clew.config.trust import trusts

# What no call of clew's own starts, whatever the repository itself names; what a submodule names has another
# beginning (see `settings_of_repository`).
NEVER_STARTED = (
    "alias.", "browser.", "core.alternaterefscommand", "core.editor", "core.fsmonitor", "core.hookspath",
    "core.pager", "credential.", "difftool.", "guitool.", "hooks/", "imap.", "instaweb.", "interactive.",
    "man.", "mergetool.", "pager.", "sendemail.", "sequence.", "tar.", "trailer.",
)  # fmt: skip


class Reading(Struct, frozen=True, kw_only=True):
    """How clew's own calls read a repository: their environment, and more arguments of status and diff."""

    environment: dict[str, str]
    of_status: tuple[str, ...] = ()


def reading_git(environ: Mapping[str, str], folder: Path) -> Reading:
    """Return how to ask git about a folder so that nothing runs that an untrusted repository names."""
    if is_trusted_folder(environ, folder):
        return Reading(environment=dict(environ))
    without = [pair for driver in filters_of(folder) for pair in _without_filter(driver)]
    environment = with_git_settings({**environ, **WITHOUT_FETCHING}, without)
    return Reading(environment=environment, of_status=OUTSIDE_SUBMODULES)


def is_trusted_folder(environ: Mapping[str, str], folder: Path) -> bool:
    """Return whether a session that begins in a folder may start what its files name."""
    return trusts(find_places(environ, folder))


def filters_of(folder: Path) -> list[str]:
    """Return the filters that a repository itself describes, and those that run what it describes."""
    found: dict[str, None] = {}
    for name in settings_of_repository(str(folder)):
        section, _, rest = name.partition(".")
        if section == "filter":
            found[rest.rpartition(".")[0]] = None
        elif section == "lfs":
            found["lfs"] = None
    return list(found)


def _without_filter(driver: str) -> list[tuple[str, str]]:
    words = (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))
    return [(f"filter.{driver}.{word}", value) for word, value in words]


def started_by(environ: Mapping[str, str], folder: Path) -> tuple[str, ...]:
    """Return the settings by which clew's own call that writes would start programs of an untrusted
    repository: filters, merge drivers and the like."""
    if is_trusted_folder(environ, folder):
        return ()
    named = settings_of_repository(str(folder))
    return tuple(name for name in named if not name.startswith(NEVER_STARTED))


def without_bare(environ: Mapping[str, str], folder: Path, *, is_trusted: bool) -> dict[str, str]:
    """Return the variables of commands with which git refuses bare repositories that nobody named."""
    if is_trusted and is_bare(folder):
        return dict(environ)
    return with_git_settings(environ, [("safe.bareRepository", "explicit")])
