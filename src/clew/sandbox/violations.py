"""What a sandboxed command ran into, in words, and what would allow it. Pure.

The kernel does not tell; a program does, in the words of its system. Found are the lines in which
programs say that they could not, about paths and hosts that the policy holds back.
"""

import posixpath
import re
from collections.abc import Iterable

from msgspec import Struct

from clew.sandbox.policy import Policy

HELD_BACK = re.compile(
    r"(?:Read-only file system|Permission denied|Operation not permitted|"
    r"No such file or directory|Invalid cross-device link)"
)
PATHS = re.compile(r"['\"‘`]([^'\"’`\n]+)['\"’`]|((?:~|\.{0,2})/[^\s:;,'\"]+)")
NO_NETWORK = re.compile(
    r"Could not resolve host: (\S+)|Network is unreachable|Temporary failure in name resolution|"
    r"Name or service not known|failed to connect|unable to resolve host address ['‘]?([^'’\s]+)",
    re.IGNORECASE,
)
MOST_LINES = 200
MOST_SHOWN = 5


class Violation(Struct, frozen=True, kw_only=True):
    """One thing held back, and the setting that names what may pass."""

    what: str
    setting: str

    def __str__(self) -> str:
        return f"{self.what} ({self.setting})"


WRITE = "sandbox.filesystem.allowWrite"
READ = "sandbox.filesystem.allowRead"
DOMAINS = "sandbox.network.allowedDomains"


def found(
    output: str, policy: Policy, *, cwd: str, home: str, refused: Iterable[str] = ()
) -> list[Violation]:
    """What the last lines of an output say was held back, and the hosts the proxy refused."""
    told = [Violation(what=f"reaching {host}", setting=DOMAINS) for host in refused]
    for line in output.split("\n")[-MOST_LINES:]:
        if HELD_BACK.search(line):
            for match in PATHS.finditer(line):
                told += about_path(match[1] or match[2], policy, cwd, home)
        network = NO_NETWORK.search(line)
        if network is not None and not refused:
            host = network[1] or network[2]
            told.append(Violation(what=f"reaching {host or 'the network'}", setting=DOMAINS))
    return list(dict.fromkeys(told))[:MOST_SHOWN]


def about_path(text: str, policy: Policy, cwd: str, home: str) -> list[Violation]:
    path = home + text[1:] if text.startswith("~") else text
    path = posixpath.normpath(posixpath.join(cwd, path))
    if not policy.may_read(path):
        return [Violation(what=f"reading {path}", setting=READ)]
    if not policy.may_write(path):
        return [Violation(what=f"writing {path}", setting=WRITE)]
    return []


def words(violations: Iterable[Violation]) -> str:
    """The note beside a command's result; empty if nothing was held back."""
    listed = "; ".join(map(str, violations))
    if not listed:
        return ""
    return (
        f"The sandbox may have held this back: {listed}. Only the user can allow it, by the setting "
        "named, in their own settings."
    )
