"""Options and variables for the git calls that clew makes itself, in every folder.

Imports nothing of weight: a search begins in an interpreter of its own.
"""

import os
from collections.abc import Iterable, Mapping

OWN_GIT = (
    "git",
    "-c", "core.fsmonitor=false",
    "-c", f"core.hooksPath={os.devnull}",
    "-c", "log.showSignature=false",
    "-c", "safe.bareRepository=explicit",
    "--no-pager",
)  # fmt: skip
# Without a call into a submodule, which would read that one's own settings.
OUTSIDE_SUBMODULES = ("--ignore-submodules=dirty",)
# What is missing in a repository is not fetched.
WITHOUT_FETCHING = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}


def with_git_settings(
    environ: Mapping[str, str], settings: Iterable[tuple[str, str]]
) -> dict[str, str]:
    """Return the variables with further settings for git, after those that they hold."""
    told = dict(environ)
    count = told.get("GIT_CONFIG_COUNT", "") or "0"
    if not count.isdecimal():
        return told  # git itself complains
    number = int(count)
    for name, value in settings:
        told |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
        number += 1
    return told | ({"GIT_CONFIG_COUNT": str(number)} if number else {})
